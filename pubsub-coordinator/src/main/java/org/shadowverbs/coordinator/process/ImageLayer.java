// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Path;
import java.util.List;

/**
 * Memory that an image does not have because it had not been written to since it was saved before: the files of that one.
 *
 * @param checkpoint the folder of the checkpoint that has them, by its name; empty: the same one
 * @param directory  their folder, relative to that one
 * @param files      page maps and pages
 */
public record ImageLayer(String checkpoint, String directory, List<ImageFile> files) {
    /**
     * Where it is.
     *
     * @param imageDirectory that of the image that builds on it: a host's folder in a checkpoint's, beside which the others are
     * @return its folder
     */
    public Path folder(final Path imageDirectory) {
        final Path own = imageDirectory.toAbsolutePath().getParent();
        return (checkpoint.isEmpty() ? own : own.resolveSibling(checkpoint)).resolve(directory);
    }
}
