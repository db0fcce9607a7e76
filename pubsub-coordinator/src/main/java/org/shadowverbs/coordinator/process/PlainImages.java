// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.images.Cores;
import org.shadowverbs.coordinator.images.PackedFile;

/**
 * Images as CRIU reads them, in folders of their own: links to the files that are as it has written them, and those that were
 * compressed, plain again. The folder of an image that builds on others has a link to the next of them.
 */
final class PlainImages {
    /** By this name CRIU looks for what an image builds on. */
    static final String PARENT = "parent";

    private PlainImages() {
    }

    /** How much of a tree is compressed; bytes when it is plain. */
    static long packedBytes(final Path imageDirectory, final TreeImage tree) throws IOException {
        long bytes = packedBytes(imageDirectory.resolve(tree.directory()), tree.files());
        for (final ImageLayer layer : tree.layers()) {
            bytes += packedBytes(layer.folder(imageDirectory), layer.files());
        }
        return bytes;
    }

    private static long packedBytes(final Path folder, final List<ImageFile> files) throws IOException {
        long bytes = 0;
        for (final ImageFile file : files) {
            bytes += isPacked(file) ? PackedFile.plainBytes(folder.resolve(file.name())) : 0;
        }
        return bytes;
    }

    private static boolean isPacked(final ImageFile file) {
        return !Compression.ofFile(file.name()).equals(Compression.NONE);
    }

    /**
     * Makes the folders of a tree.
     *
     * @param work where they are made; it must be there
     * @param without files that somebody else makes
     * @return that of the tree
     */
    static Path make(final Path imageDirectory, final TreeImage tree, final Path work, final Set<String> without, final Cores cores,
            final Progress progress) throws IOException, InterruptedException {
        final Path images = Files.createDirectory(work.resolve("images"));
        fill(images, imageDirectory.resolve(tree.directory()), tree.files(), without, cores, progress);
        Path below = images;
        for (final ImageLayer layer : tree.layers()) {
            final Path folder = Files.createDirectory(work.resolve("layer-" + tree.layers().indexOf(layer)));
            fill(folder, layer.folder(imageDirectory), layer.files(), Set.of(), cores, progress);
            Files.createSymbolicLink(below.resolve(PARENT), folder);
            below = folder;
        }
        return images;
    }

    private static void fill(final Path folder, final Path saved, final List<ImageFile> files, final Set<String> without,
            final Cores cores, final Progress progress) throws IOException, InterruptedException {
        for (final ImageFile file : files) {
            final Path from = saved.resolve(file.name()).toAbsolutePath();
            if (isPacked(file)) {
                PackedFile.unpack(from, folder.resolve(Compression.plainName(file.name())), cores, progress::more);
            } else if (!without.contains(file.name())) {
                Files.createSymbolicLink(folder.resolve(file.name()), from);
            }
        }
    }
}
