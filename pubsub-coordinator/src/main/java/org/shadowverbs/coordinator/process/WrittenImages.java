// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import org.shadowverbs.coordinator.images.Compression;

/** Images that are written and are not safe yet. Their processes may run on: what is in the images does not change any more. */
public interface WrittenImages {
    /**
     * How much was written.
     *
     * @return bytes of all files
     */
    long bytes();

    /**
     * Compresses, checksums and makes durable what was written. To be called once.
     *
     * @param compression of the files that hold memory
     * @param progress    of it
     * @return what is there then, for the manifest
     * @throws CheckpointException if it cannot be done; the images are of no use then
     */
    HostImages seal(Compression compression, Progress progress) throws CheckpointException;
}
