// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;

/**
 * Runs code of the test in another network namespace, so that it need not start a command there each time it looks whether
 * something has come about. A namespace is a thread's own (setns(2)): the code has a thread for itself.
 */
final class NetworkNamespace {
    private static final int O_RDONLY = 0;
    private static final int CLONE_NEWNET = 0x40000000;
    private static final MethodHandle OPEN = function("open",
            FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_INT));
    private static final MethodHandle SETNS = function("setns",
            FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));
    private static final MethodHandle CLOSE = function("close",
            FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));

    private NetworkNamespace() {
    }

    /**
     * @param file names the namespace
     * @throws ExecutionException with what the code has thrown, or an IOException when the namespace cannot be entered
     */
    static <T> T call(final Path file, final Callable<T> code) throws ExecutionException, InterruptedException {
        final FutureTask<T> task = new FutureTask<>(() -> {
            enter(file);
            return code.call();
        });
        Thread.ofPlatform().daemon().start(task);
        return task.get();
    }

    private static void enter(final Path file) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment path = arena.allocateFrom(file.toString());
            final int descriptor = (int) OPEN.invokeExact(path, O_RDONLY);
            final int status = (int) SETNS.invokeExact(descriptor, CLONE_NEWNET);
            final int closed = (int) CLOSE.invokeExact(descriptor);
            if (status != 0 || closed != 0) {
                throw new IOException("the network namespace " + file + " cannot be entered");
            }
        } catch (IOException | RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    private static MethodHandle function(final String name, final FunctionDescriptor type) {
        final Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(linker.defaultLookup().findOrThrow(name), type);
    }
}
