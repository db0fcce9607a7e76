// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HexFormat;
import java.util.function.LongConsumer;
import java.util.zip.CRC32C;

/** CRC-32C of files, by several cores: the checksums of parts give that of the whole. */
public final class Checksum {
    /** What one core reads at a time. */
    private static final int PART = PackedFile.BLOCK;
    private static final int POLYNOMIAL = 0x82F63B78;
    private static final int ONE = 1 << 31;
    private static final int X_TO_THE_8TH = ONE >>> 8;

    private int crc;

    /**
     * That of a file.
     *
     * @param cores that read it
     * @param progress is told how many bytes more were read
     * @return eight hexadecimal digits
     */
    public static String of(final Path file, final Cores cores, final LongConsumer progress)
            throws IOException, InterruptedException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            final Checksum sum = new Checksum();
            final long size = channel.size();
            cores.inOrder((size + PART - 1) / PART, part -> () -> {
                final ByteBuffer buffer = cores.buffer((int) Math.min(PART, size - part * PART));
                readFully(channel, buffer, part * PART);
                final int bytes = buffer.flip().remaining();
                final CRC32C crc = new CRC32C();
                crc.update(buffer);
                cores.giveBack(buffer);
                return new int[] {(int) crc.getValue(), bytes};
            }, part -> {
                sum.append(part[0], part[1]);
                progress.accept(part[1]);
            });
            return sum.text();
        }
    }

    /** Fills the buffer from there on; fails where the file is shorter. */
    static void readFully(final FileChannel channel, final ByteBuffer buffer, final long from) throws IOException {
        long at = from;
        while (buffer.hasRemaining()) {
            final int read = channel.read(buffer, at);
            if (read < 0) {
                throw new IOException("the file ends at byte " + at);
            }
            at += read;
        }
    }

    /** Goes on with so many bytes that have this checksum by themselves. */
    void append(final int crcOfMore, final long bytes) {
        crc = multiply(xToThe(bytes), crc) ^ crcOfMore;
    }

    String text() {
        return HexFormat.of().toHexDigits(crc);
    }

    /** The power of x, modulo the polynomial, by which a checksum is multiplied when so many bytes of zero follow. */
    private static int xToThe(final long bytes) {
        int power = ONE;
        int square = X_TO_THE_8TH;
        for (long n = bytes; n > 0; n >>= 1) {
            if ((n & 1) != 0) {
                power = multiply(square, power);
            }
            square = multiply(square, square);
        }
        return power;
    }

    /** Of polynomials with bits in reverse order; the first is not zero. */
    private static int multiply(final int a, final int b) {
        int product = 0;
        int shifted = b;
        for (int bit = ONE; bit != 0; bit >>>= 1) {
            if ((a & bit) != 0) {
                product ^= shifted;
            }
            shifted = (shifted & 1) != 0 ? shifted >>> 1 ^ POLYNOMIAL : shifted >>> 1;
        }
        return product;
    }
}
