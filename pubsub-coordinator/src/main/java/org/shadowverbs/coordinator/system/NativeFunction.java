// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.system;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.util.Arrays;

/**
 * A function in C of at most six arguments, each an integer or a pointer, which has a register of its own in the calling conventions
 * of x86-64 and AArch64. So one shape does for all, of those with variable arguments, too: the JVM makes for each shape dozens of
 * classes, which takes milliseconds.
 *
 * <p>Functions may be called by several threads at once.
 *
 * @param address of the function
 */
public record NativeFunction(MemorySegment address) {
    private static final int MOST_ARGUMENTS = 6;
    private static final MethodHandle CALL = call();
    private static final VarHandle ERRNO =
            Linker.Option.captureStateLayout().varHandle(MemoryLayout.PathElement.groupElement("errno"));

    @SuppressWarnings("restricted") // Calls into C are what this class is for.
    private static MethodHandle call() {
        return Linker.nativeLinker().downcallHandle(FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG), Linker.Option.captureCallState("errno"));
    }

    /** @throws UnsupportedOperationException the C library has none of that name */
    public static NativeFunction of(final String name) {
        return new NativeFunction(Linker.nativeLinker().defaultLookup().find(name).orElseThrow(
                () -> new UnsupportedOperationException("the C library has no " + name)));
    }

    /**
     * Calls a function that returns an {@code int}.
     *
     * @return what it returned, or the negative errno value where that was -1
     */
    public int call(final long... arguments) {
        return (int) call(true, arguments);
    }

    /**
     * Calls a function that returns a {@code long}, a {@code ssize_t} or a pointer.
     *
     * @return what it returned, or the negative errno value where that was -1
     */
    public long callLong(final long... arguments) {
        return call(false, arguments);
    }

    /** @param narrow of the register only the lower half is the result */
    private long call(final boolean narrow, final long[] given) {
        if (given.length > MOST_ARGUMENTS) {
            throw new IllegalArgumentException(given.length + " arguments");
        }
        final long[] a = Arrays.copyOf(given, MOST_ARGUMENTS);
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            final long register = (long) CALL.invokeExact(address, state, a[0], a[1], a[2], a[3], a[4], a[5]);
            final long result = narrow ? (int) register : register;
            return result == -1 ? -(int) ERRNO.get(state, 0L) : result;
        } catch (Throwable t) {
            throw new IllegalStateException(t); // A call into C throws nothing.
        }
    }
}
