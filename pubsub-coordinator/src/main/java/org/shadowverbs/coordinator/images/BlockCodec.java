// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import net.jpountz.lz4.LZ4Exception;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.xxhash.XXHashFactory;

/**
 * One block of a file as one frame of the LZ4 frame format 1.6 or of Zstandard (RFC 8878), and back. Each frame stands by itself,
 * so a file of them can be read by the usual tools, and by several threads. Methods may be called by any thread.
 */
abstract sealed class BlockCodec {
    static BlockCodec of(final Compression compression) {
        return switch (compression.method()) {
            case LZ4 -> Lz4.INSTANCE;
            case ZSTD -> new Zstandard(compression.level());
            default -> throw new IllegalArgumentException(compression + " has no frames");
        };
    }

    /** The most bytes that a frame of a block of so many bytes has. */
    abstract int longest(int bytes);

    /** Appends the frame of what is left in a direct buffer to another one. */
    abstract void encode(ByteBuffer block, ByteBuffer frame);

    /** Appends the block of which a direct buffer holds the frame to another one. */
    abstract void decode(ByteBuffer frame, ByteBuffer block) throws IOException;

    private static final class Zstandard extends BlockCodec {
        private final int level;

        Zstandard(final int level) {
            this.level = level;
        }

        @Override
        int longest(final int bytes) {
            return Math.toIntExact(Zstd.compressBound(bytes));
        }

        @Override
        void encode(final ByteBuffer block, final ByteBuffer frame) {
            final long written = Zstd.compressDirectByteBuffer(frame, frame.position(), frame.remaining(), block, block.position(),
                    block.remaining(), level);
            frame.position(frame.position() + (int) written);
            block.position(block.limit());
        }

        @Override
        void decode(final ByteBuffer frame, final ByteBuffer block) throws IOException {
            final long read;
            try {
                read = Zstd.decompressDirectByteBuffer(block, block.position(), block.remaining(), frame, frame.position(),
                        frame.remaining());
            } catch (final ZstdException e) {
                throw new IOException("zstd: " + e.getMessage(), e);
            }
            block.position(block.position() + (int) read);
        }
    }

    private static final class Lz4 extends BlockCodec {
        static final Lz4 INSTANCE = new Lz4();

        private static final int MAGIC = 0x184D2204;
        /** Version 1, blocks by themselves, the length of the content is said, and no checksums: the file has one. */
        private static final byte FLAGS = 0x68;
        /** Blocks of at most 1 MiB. */
        private static final byte BLOCKS = 0x60;
        private static final int HEADER = 15;
        private static final int DESCRIPTOR_AT = 4;
        private static final int DESCRIPTOR = 10;
        private static final int AROUND = HEADER + 8;
        private static final int STORED = 1 << 31;
        private static final int CHECK_SHIFT = 8;

        @Override
        int longest(final int bytes) {
            return AROUND + LZ4Factory.fastestInstance().fastCompressor().maxCompressedLength(bytes);
        }

        @Override
        void encode(final ByteBuffer block, final ByteBuffer frame) {
            final ByteBuffer out = frame.order(ByteOrder.LITTLE_ENDIAN);
            final int begin = out.position();
            out.putInt(MAGIC).put(FLAGS).put(BLOCKS).putLong(block.remaining());
            out.put((byte) (XXHashFactory.fastestInstance().hash32().hash(out, begin + DESCRIPTOR_AT, DESCRIPTOR, 0) >> CHECK_SHIFT));
            final int at = out.position() + Integer.BYTES;
            final int length = LZ4Factory.fastestInstance().fastCompressor().compress(block, block.position(), block.remaining(),
                    out, at, out.limit() - at - Integer.BYTES);
            if (length < block.remaining()) {
                out.putInt(length).position(at + length);
                block.position(block.limit());
            } else {
                out.putInt(block.remaining() | STORED).put(block);
            }
            out.putInt(0);
        }

        @Override
        void decode(final ByteBuffer frame, final ByteBuffer block) throws IOException {
            final ByteBuffer in = frame.order(ByteOrder.LITTLE_ENDIAN);
            final int begin = in.position();
            if (in.remaining() < AROUND || in.getInt(begin) != MAGIC || in.get(begin + DESCRIPTOR_AT) != FLAGS) {
                throw new IOException("lz4: no frame");
            }
            in.position(begin + HEADER);
            final int length = in.getInt();
            final int bytes = length & ~STORED;
            if (bytes > in.remaining()) {
                throw new IOException("lz4: a block of " + bytes + " bytes in a frame that has " + in.remaining());
            }
            if ((length & STORED) != 0) {
                block.put(in.slice(in.position(), bytes));
                return;
            }
            try {
                block.position(block.position() + LZ4Factory.fastestInstance().safeDecompressor()
                        .decompress(in, in.position(), bytes, block, block.position(), block.remaining()));
            } catch (final LZ4Exception e) {
                throw new IOException("lz4: " + e.getMessage(), e);
            }
        }
    }
}
