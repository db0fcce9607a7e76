// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.zip.CRC32C;

/** The files of an image: checksums, and that they are on the disk. */
final class ImageFiles {
    private static final int BUFFER = 1 << 20;

    private ImageFiles() {
    }

    /** Checksums every file of a folder and makes all durable, the folder too. */
    static List<ImageFile> seal(final Path folder) throws IOException {
        final List<ImageFile> files = new ArrayList<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
            for (final Path entry : entries) {
                try (FileChannel channel =
                        FileChannel.open(entry, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                    files.add(new ImageFile(entry.getFileName().toString(), channel.size(), checksum(channel)));
                    channel.force(true);
                }
            }
        }
        files.sort((a, b) -> a.name().compareTo(b.name()));
        force(folder);
        force(folder.getParent());
        return files;
    }

    /** Compares a folder with what was recorded. */
    static List<Finding> verify(final String subject, final Path folder, final List<ImageFile> files) {
        final List<Finding> findings = new ArrayList<>();
        for (final ImageFile file : files) {
            final String problem = difference(folder.resolve(file.name()), file);
            if (!problem.isEmpty()) {
                findings.add(new Finding(
                        subject, "image " + folder.resolve(file.name()) + " " + problem, "use another checkpoint"));
            }
        }
        return findings;
    }

    private static String difference(final Path path, final ImageFile file) {
        if (!Files.exists(path)) {
            return "is missing";
        }
        try (FileChannel channel = FileChannel.open(path)) {
            if (channel.size() != file.bytes()) {
                return "is damaged: it has " + channel.size() + " bytes instead of " + file.bytes();
            }
            final String checksum = checksum(channel);
            return checksum.equals(file.crc32c())
                    ? ""
                    : "is damaged: its CRC-32C is " + checksum + " instead of " + file.crc32c();
        } catch (final IOException e) {
            return "cannot be read: " + e.getMessage();
        }
    }

    private static String checksum(final FileChannel channel) throws IOException {
        final CRC32C crc = new CRC32C();
        final ByteBuffer buffer = ByteBuffer.allocateDirect(Math.clamp(channel.size(), 1, BUFFER));
        while (channel.read(buffer) >= 0) {
            crc.update(buffer.flip());
            buffer.clear();
        }
        return HexFormat.of().toHexDigits((int) crc.getValue());
    }

    private static void force(final Path folder) throws IOException {
        try (FileChannel channel = FileChannel.open(folder)) {
            channel.force(true);
        }
    }
}
