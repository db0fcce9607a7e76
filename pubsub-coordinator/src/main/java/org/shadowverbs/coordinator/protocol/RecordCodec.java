// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.DataInput;
import java.io.DataInputStream;
import java.io.DataOutput;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
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

    static void write(final DataOutput out, final Object value) throws IOException {
        if (value instanceof Integer i) {
            out.writeInt(i);
        } else if (value instanceof Long l) {
            out.writeLong(l);
        } else if (value instanceof String s) {
            write(out, s.getBytes(StandardCharsets.UTF_8));
        } else if (value instanceof byte[] bytes) {
            out.writeInt(bytes.length);
            out.write(bytes);
        } else if (value instanceof Byte b) {
            out.writeByte(b);
        } else if (value instanceof Boolean b) {
            out.writeBoolean(b);
        } else if (value instanceof Collection<?> collection) {
            out.writeInt(collection.size());
            for (final Object element : collection) {
                write(out, element);
            }
        } else if (value instanceof Map<?, ?> map) {
            out.writeInt(map.size());
            for (final Map.Entry<?, ?> e : map.entrySet()) {
                write(out, e.getKey());
                write(out, e.getValue());
            }
        } else {
            ALL.get(value.getClass()).writeComponents(out, value);
        }
    }

    /** The record without the bytes of its last component, which are to follow it. */
    static void writeBut(final DataOutput out, final Object record, final byte[] last) throws IOException {
        ALL.get(record.getClass()).writeComponents(out, record, last);
    }

    private void writeComponents(final DataOutput out, final Object record) throws IOException {
        writeComponents(out, record, null);
    }

    private void writeComponents(final DataOutput out, final Object record, final byte[] last) throws IOException {
        try {
            for (int i = 0; i < accessors.length - (last == null ? 0 : 1); i++) {
                write(out, accessors[i].invoke(record));
            }
            if (last != null) {
                out.writeInt(last.length);
            }
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(constructor.getName(), e);
        }
    }

    static Object read(final DataInput in, final Type type) throws IOException {
        if (type == int.class || type == Integer.class) {
            return in.readInt();
        } else if (type == long.class) {
            return in.readLong();
        } else if (type == String.class) {
            return new String(bytes(in), StandardCharsets.UTF_8);
        } else if (type == byte[].class) {
            return bytes(in);
        } else if (type == byte.class) {
            return in.readByte();
        } else if (type == boolean.class) {
            return flag(in);
        } else if (type instanceof ParameterizedType several) {
            return readSeveral(in, several.getRawType(), several.getActualTypeArguments());
        }
        return ALL.get((Class<?>) type).readComponents(in);
    }

    private static Object readSeveral(final DataInput in, final Type kind, final Type... elements) throws IOException {
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

    private Object readComponents(final DataInput in) throws IOException {
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

    private static byte[] bytes(final DataInput in) throws IOException {
        final byte[] b = new byte[count(in, 1)];
        in.readFully(b);
        return b;
    }

    /** A flag is 0 or 1: anything else is a frame that was not written by us. */
    private static boolean flag(final DataInput in) throws IOException {
        final byte b = in.readByte();
        if (b != 0 && b != 1) {
            throw new ProtocolException("flag of value " + b);
        }
        return b == 1;
    }

    /** A count of elements, each of at least {@code least} bytes; never more than the rest of the frame can hold. */
    private static int count(final DataInput in, final int least) throws IOException {
        final int n = in.readInt();
        final int rest = ((DataInputStream) in).available();
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
