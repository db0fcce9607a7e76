// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Optional;

/**
 * All calls into C go through one native method of one shape: six 64-bit arguments, a 64-bit result, errno captured.
 *
 * <p>It is one of JNI: method handles of {@link java.lang.foreign.Linker} would cost a quarter of the time until the
 * application's first verb is served. Both System V x86-64 and AAPCS64 pass the first six integer and pointer arguments
 * in registers, ignore registers that a function does not read, and leave the upper half of a narrower argument or
 * result unspecified; so one wide shape calls them all. A result that is narrower in C is to be cast by the caller.
 */
@SuppressWarnings("restricted")
public final class Downcall {
    /** How many arguments a function can have. */
    static final int ARGUMENTS = 6;

    /** One int for each thread that makes calls: a handful, for the life of the process. */
    private static final ThreadLocal<MemorySegment> ERRNO = new ThreadLocal<MemorySegment>();

    private Downcall() {
    }

    /**
     * In {@code native/src/control/downcall.c}.
     *
     * @param error where errno goes
     */
    private static native long invoke(long function, long error, long a, long b, long c, long d, long e, long f);

    /** The function of that name, or a null address: calling that names it. */
    public static MemorySegment function(final SymbolLookup library, final String name) {
        final Optional<MemorySegment> found = library.find(name);
        return found.isPresent() ? found.get() : MemorySegment.NULL;
    }

    /** The library of that name that the process has loaded already. */
    public static SymbolLookup library(final String soname) {
        return SymbolLookup.libraryLookup(soname, Arena.global());
    }

    private static MemorySegment errnoSegment() {
        MemorySegment segment = ERRNO.get();
        if (segment == null) {
            segment = Arena.global().allocate(4, 4);
            ERRNO.set(segment);
        }
        return segment;
    }

    /** errno after this thread's last call. */
    public static int errno() {
        return errnoSegment().get(ValueLayout.JAVA_INT, 0);
    }

    /**
     * Calls a function of C.
     *
     * @param arguments at most {@link #ARGUMENTS}; those that it does not read are 0
     * @return its result; one that is narrower in C is to be cast
     */
    public static long call(final MemorySegment function, final long... arguments) {
        if (function.address() == 0) {
            throw new VerbsException(VerbsErrno.EOPNOTSUPP, "the library lacks a function that was called");
        }
        final long[] all = Arrays.copyOf(arguments, ARGUMENTS);
        return invoke(function.address(), errnoSegment().address(), all[0], all[1], all[2], all[3], all[4], all[5]);
    }
}
