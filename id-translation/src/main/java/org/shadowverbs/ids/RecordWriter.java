// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Writes the fields of a published record, big-endian, without padding. Byte by byte and without further calls: ranks mostly
 * interpret it.
 */
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
        room(2);
        bytes[length++] = (byte) (value >> 8);
        bytes[length++] = (byte) value;
        return this;
    }

    public RecordWriter i32(final int value) {
        room(4);
        bytes[length++] = (byte) (value >> 24);
        bytes[length++] = (byte) (value >> 16);
        bytes[length++] = (byte) (value >> 8);
        bytes[length++] = (byte) value;
        return this;
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
        room(value.length);
        System.arraycopy(value, 0, bytes, length, value.length);
        length += value.length;
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
