// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.memory;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;

/** The system calls of this package; each failure becomes an exception that names the call. */
final class Kernel {
    static final int EPERM = 1;
    static final int EFAULT = 14;

    private static final Linker LINKER = Linker.nativeLinker();
    private static final Linker.Option ERRNO_STATE = Linker.Option.captureCallState("errno");
    private static final VarHandle ERRNO =
            Linker.Option.captureStateLayout().varHandle(MemoryLayout.PathElement.groupElement("errno"));
    private static final MethodHandle OPEN = function("open", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.ADDRESS,
            ValueLayout.JAVA_INT), Linker.Option.firstVariadicArg(2));
    private static final MethodHandle CLOSE = function("close", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));
    private static final MethodHandle IOCTL = function("ioctl", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT,
            ValueLayout.JAVA_LONG, ValueLayout.ADDRESS), Linker.Option.firstVariadicArg(2));
    private static final MethodHandle READ_MEMORY = function("process_vm_readv", FunctionDescriptor.of(ValueLayout.JAVA_LONG,
            ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG,
            ValueLayout.JAVA_LONG));
    private static final int O_CLOEXEC = 0x80000;
    private static final int EINTR = 4;

    private Kernel() {
    }

    @SuppressWarnings("restricted") // Library calls by name are what this class is for.
    private static MethodHandle function(final String name, final FunctionDescriptor descriptor, final Linker.Option... options) {
        final Linker.Option[] all = java.util.Arrays.copyOf(options, options.length + 1);
        all[options.length] = ERRNO_STATE;
        return LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow(name), descriptor, all);
    }

    private interface Call {
        long with(MemorySegment errno) throws Throwable;
    }

    /** @return what the call returned, or the negative errno value when that was -1 */
    private static long call(final String name, final Call call) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            for (;;) {
                final long result = call.with(state);
                final int errno = (int) ERRNO.get(state, 0L);
                if (result != -1) {
                    return result;
                }
                if (errno != EINTR) {
                    return -errno;
                }
            }
        } catch (final Throwable e) {
            throw new IllegalStateException(name, e);
        }
    }

    /** Opens a file for reading. */
    static int open(final String path) throws IOException {
        final long fd;
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment text = arena.allocateFrom(path);
            fd = call("open", errno -> (int) OPEN.invokeExact(errno, text, O_CLOEXEC));
        }
        if (fd < 0) {
            throw new IOException(path + " cannot be opened: errno " + -fd);
        }
        return (int) fd;
    }

    static void close(final int fd) {
        call("close", errno -> (int) CLOSE.invokeExact(errno, fd));
    }

    /** @return its result, or a negative errno value */
    static int ioctl(final int fd, final long request, final MemorySegment argument) {
        return (int) call("ioctl", errno -> (int) IOCTL.invokeExact(errno, fd, request, argument));
    }

    /** @return how many bytes were read, or a negative errno value */
    static long readMemory(final long pid, final MemorySegment into, final long from) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment local = arena.allocate(ValueLayout.JAVA_LONG, 2);
            local.setAtIndex(ValueLayout.JAVA_LONG, 0, into.address());
            local.setAtIndex(ValueLayout.JAVA_LONG, 1, into.byteSize());
            final MemorySegment remote = arena.allocate(ValueLayout.JAVA_LONG, 2);
            remote.setAtIndex(ValueLayout.JAVA_LONG, 0, from);
            remote.setAtIndex(ValueLayout.JAVA_LONG, 1, into.byteSize());
            return call("process_vm_readv",
                    errno -> (long) READ_MEMORY.invokeExact(errno, (int) pid, local, 1L, remote, 1L, 0L));
        }
    }
}
