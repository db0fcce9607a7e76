// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.LongConsumer;
import java.util.zip.CRC32C;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/** A compressed file: frames of blocks of 1 MiB, then a {@link SeekTable}. It is written and read by several cores. */
public final class PackedFile {
    /** What is compressed by itself. */
    static final int BLOCK = 1 << 20;
    /** So much of the plain file is given back at a time. */
    private static final long GIVE_BACK = 32L << 20;

    /**
     * A file that is on the disk.
     *
     * @param bytes its size
     * @param crc32c its CRC-32C, eight hexadecimal digits
     */
    public record Written(long bytes, String crc32c) {
    }

    private record Frame(ByteBuffer bytes, int block, int crc) {
    }

    private PackedFile() {
    }

    /**
     * Compresses a file, makes the result durable, and removes the file. Its space is given back as it is read, as far as the file
     * system can: together they do not take more than the larger of them.
     *
     * @param plain what is to be compressed
     * @param packed what is made
     * @param compression neither none nor automatic
     * @param progress is told how many bytes more were read or written
     * @throws IOException when it cannot be written; then there is no compressed file, and the plain one may not be whole
     */
    public static Written pack(final Path plain, final Path packed, final Compression compression, final Cores cores,
            final LongConsumer progress) throws IOException, InterruptedException {
        boolean done = false;
        try (FileChannel in = FileChannel.open(plain, StandardOpenOption.READ); FileSpace space = new FileSpace(plain);
                FileChannel out = FileChannel.open(packed, Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE,
                        StandardOpenOption.READ), PrivateFiles.FILE)) {
            final Checksum sum = new Checksum();
            final Flusher flusher = new Flusher(out, progress);
            final List<int[]> lengths = new ArrayList<>();
            final long size = in.size();
            final long[] given = {0};
            final BlockCodec codec = BlockCodec.of(compression);
            cores.inOrder((size + BLOCK - 1) / BLOCK, block -> () -> frame(in, codec, block, size, cores), frame -> {
                lengths.add(new int[] {frame.bytes().remaining(), frame.block()});
                sum.append(frame.crc(), frame.bytes().remaining());
                flusher.write(frame.bytes());
                cores.giveBack(frame.bytes());
                final long read = (long) lengths.size() * BLOCK;
                if (read - given[0] >= GIVE_BACK) {
                    space.giveBack(given[0], read - given[0]);
                    given[0] = read;
                }
                progress.accept(frame.block());
            });
            final ByteBuffer table = new SeekTable(lengths.stream().mapToInt(l -> l[0]).toArray(),
                    lengths.stream().mapToInt(l -> l[1]).toArray()).encode();
            final CRC32C crc = new CRC32C();
            crc.update(table.duplicate());
            sum.append((int) crc.getValue(), table.remaining());
            flusher.write(table);
            out.force(true);
            done = true;
            final Written written = new Written(out.size(), sum.text());
            Files.delete(plain);
            return written;
        } finally {
            if (!done) {
                Files.deleteIfExists(packed);
            }
        }
    }

    private static Frame frame(final FileChannel in, final BlockCodec codec, final long number, final long size,
            final Cores cores) throws IOException {
        final ByteBuffer block = cores.buffer((int) Math.min(BLOCK, size - number * BLOCK));
        Checksum.readFully(in, block, number * BLOCK);
        final int bytes = block.flip().remaining();
        final ByteBuffer frame = cores.buffer(codec.longest(bytes));
        codec.encode(block, frame);
        cores.giveBack(block);
        final CRC32C crc = new CRC32C();
        crc.update(frame.flip().duplicate());
        return new Frame(frame, bytes, (int) crc.getValue());
    }

    /** Makes a file durable as it is, and gives back the space of blocks of zeros in it. */
    public static Written seal(final Path plain, final Cores cores, final LongConsumer progress)
            throws IOException, InterruptedException {
        try (FileChannel channel = FileChannel.open(plain, StandardOpenOption.READ, StandardOpenOption.WRITE);
                FileSpace space = new FileSpace(plain)) {
            final Checksum sum = new Checksum();
            final Flusher flusher = new Flusher(channel, progress);
            final long size = channel.size();
            final long[] at = {0};
            cores.inOrder((size + BLOCK - 1) / BLOCK, number -> () -> {
                final ByteBuffer block = cores.buffer((int) Math.min(BLOCK, size - number * BLOCK));
                Checksum.readFully(channel, block, number * BLOCK);
                Zeros.runs(block.flip(), (from, bytes) -> space.giveBack(number * BLOCK + from, bytes));
                final CRC32C crc = new CRC32C();
                crc.update(block.duplicate());
                final int[] result = {(int) crc.getValue(), block.remaining()};
                cores.giveBack(block);
                return result;
            }, block -> {
                sum.append(block[0], block[1]);
                at[0] += block[1];
                progress.accept(block[1]);
                flusher.flush(at[0]);
            });
            channel.force(true);
            return new Written(size, sum.text());
        }
    }

    /** How many bytes a compressed file has when it is plain again. */
    public static long plainBytes(final Path packed) throws IOException {
        try (FileChannel in = FileChannel.open(packed, StandardOpenOption.READ)) {
            long bytes = 0;
            for (final int block : SeekTable.read(in).blocks()) {
                bytes += block;
            }
            return bytes;
        }
    }

    /**
     * Makes the plain file of a compressed one.
     *
     * @param packed its name says how it is compressed
     * @param progress is told how many bytes more were written
     * @throws IOException when it is damaged or cannot be written; the message names the file
     */
    public static void unpack(final Path packed, final Path plain, final Cores cores, final LongConsumer progress)
            throws IOException, InterruptedException {
        final BlockCodec codec = BlockCodec.of(Compression.ofFile(packed.getFileName().toString()));
        try (FileChannel in = FileChannel.open(packed, StandardOpenOption.READ);
                FileChannel out = FileChannel.open(plain, Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE),
                        PrivateFiles.FILE)) {
            final SeekTable table = SeekTable.read(in);
            final long[] from = new long[table.frames().length];
            for (int i = 1; i < from.length; i++) {
                from[i] = from[i - 1] + table.frames()[i - 1];
            }
            cores.inOrder(from.length, i -> () -> {
                final int number = (int) i;
                final ByteBuffer frame = cores.buffer(table.frames()[number]);
                Checksum.readFully(in, frame, from[number]);
                final ByteBuffer block = cores.buffer(table.blocks()[number]);
                codec.decode(frame.flip(), block);
                cores.giveBack(frame);
                if (block.hasRemaining()) {
                    throw new IOException("block " + number + " is too short");
                }
                return block.flip();
            }, block -> {
                progress.accept(block.remaining());
                while (block.hasRemaining()) {
                    out.write(block);
                }
                cores.giveBack(block);
            });
        } catch (final IOException e) {
            throw new IOException(packed + " cannot be decompressed: " + e.getMessage(), e);
        }
    }
}
