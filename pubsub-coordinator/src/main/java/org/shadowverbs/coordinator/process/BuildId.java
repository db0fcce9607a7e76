// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.HexFormat;

/** The GNU build id of an ELF file: elf(5), PT_NOTE, NT_GNU_BUILD_ID. */
final class BuildId {
    private static final int MAGIC = 0x464c457f;
    private static final int HEADER = 64;
    private static final int PROGRAM_HEADER = 56;
    private static final int PT_NOTE = 4;
    private static final int NT_GNU_BUILD_ID = 3;
    private static final int GNU = 0x00554e47;
    private static final int MAX_NOTES = 1 << 16;

    private BuildId() {
    }

    /** Returns it in hexadecimal, empty when the file is not 64-bit ELF or has none. */
    static String of(final Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file)) {
            final ByteBuffer header = read(channel, 0, HEADER);
            if (header.remaining() < HEADER || header.getInt(0) != MAGIC || header.get(4) != 2) {
                return "";
            }
            final int count = header.getShort(56);
            final ByteBuffer segments = read(channel, header.getLong(32), count * PROGRAM_HEADER);
            for (int at = 0; at + PROGRAM_HEADER <= segments.limit(); at += PROGRAM_HEADER) {
                if (segments.getInt(at) == PT_NOTE) {
                    final int size = (int) Math.min(segments.getLong(at + 32), MAX_NOTES);
                    final String id = note(read(channel, segments.getLong(at + 8), size));
                    if (!id.isEmpty()) {
                        return id;
                    }
                }
            }
            return "";
        }
    }

    private static String note(final ByteBuffer notes) {
        for (int at = 0; at + 12 <= notes.limit();) {
            final int nameSize = notes.getInt(at);
            final int size = notes.getInt(at + 4);
            final int data = at + 12 + (nameSize + 3 & ~3);
            if (nameSize < 0 || size < 0 || data + size > notes.limit()) {
                return "";
            }
            if (notes.getInt(at + 8) == NT_GNU_BUILD_ID && nameSize == 4 && notes.getInt(at + 12) == GNU) {
                final byte[] id = new byte[size];
                notes.get(data, id);
                return HexFormat.of().formatHex(id);
            }
            at = data + (size + 3 & ~3);
        }
        return "";
    }

    private static ByteBuffer read(final FileChannel channel, final long at, final int size) throws IOException {
        final ByteBuffer buffer = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
        while (buffer.hasRemaining() && channel.read(buffer, at + buffer.position()) > 0) {
            continue;
        }
        return buffer.flip();
    }
}
