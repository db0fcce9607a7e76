// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.images.Checksum;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.images.Cores;
import org.shadowverbs.coordinator.images.PackedFile;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/** The files of an image: checksums, and that they are on the disk. */
final class ImageFiles {
    private ImageFiles() {
    }

    /** Says how a file is to be compressed. */
    interface Choice {
        Compression of(Path file) throws IOException;
    }

    /** Takes every file of a folder from others, compresses those with memory, and makes all durable, the folder too. */
    static List<ImageFile> seal(final Path folder, final Choice choice, final Cores cores, final Progress progress)
            throws IOException, CheckpointException, InterruptedException {
        final List<ImageFile> files = Parallel.each(paths(folder), cores.count(), path -> {
            Files.setPosixFilePermissions(path, PrivateFiles.FILE.value());
            final String name = path.getFileName().toString();
            final Compression compression = holdsMemory(name) ? choice.of(path) : Compression.NONE;
            final String sealed = name + compression.suffix();
            final PackedFile.Written written = sealed.equals(name) ? PackedFile.seal(path, cores, progress::more)
                    : PackedFile.pack(path, folder.resolve(sealed), compression, cores, progress::more);
            return new ImageFile(sealed, written.bytes(), written.crc32c());
        });
        force(folder);
        force(folder.getParent());
        return files;
    }

    /** Whether it is a file of pages, by the name that CRIU gives it. */
    private static boolean holdsMemory(final String name) {
        return name.startsWith("pages-") && name.endsWith(".img");
    }

    /** Whether an image that builds on this one needs the file. */
    static boolean isOfMemory(final ImageFile file) {
        return file.name().startsWith("pages-") || file.name().startsWith("pagemap-");
    }

    private static List<Path> paths(final Path folder) throws IOException {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.sorted().toList();
        }
    }

    /** What a folder holds by now. */
    static long bytes(final Path folder) {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.mapToLong(entry -> entry.toFile().length()).sum();
        } catch (final IOException | UncheckedIOException e) {
            return 0; // The next look tells.
        }
    }

    /** Compares a folder with what was recorded. */
    static List<Finding> verify(final String subject, final Path folder, final List<ImageFile> files, final Cores cores,
            final Progress progress) throws InterruptedException {
        try {
            return Parallel.each(files, cores.count(), file -> {
                final String problem = difference(folder.resolve(file.name()), file, cores, progress);
                return problem.isEmpty() ? List.<Finding>of() : List.of(new Finding(
                        subject, "image " + folder.resolve(file.name()) + " " + problem, "use another checkpoint"));
            }).stream().flatMap(List::stream).toList();
        } catch (final IOException | CheckpointException e) {
            throw new IllegalStateException(e); // It finds problems, and throws none.
        }
    }

    private static String difference(final Path path, final ImageFile file, final Cores cores, final Progress progress)
            throws InterruptedException {
        if (!Files.exists(path)) {
            return "is missing";
        }
        try {
            if (Files.size(path) != file.bytes()) {
                return "is damaged: it has " + Files.size(path) + " bytes instead of " + file.bytes();
            }
            final String checksum = Checksum.of(path, cores, progress::more);
            return checksum.equals(file.crc32c())
                    ? ""
                    : "is damaged: its CRC-32C is " + checksum + " instead of " + file.crc32c();
        } catch (final IOException e) {
            return "cannot be read: " + e.getMessage();
        }
    }

    private static void force(final Path folder) throws IOException {
        try (FileChannel channel = FileChannel.open(folder)) {
            channel.force(true);
        }
    }
}
