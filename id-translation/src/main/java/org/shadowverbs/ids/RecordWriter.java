// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Writes the fields of a published record, big-endian, without padding. */
public final class RecordWriter {
    private byte[] bytes;
    private int length;

    public RecordWriter(final int capacity) {
        bytes = new byte[capacity];
    }

    public RecordWriter i8(final int value) {
        room(1);
        bytes[length++] = (byte) value;
        return this;
    }

    public RecordWriter i16(final int value) {
        return i8(value >> 8).i8(value);
    }

    public RecordWriter i32(final int value) {
        return i16(value >> 16).i16(value);
    }

    public RecordWriter i64(final long value) {
        return i32((int) (value >> 32)).i32((int) value);
    }

    public RecordWriter gid(final Gid gid) {
        return i64(gid.prefix()).i64(gid.interfaceId());
    }

    /** Bytes, with their number before them. */
    public RecordWriter bytes(final byte[] value) {
        i32(value.length);
        for (final byte b : value) {
            i8(b);
        }
        return this;
    }

    public RecordWriter text(final String value) {
        return bytes(value.getBytes(StandardCharsets.UTF_8));
    }

    public byte[] toByteArray() {
        return Arrays.copyOf(bytes, length);
    }

    private void room(final int more) {
        if (length + more > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(bytes.length * 2, length + more));
        }
    }
}
