// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/** The files of an image: checksums, and that they are on the disk. */
final class ImageFiles {
    private static final int BUFFER = 1 << 20;
    private static final long FLUSH = 64L << 20;

    private ImageFiles() {
    }

    /** Takes every file of a folder from others, checksums it and makes all durable, the folder too. */
    static List<ImageFile> seal(final Path folder, final int threads, final Progress progress)
            throws IOException, CheckpointException, InterruptedException {
        final List<ImageFile> files = Parallel.each(paths(folder), threads, path -> {
            Files.setPosixFilePermissions(path, PrivateFiles.FILE.value());
            try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                final String checksum = checksum(channel, true, progress);
                channel.force(true);
                return new ImageFile(path.getFileName().toString(), channel.size(), checksum);
            }
        });
        force(folder);
        force(folder.getParent());
        return files;
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
    static List<Finding> verify(final String subject, final Path folder, final List<ImageFile> files,
            final Progress progress) throws InterruptedException {
        try {
            return Parallel.each(files, Parallel.threads(), file -> {
                final String problem = difference(folder.resolve(file.name()), file, progress);
                return problem.isEmpty() ? List.<Finding>of() : List.of(new Finding(
                        subject, "image " + folder.resolve(file.name()) + " " + problem, "use another checkpoint"));
            }).stream().flatMap(List::stream).toList();
        } catch (final IOException | CheckpointException e) {
            throw new IllegalStateException(e); // It finds problems, and throws none.
        }
    }

    private static String difference(final Path path, final ImageFile file, final Progress progress) {
        if (!Files.exists(path)) {
            return "is missing";
        }
        try (FileChannel channel = FileChannel.open(path)) {
            if (channel.size() != file.bytes()) {
                return "is damaged: it has " + channel.size() + " bytes instead of " + file.bytes();
            }
            final String checksum = checksum(channel, false, progress);
            return checksum.equals(file.crc32c())
                    ? ""
                    : "is damaged: its CRC-32C is " + checksum + " instead of " + file.crc32c();
        } catch (final IOException e) {
            return "cannot be read: " + e.getMessage();
        }
    }

    private static String checksum(final FileChannel channel, final boolean flush, final Progress progress)
            throws IOException {
        final CRC32C crc = new CRC32C();
        final ByteBuffer buffer = ByteBuffer.allocateDirect(Math.clamp(channel.size(), 1, BUFFER));
        long flushed = 0;
        long at = 0;
        for (int read = channel.read(buffer); read >= 0; read = channel.read(buffer)) {
            crc.update(buffer.flip());
            buffer.clear();
            at += read;
            if (flush && at - flushed >= FLUSH) {
                flush(channel, flushed, at - flushed);
                flushed = at;
            }
            progress.more(read);
        }
        return HexFormat.of().toHexDigits((int) crc.getValue());
    }

    /** Has a part written to the disk: of the whole file at once nobody would see how far it has come. */
    private static void flush(final FileChannel channel, final long from, final long bytes) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            channel.map(FileChannel.MapMode.READ_WRITE, from, bytes, arena).force();
        }
    }

    private static void force(final Path folder) throws IOException {
        try (FileChannel channel = FileChannel.open(folder)) {
            channel.force(true);
        }
    }
}
