// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.zip.CRC32C;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * A copy of a file that is there when it is whole, as its checksum says, and durable; until then it has another name. Pages of zeros
 * take no space.
 */
public final class VerifiedFile implements AutoCloseable {
    /** How much is to be written at a time, but for the last: a multiple of a page. */
    public static final int PIECE = 1 << 20;
    /** Of the whole file at once nobody would see how far it has come. */
    private static final long FLUSH = 64L << 20;

    private final Path file;
    private final Path part;
    private final FileChannel channel;
    private final CRC32C crc = new CRC32C();
    private long bytes;
    private long flushed;
    private boolean whole;

    /** A run of pages of zeros in a piece. */
    private record Hole(int from, int bytes) {
    }

    /** @param file in a folder that is there; one of that name is replaced in the end */
    public VerifiedFile(final Path file) throws IOException {
        this.file = file;
        part = file.resolveSibling(file.getFileName() + ".part");
        Files.deleteIfExists(part);
        channel = FileChannel.open(part, Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE), PrivateFiles.FILE);
    }

    /** Writes all that is left in the buffer. */
    public void write(final ByteBuffer piece) throws IOException {
        crc.update(piece.duplicate());
        final int from = piece.position();
        int done = 0;
        for (final Hole hole : holes(piece)) {
            put(piece.slice(from + done, hole.from() - done), bytes + done);
            done = hole.from() + hole.bytes();
        }
        put(piece.slice(from + done, piece.remaining() - done), bytes + done);
        bytes += piece.remaining();
        piece.position(piece.limit());
        if (bytes - flushed >= FLUSH) {
            channel.force(false);
            flushed = bytes;
        }
    }

    private static List<Hole> holes(final ByteBuffer piece) {
        final List<Hole> holes = new ArrayList<>();
        Zeros.runs(piece, (from, length) -> holes.add(new Hole(from, length)));
        return holes;
    }

    private void put(final ByteBuffer data, final long at) throws IOException {
        for (long to = at; data.hasRemaining();) {
            to += channel.write(data, to);
        }
    }

    /**
     * All is written: gives it its name, if it is what it is to be.
     *
     * @throws IOException it is not, or is not durable
     */
    public void finish(final long wanted, final String crc32c) throws IOException {
        final String is = HexFormat.of().toHexDigits((int) crc.getValue());
        if (bytes != wanted) {
            throw new IOException("it has " + bytes + " bytes instead of " + wanted);
        }
        if (!is.equals(crc32c)) {
            throw new IOException("its CRC-32C is " + is + " instead of " + crc32c);
        }
        if (channel.size() < bytes) {
            channel.write(ByteBuffer.wrap(new byte[1]), bytes - 1); // it ends with a page of zeros
        }
        channel.force(true);
        channel.close();
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        whole = true;
    }

    @Override
    public void close() throws IOException {
        channel.close();
        if (!whole) {
            Files.deleteIfExists(part);
        }
    }
}
