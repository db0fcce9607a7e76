// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** kill(2): the signals that ProcessHandle does not have. */
final class Signals {
    private static final MethodHandle KILL = kill();

    private Signals() {
    }

    @SuppressWarnings("restricted") // A library call by name is what this class is for.
    private static MethodHandle kill() {
        final Linker linker = Linker.nativeLinker();
        return linker.downcallHandle(
                linker.defaultLookup().findOrThrow("kill"),
                FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));
    }

    /** Sends a signal. Returns whether there was such a process that may be signalled. */
    static boolean send(final long pid, final int signal) {
        try {
            return (int) KILL.invokeExact((int) pid, signal) == 0;
        } catch (final Throwable e) {
            throw new IllegalStateException("kill(" + pid + ", " + signal + ")", e);
        }
    }
}
