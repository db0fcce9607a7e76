// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.levels;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.shadowverbs.coordinator.images.Checksum;
import org.shadowverbs.coordinator.images.Cores;
import org.shadowverbs.coordinator.images.VerifiedFile;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.process.ImageFile;
import org.shadowverbs.coordinator.process.ImageLayer;
import org.shadowverbs.coordinator.process.Progress;
import org.shadowverbs.coordinator.process.TreeImage;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * Makes a copy of one host's images, with all that they build on. Each file is verified as it is written, by the manifest's checksum; one
 * that is there already and good stays, so a copy that was broken off goes on, and one that was damaged is mended.
 */
public final class ImageCopy {
    private ImageCopy() {
    }

    /** Where files come from. */
    public interface Source extends AutoCloseable {
        /**
         * Reads a file from its beginning to its end.
         *
         * @param path CHECKPOINT/HOST/TREE/FILE
         * @param sink takes its pieces, each of {@link VerifiedFile#PIECE} bytes but for the last
         */
        void read(String path, Sink sink) throws IOException;

        @Override
        void close() throws IOException;
    }

    /** Takes a file. */
    public interface Sink {
        void take(ByteBuffer piece) throws IOException;
    }

    /**
     * A file that a host's images need.
     *
     * @param folder that it is in, CHECKPOINT/HOST/TREE
     */
    public record Item(String folder, ImageFile file) {
        String path() {
            return folder + "/" + file.name();
        }
    }

    /** Files of this host, in a folder of checkpoints. */
    public static Source from(final Path root) {
        return new Source() {
            @Override
            public void read(final String path, final Sink sink) throws IOException {
                try (FileChannel channel = FileChannel.open(root.resolve(path), StandardOpenOption.READ)) {
                    final ByteBuffer piece = ByteBuffer.allocate(VerifiedFile.PIECE);
                    int n;
                    do {
                        do {
                            n = channel.read(piece);
                        } while (n >= 0 && piece.hasRemaining());
                        sink.take(piece.flip());
                        piece.clear();
                    } while (n >= 0);
                }
            }

            @Override
            public void close() {
                // Each file is closed when it is read.
            }
        };
    }

    /** All files that restoring the part needs. @param checkpoint name of its folder */
    public static List<Item> items(final String checkpoint, final Manifest.HostPart part) {
        final List<Item> items = new ArrayList<>();
        for (final TreeImage tree : part.images().trees()) {
            tree.files().forEach(file -> items.add(new Item(checkpoint + "/" + part.directory() + "/" + tree.directory(), file)));
            for (final ImageLayer layer : tree.layers()) {
                final String of = layer.checkpoint().isEmpty() ? checkpoint : layer.checkpoint();
                layer.files().forEach(file -> items.add(new Item(of + "/" + layer.directory(), file)));
            }
        }
        return items;
    }

    /**
     * Makes the copy.
     *
     * @param root a folder of checkpoints
     * @param make whether a checkpoint's folder that is not there is made in it; else it has been removed, and nothing is copied
     * @return how many bytes were copied
     * @throws IOException some file could not be copied, or is not what was written; the message names it
     */
    public static long copy(final String checkpoint, final Manifest.HostPart part, final Source source, final Path root,
            final boolean make, final Progress progress) throws IOException, InterruptedException {
        final Set<Path> folders = new LinkedHashSet<>();
        long bytes = 0;
        try (Cores cores = new Cores()) {
            for (final Item item : items(checkpoint, part)) {
                final Path of = root.resolve(item.folder().substring(0, item.folder().indexOf('/')));
                if (!make && !Files.isDirectory(of)) {
                    throw new IOException(of + " has been removed");
                }
                final Path folder = root.resolve(item.folder());
                Files.createDirectories(folder, PrivateFiles.FOLDER);
                for (Path up = folder; up.startsWith(of); up = up.getParent()) {
                    folders.add(up);
                }
                final Path file = folder.resolve(item.file().name());
                if (problem(file, item.file(), cores, progress).isEmpty()) {
                    continue;
                }
                copy(item, source, file, progress);
                bytes += item.file().bytes();
            }
        }
        for (final Path folder : folders) {
            try (FileChannel channel = FileChannel.open(folder)) {
                channel.force(true);
            }
        }
        return bytes;
    }

    private static void copy(final Item item, final Source source, final Path file, final Progress progress) throws IOException {
        try (VerifiedFile copy = new VerifiedFile(file)) {
            source.read(item.path(), piece -> {
                progress.more(piece.remaining());
                copy.write(piece);
            });
            copy.finish(item.file().bytes(), item.file().crc32c());
        } catch (NoSuchFileException e) {
            throw new IOException("image " + e.getFile() + " is missing", e);
        } catch (IOException e) {
            throw new IOException("image " + item.path() + ": " + (e.getMessage() == null ? e.toString() : e.getMessage()), e);
        }
    }

    /**
     * Compares all files that restoring the part needs with what was written.
     *
     * @return the first that is not there or not the same; empty when all are
     */
    public static String problem(final String checkpoint, final Manifest.HostPart part, final Path root, final Progress progress)
            throws InterruptedException {
        try (Cores cores = new Cores()) {
            for (final Item item : items(checkpoint, part)) {
                final String problem = problem(root.resolve(item.path()), item.file(), cores, progress);
                if (!problem.isEmpty()) {
                    return "image " + root.resolve(item.path()) + " " + problem;
                }
            }
            return "";
        }
    }

    private static String problem(final Path path, final ImageFile file, final Cores cores, final Progress progress)
            throws InterruptedException {
        try {
            if (!Files.exists(path)) {
                return "is missing";
            }
            if (Files.size(path) != file.bytes()) {
                return "is damaged: it has " + Files.size(path) + " bytes instead of " + file.bytes();
            }
            final String checksum = Checksum.of(path, cores, progress::more);
            return checksum.equals(file.crc32c()) ? ""
                    : "is damaged: its CRC-32C is " + checksum + " instead of " + file.crc32c();
        } catch (final IOException e) {
            return "cannot be read: " + e.getMessage();
        }
    }
}
