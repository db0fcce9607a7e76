// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;

/** fallocate(2): gives back the space of a part of a file, which reads as zeros then. */
final class FileSpace implements AutoCloseable {
    private static final int O_WRONLY = 1;
    private static final int O_CLOEXEC = 0x80000;
    private static final int KEEP_SIZE = 1;
    private static final int PUNCH_HOLE = 2;
    private static final MethodHandle OPEN = function("open", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.ADDRESS,
            ValueLayout.JAVA_INT), Linker.Option.firstVariadicArg(2));
    private static final MethodHandle CLOSE = function("close", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));
    private static final MethodHandle FALLOCATE = function("fallocate64", FunctionDescriptor.of(ValueLayout.JAVA_INT,
            ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));

    private int fd;

    FileSpace(final Path file) {
        try (Arena arena = Arena.ofConfined()) {
            fd = (int) OPEN.invokeExact(arena.allocateFrom(file.toString()), O_WRONLY | O_CLOEXEC);
        } catch (final Throwable e) {
            throw new IllegalStateException("open(" + file + ")", e);
        }
    }

    @SuppressWarnings("restricted") // A library call by name is what this class is for.
    private static MethodHandle function(final String name, final FunctionDescriptor descriptor, final Linker.Option... options) {
        final Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(linker.defaultLookup().findOrThrow(name), descriptor, options);
    }

    /** @return whether it has: not every file system can */
    boolean giveBack(final long from, final long bytes) {
        try {
            return fd >= 0 && (int) FALLOCATE.invokeExact(fd, PUNCH_HOLE | KEEP_SIZE, from, bytes) == 0;
        } catch (final Throwable e) {
            throw new IllegalStateException("fallocate", e);
        }
    }

    @Override
    public void close() {
        try {
            if (fd >= 0) {
                final int ignored = (int) CLOSE.invokeExact(fd);
                fd = -1;
            }
        } catch (final Throwable e) {
            throw new IllegalStateException("close", e);
        }
    }
}
