// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.DataInput;
import java.io.DataInputStream;
import java.io.DataOutput;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Strings, byte strings, lists and maps in a frame's body. Counts and lengths are checked against what is there. */
final class Fields {
    private Fields() {
    }

    static void string(final DataOutput out, final String s) throws IOException {
        bytes(out, s.getBytes(StandardCharsets.UTF_8));
    }

    static String string(final DataInput in) throws IOException {
        return new String(bytes(in), StandardCharsets.UTF_8);
    }

    static void bytes(final DataOutput out, final byte[] b) throws IOException {
        out.writeInt(b.length);
        out.write(b);
    }

    static byte[] bytes(final DataInput in) throws IOException {
        final byte[] b = new byte[count(in, 1)];
        in.readFully(b);
        return b;
    }

    static void strings(final DataOutput out, final Collection<String> list) throws IOException {
        out.writeInt(list.size());
        for (final String s : list) {
            string(out, s);
        }
    }

    static List<String> strings(final DataInput in) throws IOException {
        final int n = count(in, 4);
        final List<String> list = new ArrayList<>(n);
        for (int i = 0; i < n; i++) {
            list.add(string(in));
        }
        return list;
    }

    static Set<String> stringSet(final DataInput in) throws IOException {
        return new LinkedHashSet<>(strings(in));
    }

    static void ints(final DataOutput out, final List<Integer> list) throws IOException {
        out.writeInt(list.size());
        for (final int i : list) {
            out.writeInt(i);
        }
    }

    static List<Integer> ints(final DataInput in) throws IOException {
        final int n = count(in, 4);
        final List<Integer> list = new ArrayList<>(n);
        for (int i = 0; i < n; i++) {
            list.add(in.readInt());
        }
        return list;
    }

    static void byteMap(final DataOutput out, final Map<String, byte[]> map) throws IOException {
        out.writeInt(map.size());
        for (final Map.Entry<String, byte[]> e : map.entrySet()) {
            string(out, e.getKey());
            bytes(out, e.getValue());
        }
    }

    static Map<String, byte[]> byteMap(final DataInput in) throws IOException {
        final int n = count(in, 8);
        final Map<String, byte[]> map = LinkedHashMap.newLinkedHashMap(n);
        for (int i = 0; i < n; i++) {
            map.put(string(in), bytes(in));
        }
        return map;
    }

    static void stringMap(final DataOutput out, final Map<String, String> map) throws IOException {
        out.writeInt(map.size());
        for (final Map.Entry<String, String> e : map.entrySet()) {
            string(out, e.getKey());
            string(out, e.getValue());
        }
    }

    static Map<String, String> stringMap(final DataInput in) throws IOException {
        final int n = count(in, 8);
        final Map<String, String> map = LinkedHashMap.newLinkedHashMap(n);
        for (int i = 0; i < n; i++) {
            map.put(string(in), string(in));
        }
        return map;
    }

    /** A flag is 0 or 1: anything else is a frame that was not written by us. */
    static boolean flag(final DataInput in) throws IOException {
        final byte b = in.readByte();
        if (b != 0 && b != 1) {
            throw new ProtocolException("flag of value " + b);
        }
        return b == 1;
    }

    /** A count of elements, each of at least {@code least} bytes; never more than the rest of the frame can hold. */
    static int count(final DataInput in, final int least) throws IOException {
        final int n = in.readInt();
        final int rest = ((DataInputStream) in).available();
        if (n < 0 || n > rest / least) {
            throw new ProtocolException("count " + n + " does not fit into the remaining " + rest + " bytes");
        }
        return n;
    }
}
