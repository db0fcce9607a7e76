// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Reads what {@link RecordWriter} wrote. A record that is too short or of another version is an error. */
public final class RecordReader {
    private final byte[] bytes;
    private int position;

    public RecordReader(final byte[] bytes) {
        this.bytes = bytes;
    }

    /** @throws IllegalArgumentException when the record's first byte is another version */
    public RecordReader version(final int expected) {
        final int found = i8();
        if (found != expected) {
            throw new IllegalArgumentException("record of version " + found + ", expected " + expected);
        }
        return this;
    }

    /** Signed. */
    public int i8() {
        need(1);
        return bytes[position++];
    }

    /** Unsigned. */
    public int u8() {
        return i8() & 0xff;
    }

    /** Unsigned. */
    public int u16() {
        need(2);
        return (bytes[position++] & 0xff) << 8 | bytes[position++] & 0xff;
    }

    public int i32() {
        need(4);
        return (bytes[position++] & 0xff) << 24 | (bytes[position++] & 0xff) << 16 | (bytes[position++] & 0xff) << 8
                | bytes[position++] & 0xff;
    }

    public long i64() {
        return (long) i32() << 32 | i32() & 0xffff_ffffL;
    }

    public Gid gid() {
        return new Gid(i64(), i64());
    }

    /** As {@link RecordWriter#bytes} has written them. */
    public byte[] bytes() {
        final int n = count(1);
        position += n;
        return Arrays.copyOfRange(bytes, position - n, position);
    }

    public String text() {
        return new String(bytes(), StandardCharsets.UTF_8);
    }

    /** A count of elements, each of at least {@code least} bytes; never more than the rest of the record can hold. */
    public int count(final int least) {
        final int n = i32();
        if (n < 0 || n > (bytes.length - position) / least) {
            throw new IllegalArgumentException("count " + n + " does not fit into " + (bytes.length - position)
                    + " bytes");
        }
        return n;
    }

    private void need(final int more) {
        if (more > bytes.length - position) {
            throw new IllegalArgumentException("record ends after " + bytes.length + " bytes");
        }
    }

    /** @throws IllegalArgumentException when something is left */
    public void end() {
        if (position != bytes.length) {
            throw new IllegalArgumentException(bytes.length - position + " bytes too many in a record");
        }
    }
}
