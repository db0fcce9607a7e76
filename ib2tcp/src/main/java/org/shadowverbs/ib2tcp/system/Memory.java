// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/**
 * This process's memory by address: rings, verbs structs, frames, and the application's own. One segment for all of it, so
 * that nothing is allocated for a message.
 */
@SuppressWarnings("restricted")
public final class Memory {
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
    private static final VarHandle INT = ValueLayout.JAVA_INT.varHandle().withInvokeExactBehavior();
    private static final VarHandle LONG = ValueLayout.JAVA_LONG.varHandle().withInvokeExactBehavior();
    private static final ValueLayout.OfInt NETWORK_INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final ValueLayout.OfLong NETWORK_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    /** So many bytes are copied in less time than it takes to call what copies more. */
    private static final int FEW = 64;

    private Memory() {
    }

    public static int u8(final long at) {
        return ALL.get(ValueLayout.JAVA_BYTE, at) & 0xff;
    }

    public static void u8(final long at, final int value) {
        ALL.set(ValueLayout.JAVA_BYTE, at, (byte) value);
    }

    public static void u16(final long at, final int value) {
        ALL.set(ValueLayout.JAVA_SHORT_UNALIGNED, at, (short) value);
    }

    public static int i32(final long at) {
        return ALL.get(ValueLayout.JAVA_INT_UNALIGNED, at);
    }

    public static void i32(final long at, final int value) {
        ALL.set(ValueLayout.JAVA_INT_UNALIGNED, at, value);
    }

    public static long i64(final long at) {
        return ALL.get(ValueLayout.JAVA_LONG_UNALIGNED, at);
    }

    public static void i64(final long at, final long value) {
        ALL.set(ValueLayout.JAVA_LONG_UNALIGNED, at, value);
    }

    /** Two neighbours of 4 bytes each; at need not be aligned. */
    public static void pair(final long at, final int first, final int second) {
        i64(at, ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN ? join(second, first) : join(first, second));
    }

    /** The same in network byte order. */
    public static void netPair(final long at, final int first, final int second) {
        net64(at, join(first, second));
    }

    private static long join(final int high, final int low) {
        return (long) high << 32 | low & 0xffffffffL;
    }

    /** Network byte order. */
    public static int net32(final long at) {
        return ALL.get(NETWORK_INT, at);
    }

    public static void net32(final long at, final int value) {
        ALL.set(NETWORK_INT, at, value);
    }

    public static long net64(final long at) {
        return ALL.get(NETWORK_LONG, at);
    }

    public static void net64(final long at, final long value) {
        ALL.set(NETWORK_LONG, at, value);
    }

    public static int acquire(final long at) {
        return (int) INT.getAcquire(ALL, at);
    }

    public static void release(final long at, final int value) {
        INT.setRelease(ALL, at, value);
    }

    public static int volatileGet(final long at) {
        return (int) INT.getVolatile(ALL, at);
    }

    public static void volatileSet(final long at, final int value) {
        INT.setVolatile(ALL, at, value);
    }

    public static boolean compareAndSet(final long at, final int expected, final int value) {
        return INT.compareAndSet(ALL, at, expected, value);
    }

    public static int getAndSet(final long at, final int value) {
        return (int) INT.getAndSet(ALL, at, value);
    }

    /** Takes all bits of a word that another thread sets. */
    public static long takeBits(final long at) {
        return (long) LONG.getAndSet(ALL, at, 0L);
    }

    public static long opaque64(final long at) {
        return (long) LONG.getOpaque(ALL, at);
    }

    /** Atomic against the local CPU's own. @return the value before; at must be a multiple of 8 */
    public static long compareAndExchange(final long at, final long expected, final long value) {
        return (long) LONG.compareAndExchange(ALL, at, expected, value);
    }

    public static long getAndAdd(final long at, final long value) {
        return (long) LONG.getAndAdd(ALL, at, value);
    }

    public static void copy(final long from, final long to, final long bytes) {
        MemorySegment.copy(ALL, from, ALL, to, bytes);
    }

    /**
     * Copies so that each aligned word of 8 bytes around {@code place}, which is {@code from} or {@code to}, is read or
     * written at once: another processor that looks at it meanwhile, or changes it, does so before or after.
     */
    public static void copyWords(final long from, final long to, final long bytes, final long place) {
        final long head = Math.min(bytes, -place & 7);
        final long words = bytes - head & -8;
        copyBytes(from, to, head);
        if (words > FEW && (from - to & 7) == 0) {
            copy(from + head, to + head, words);
        } else {
            // Not by copy, which cuts words where one side is not aligned: it does with AVX-512.
            for (long done = head; done < head + words; done += 8) {
                i64(to + done, i64(from + done));
            }
        }
        final long done = head + words;
        copyBytes(from + done, to + done, bytes - done);
    }

    private static void copyBytes(final long from, final long to, final long bytes) {
        for (long i = 0; i < bytes; i++) {
            u8(to + i, u8(from + i));
        }
    }

    public static void zero(final long at, final long bytes) {
        ALL.asSlice(at, bytes).fill((byte) 0);
    }

    public static void put(final long at, final byte[] bytes) {
        MemorySegment.copy(bytes, 0, ALL, ValueLayout.JAVA_BYTE, at, bytes.length);
    }

    public static void get(final long at, final byte[] to, final int count) {
        MemorySegment.copy(ALL, ValueLayout.JAVA_BYTE, at, to, 0, count);
    }

    public static byte[] bytes(final long at, final int count) {
        return ALL.asSlice(at, count).toArray(ValueLayout.JAVA_BYTE);
    }
}
