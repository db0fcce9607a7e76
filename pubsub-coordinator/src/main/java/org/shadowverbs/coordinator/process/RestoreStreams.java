// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Path;

/** What takes the place of descriptors 0 to 2 of restored processes that led out of the job: files that are opened anew. */
public interface RestoreStreams {
    /**
     * What a descriptor becomes.
     *
     * @param number 0: one that is read, 1 or 2: one that is written
     * @param target what the kernel called it when the image was made, for example "pipe:[1234]"
     * @return the path of what is opened
     */
    Path of(int number, String target);

    /**
     * The same for all.
     *
     * @param stdin  what is opened for reading
     * @param stdout what is opened as descriptor 1
     * @param stderr what is opened as descriptor 2
     * @return these
     */
    static RestoreStreams of(final Path stdin, final Path stdout, final Path stderr) {
        return (number, target) -> number == 0 ? stdin : number == 1 ? stdout : stderr;
    }
}
