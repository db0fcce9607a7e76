// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;

/**
 * What stands behind the frames of a compressed file and says how long each is: the seek table of the Zstandard seekable format
 * 0.1.0, without checksums, in a skippable frame, which the tools of both formats skip.
 *
 * @param frames lengths of the frames, bytes
 * @param blocks lengths of what they are compressed from, bytes
 */
record SeekTable(int[] frames, int[] blocks) {
    private static final int SKIPPABLE = 0x184D2A5E;
    private static final int SEEKABLE = 0x8F92EAB1;
    private static final int HEADER = 8;
    private static final int ENTRY = 8;
    private static final int FOOTER = 9;

    /** As it is written. */
    ByteBuffer encode() {
        final ByteBuffer out = ByteBuffer.allocate(HEADER + frames.length * ENTRY + FOOTER).order(ByteOrder.LITTLE_ENDIAN);
        out.putInt(SKIPPABLE).putInt(frames.length * ENTRY + FOOTER);
        for (int i = 0; i < frames.length; i++) {
            out.putInt(frames[i]).putInt(blocks[i]);
        }
        return out.putInt(frames.length).put((byte) 0).putInt(SEEKABLE).flip();
    }

    /** That of a file. */
    static SeekTable read(final FileChannel channel) throws IOException {
        final long size = channel.size();
        final ByteBuffer footer = ByteBuffer.allocate(FOOTER).order(ByteOrder.LITTLE_ENDIAN);
        if (size < HEADER + FOOTER) {
            throw new IOException("it has no seek table");
        }
        Checksum.readFully(channel, footer, size - FOOTER);
        final int count = footer.flip().getInt();
        if (footer.get() != 0 || footer.getInt() != SEEKABLE || count < 0 || (long) count * ENTRY + HEADER + FOOTER > size) {
            throw new IOException("it has no seek table");
        }
        final ByteBuffer table = ByteBuffer.allocate(count * ENTRY).order(ByteOrder.LITTLE_ENDIAN);
        Checksum.readFully(channel, table, size - FOOTER - table.capacity());
        table.flip();
        final SeekTable read = new SeekTable(new int[count], new int[count]);
        long frames = 0;
        for (int i = 0; i < count; i++) {
            read.frames[i] = table.getInt();
            read.blocks[i] = table.getInt();
            frames += read.frames[i];
            if (read.frames[i] < 0 || read.frames[i] > Cores.BUFFER || read.blocks[i] < 0 || read.blocks[i] > PackedFile.BLOCK) {
                throw new IOException("its seek table is wrong");
            }
        }
        if (frames + HEADER + table.capacity() + FOOTER != size) {
            throw new IOException("its seek table is of another length");
        }
        return read;
    }
}
