// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Records to bytes and back: the components one after another, in the order of the record. So that order is the format: who changes
 * it changes {@link FrameType#VERSION}. Components are int, long, byte, boolean, String, byte[], other such records, and lists,
 * sets and maps of them. Counts and lengths are checked against what is there.
 */
final class RecordCodec {
    private static final ClassValue<RecordCodec> ALL = new ClassValue<>() {
        @Override
        protected RecordCodec computeValue(final Class<?> record) {
            return new RecordCodec(record);
        }
    };

    /** Chars from here on take two bytes, and three. */
    private static final char TWO_BYTES = 0x80;
    private static final char THREE_BYTES = 0x800;

    private final Constructor<?> constructor;
    private final Method[] accessors;
    private final Type[] types;
    private final int least;

    private RecordCodec(final Class<?> record) {
        final RecordComponent[] components = record.getRecordComponents();
        final Class<?>[] parameters = new Class<?>[components.length];
        accessors = new Method[components.length];
        types = new Type[components.length];
        int sum = 0;
        for (int i = 0; i < components.length; i++) {
            parameters[i] = components[i].getType();
            accessors[i] = components[i].getAccessor();
            types[i] = components[i].getGenericType();
            sum += least(types[i]);
        }
        least = sum;
        try {
            constructor = record.getDeclaredConstructor(parameters);
        } catch (NoSuchMethodException e) {
            throw new AssertionError("a record has its canonical constructor: " + record, e);
        }
    }

    /** How many bytes {@link #write} will write. */
    static long size(final Object value) {
        if (value instanceof Integer) {
            return Integer.BYTES;
        } else if (value instanceof Long) {
            return Long.BYTES;
        } else if (value instanceof String s) {
            return Integer.BYTES + encodedLength(s);
        } else if (value instanceof byte[] bytes) {
            return Integer.BYTES + (long) bytes.length;
        } else if (value instanceof Byte || value instanceof Boolean) {
            return 1;
        }
        long size = 0;
        if (value instanceof Collection<?> collection) {
            size = Integer.BYTES;
            for (final Object element : collection) {
                size += size(element);
            }
        } else if (value instanceof Map<?, ?> map) {
            size = Integer.BYTES;
            for (final Map.Entry<?, ?> e : map.entrySet()) {
                size += size(e.getKey()) + size(e.getValue());
            }
        } else {
            final RecordCodec codec = ALL.get(value.getClass());
            for (int i = 0; i < codec.accessors.length; i++) {
                size += size(codec.component(value, i));
            }
        }
        return size;
    }

    /** As {@link String#getBytes} does it, which has one byte for half of a pair of surrogates. */
    private static long encodedLength(final String s) {
        long length = s.length();
        for (int i = 0; i < s.length(); i++) {
            final char c = s.charAt(i);
            if (c < TWO_BYTES) {
                continue;
            }
            if (c < THREE_BYTES) {
                length++;
            } else if (!Character.isSurrogate(c)) {
                length += 2;
            } else if (Character.isHighSurrogate(c) && i + 1 < s.length() && Character.isLowSurrogate(s.charAt(i + 1))) {
                length += 2; // four bytes in place of two chars
                i++;
            }
        }
        return length;
    }

    static void write(final ByteBuffer out, final Object value) {
        if (value instanceof Integer i) {
            out.putInt(i);
        } else if (value instanceof Long l) {
            out.putLong(l);
        } else if (value instanceof String s) {
            write(out, s.getBytes(StandardCharsets.UTF_8));
        } else if (value instanceof byte[] bytes) {
            out.putInt(bytes.length);
            out.put(bytes);
        } else if (value instanceof Byte b) {
            out.put(b);
        } else if (value instanceof Boolean b) {
            out.put((byte) (b ? 1 : 0));
        } else if (value instanceof Collection<?> collection) {
            out.putInt(collection.size());
            for (final Object element : collection) {
                write(out, element);
            }
        } else if (value instanceof Map<?, ?> map) {
            out.putInt(map.size());
            for (final Map.Entry<?, ?> e : map.entrySet()) {
                write(out, e.getKey());
                write(out, e.getValue());
            }
        } else {
            final RecordCodec codec = ALL.get(value.getClass());
            for (int i = 0; i < codec.accessors.length; i++) {
                write(out, codec.component(value, i));
            }
        }
    }

    /** The record without the bytes of its last component, which are to follow it. */
    static void writeBut(final ByteBuffer out, final Object record, final byte[] last) {
        final RecordCodec codec = ALL.get(record.getClass());
        for (int i = 0; i < codec.accessors.length - 1; i++) {
            write(out, codec.component(record, i));
        }
        out.putInt(last.length);
    }

    private Object component(final Object record, final int i) {
        try {
            return accessors[i].invoke(record);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(constructor.getName(), e);
        }
    }

    static Object read(final ByteBuffer in, final Type type) throws ProtocolException {
        if (type == int.class || type == Integer.class) {
            return in.getInt();
        } else if (type == long.class) {
            return in.getLong();
        } else if (type == String.class) {
            return string(in);
        } else if (type == byte[].class) {
            return bytes(in);
        } else if (type == byte.class) {
            return in.get();
        } else if (type == boolean.class) {
            return flag(in);
        } else if (type instanceof ParameterizedType several) {
            return readSeveral(in, several.getRawType(), several.getActualTypeArguments());
        }
        return ALL.get((Class<?>) type).readComponents(in);
    }

    private static Object readSeveral(final ByteBuffer in, final Type kind, final Type... elements) throws ProtocolException {
        if (kind == Map.class) {
            final int n = count(in, least(elements[0]) + least(elements[1]));
            final Map<Object, Object> map = LinkedHashMap.newLinkedHashMap(n);
            for (int i = 0; i < n; i++) {
                map.put(read(in, elements[0]), read(in, elements[1]));
            }
            return map;
        }
        final int n = count(in, least(elements[0]));
        final List<Object> list = new ArrayList<>(n);
        for (int i = 0; i < n; i++) {
            list.add(read(in, elements[0]));
        }
        return kind == Set.class ? new LinkedHashSet<>(list) : list;
    }

    private Object readComponents(final ByteBuffer in) throws ProtocolException {
        final Object[] values = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            values[i] = read(in, types[i]);
        }
        try {
            return constructor.newInstance(values);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(constructor.getName(), e);
        }
    }

    private static byte[] bytes(final ByteBuffer in) throws ProtocolException {
        final byte[] b = new byte[count(in, 1)];
        in.get(b);
        return b;
    }

    private static String string(final ByteBuffer in) throws ProtocolException {
        final int length = count(in, 1);
        final String s = new String(in.array(), in.arrayOffset() + in.position(), length, StandardCharsets.UTF_8);
        in.position(in.position() + length);
        return s;
    }

    /** A flag is 0 or 1: anything else is a frame that was not written by us. */
    private static boolean flag(final ByteBuffer in) throws ProtocolException {
        final byte b = in.get();
        if (b != 0 && b != 1) {
            throw new ProtocolException("flag of value " + b);
        }
        return b == 1;
    }

    /** A count of elements, each of at least {@code least} bytes; never more than the rest of the frame can hold. */
    private static int count(final ByteBuffer in, final int least) throws ProtocolException {
        final int n = in.getInt();
        final int rest = in.remaining();
        if (n < 0 || n > rest / least) {
            throw new ProtocolException("count " + n + " does not fit into the remaining " + rest + " bytes");
        }
        return n;
    }

    /** Fewest bytes that a value of that type takes. */
    private static int least(final Type type) {
        if (type == byte.class || type == boolean.class) {
            return 1;
        } else if (type == long.class) {
            return Long.BYTES;
        }
        return type instanceof Class<?> c && c.isRecord() ? ALL.get(c).least : Integer.BYTES;
    }
}
