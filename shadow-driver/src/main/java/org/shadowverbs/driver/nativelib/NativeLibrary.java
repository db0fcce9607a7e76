// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import org.shadowverbs.bindings.abi.shadowverbs_h;
import org.shadowverbs.bindings.abi.sv_gate_report;
import org.shadowverbs.bindings.abi.sv_masks;
import org.shadowverbs.bindings.abi.sv_request;
import org.shadowverbs.bindings.abi.sv_route;
import org.shadowverbs.bindings.abi.sv_route_name;

/** The preload library that this process runs under. */
@SuppressWarnings("restricted")
public final class NativeLibrary implements Native {
    private static final int LONGEST_LINE = 2048;

    private static final SymbolLookup LIBRARY = Downcall.library("libshadowverbs.so");
    private static final SymbolLookup LIBC = Downcall.library("libc.so.6");
    /**
     * By their ordinals. All are looked up at the start: dlsym(3) takes a lock of the loader's, which a thread that waits at
     * the gate may hold.
     */
    private static final MemorySegment[] FUNCTIONS = functions();
    private static final MemorySegment OPEN = Downcall.function(LIBC, "open");
    private static final MemorySegment FCNTL = Downcall.function(LIBC, "fcntl");
    private static final MemorySegment CLOSE = Downcall.function(LIBC, "close");
    private static final MemorySegment SIGMASK = Downcall.function(LIBC, "pthread_sigmask");
    private static final MemorySegment GETPID = Downcall.function(LIBC, "getpid");
    private static final MemorySegment GETPAGESIZE = Downcall.function(LIBC, "getpagesize");
    private static final MemorySegment MADVISE = Downcall.function(LIBC, "madvise");
    private static final MemorySegment SYSCALL = Downcall.function(LIBC, "syscall");
    /** Since Linux 5.14: faults that write are taken, and nothing is written. */
    private static final int MADV_POPULATE_WRITE = 23;
    private static final int SYS_USERFAULTFD = System.getProperty("os.arch").equals("amd64") ? 323 : 282;
    private static final int UFFD_USER_MODE_ONLY = 1;
    private static final int O_NONBLOCK = 04000;
    private static final int O_CLOEXEC = 02000000;
    private static final int F_SETFL = 4;
    private static final int F_DUPFD_CLOEXEC = 1030;
    private static final int SIG_UNBLOCK = 1;
    /** SIGRTMAX - 2: what sun.nio.ch.NativeThread sends. */
    private static final int WAKE_UP_SIGNAL = 62;
    private static final int SIZEOF_SIGSET = 128;

    private static MemorySegment[] functions() {
        final NativeFunction[] all = NativeFunction.values();
        final MemorySegment[] found = new MemorySegment[all.length];
        for (final NativeFunction function : all) {
            found[function.ordinal()] = function(function.symbol());
        }
        return found;
    }

    private static long callLibrary(final NativeFunction function, final long... arguments) {
        return Downcall.call(FUNCTIONS[function.ordinal()], arguments);
    }

    @Override
    public long call(final NativeFunction function, final long... arguments) {
        return callLibrary(function, arguments);
    }

    /** A function of the preload library, for who has a list of his own; a null address: it has none. */
    public static MemorySegment function(final String name) {
        return Downcall.function(LIBRARY, name);
    }

    /** The function of the installed libibverbs.so.1, which dlsym does not give here; a null address: it has none. */
    public static MemorySegment installedFunction(final String name) {
        try (Arena arena = Arena.ofConfined()) {
            return MemorySegment.ofAddress(callLibrary(NativeFunction.SV_INSTALLED_FUNCTION,
                    arena.allocateFrom(name).address()));
        }
    }

    @Override
    public void say(final String line) {
        try (Arena arena = Arena.ofConfined()) {
            call(NativeFunction.SV_SAY, arena.allocateFrom(line).address());
        }
    }

    @Override
    public MemorySegment mailbox() {
        return MemorySegment.ofAddress(call(NativeFunction.SV_MAILBOX))
                .reinterpret(sv_request.sizeof() * shadowverbs_h.SV_MAILBOX_SLOTS());
    }

    @Override
    public String gateClose(final long timeoutNanos) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment report = sv_gate_report.allocate(arena);
            final int err = (int) call(NativeFunction.SV_GATE_CLOSE, timeoutNanos, report.address());
            if (err == 0) {
                return null;
            }
            return sv_gate_report.inside(report) + " thread(s) still inside a verb, thread "
                    + sv_gate_report.tid(report) + " in " + sv_gate_report.verb(report).getString(0);
        }
    }

    @Override
    public String sectionsClose(final long timeoutNanos) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment report = sv_gate_report.allocate(arena);
            return (int) call(NativeFunction.SV_SECTIONS_CLOSE, timeoutNanos, report.address()) == 0 ? null
                    : "thread " + sv_gate_report.tid(report) + " to call shadowverbs_delay_end";
        }
    }

    @Override
    public String programBefore(final long timeoutNanos) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment answer = arena.allocate(ValueLayout.JAVA_INT);
            final int err = (int) call(NativeFunction.SV_PROGRAM_BEFORE, timeoutNanos, answer.address());
            return err == 0 ? null : err == VerbsErrno.ETIMEDOUT ? "a callback of the program's has not returned within "
                    + timeoutNanos / 1_000_000_000 + " s"
                    : "a callback of the program's has returned " + answer.get(ValueLayout.JAVA_INT, 0);
        }
    }

    @Override
    public void programAnswer(final long call, final int result, final int err, final String why) {
        try (Arena arena = Arena.ofConfined()) {
            call(NativeFunction.SV_PROGRAM_ANSWER, call, result, err, arena.allocateFrom(why).address());
        }
    }

    @Override
    public long[] cmLost() {
        int room = 64;
        for (;;) {
            try (Arena arena = Arena.ofConfined()) {
                final MemorySegment tokens = arena.allocate(8L * room, 8);
                final int count = (int) call(NativeFunction.SV_CM_LOST, tokens.address(), room);
                if (count <= room) {
                    return tokens.asSlice(0, 8L * count).toArray(ValueLayout.JAVA_LONG);
                }
                room = count;
            }
        }
    }

    @Override
    public void setMasks(final int qpNum, final int key, final int lid, final long gid) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment masks = sv_masks.allocate(arena);
            sv_masks.qp_num(masks, qpNum);
            sv_masks.key(masks, key);
            sv_masks.lid(masks, (short) lid);
            sv_masks.gid(masks, gid);
            call(NativeFunction.SV_SET_MASKS, masks.address());
        }
    }

    @Override
    public long keymapNew(final int[] virtuals, final int[] reals) {
        try (Arena arena = Arena.ofConfined()) {
            return call(NativeFunction.SV_KEYMAP_NEW, arena.allocateFrom(ValueLayout.JAVA_INT, virtuals).address(),
                    arena.allocateFrom(ValueLayout.JAVA_INT, reals).address(), virtuals.length);
        }
    }

    @Override
    public long idmapNew(final long[] keys, final long[] values) {
        try (Arena arena = Arena.ofConfined()) {
            return call(NativeFunction.SV_IDMAP_NEW, arena.allocateFrom(ValueLayout.JAVA_LONG, keys).address(),
                    arena.allocateFrom(ValueLayout.JAVA_LONG, values).address(), keys.length);
        }
    }

    @Override
    public long routesNew(final long[] routes, final long[] names) {
        try (Arena arena = Arena.ofConfined()) {
            return call(NativeFunction.SV_ROUTES_NEW, arena.allocateFrom(ValueLayout.JAVA_LONG, routes).address(),
                    routes.length * 8L / sv_route.sizeof(), arena.allocateFrom(ValueLayout.JAVA_LONG, names).address(),
                    names.length * 8L / sv_route_name.sizeof());
        }
    }

    @Override
    public String readLine(final int fd) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment line = arena.allocate(LONGEST_LINE);
            final int length = (int) call(NativeFunction.SV_READ_LINE, fd, line.address(), LONGEST_LINE);
            if (length < 0) {
                throw new VerbsException(-length, "cannot read the verdict: " + VerbsErrno.name(-length));
            }
            return length == 0 ? null : line.getString(0);
        }
    }

    @Override
    public int openForReading(final String path) {
        try (Arena arena = Arena.ofConfined()) {
            // Not to hang here should the other end be gone; reading is to block.
            final int fd = (int) Downcall.call(OPEN, arena.allocateFrom(path).address(), O_NONBLOCK | O_CLOEXEC);
            if (fd < 0) {
                final int err = Downcall.errno();
                throw new VerbsException(err, "cannot open " + path + ": " + VerbsErrno.name(err));
            }
            Downcall.call(FCNTL, fd, F_SETFL, 0);
            return fd;
        }
    }

    @Override
    public void close(final int fd) {
        Downcall.call(CLOSE, fd);
    }

    @Override
    public int duplicate(final int fd) {
        final int own = (int) Downcall.call(FCNTL, fd, F_DUPFD_CLOEXEC, 0);
        if (own < 0) {
            throw new VerbsException(Downcall.errno());
        }
        return own;
    }

    @Override
    public int processId() {
        return (int) Downcall.call(GETPID);
    }

    @Override
    public void countAsWritten(final long address, final long length) {
        final long page = Downcall.call(GETPAGESIZE);
        final long begin = address & -page;
        populate(begin, (address + length - begin + page - 1) & -page, page);
    }

    /** It ends at the first page that it is not for. */
    private static void populate(final long begin, final long length, final long page) {
        if (length > 0 && (int) Downcall.call(MADVISE, begin, length, MADV_POPULATE_WRITE) != 0 && length > page) {
            final long half = length / 2 & -page;
            populate(begin, half, page);
            populate(begin + half, length - half, page);
        }
    }

    @Override
    public int writesDescriptor() {
        return (int) Downcall.call(SYSCALL, SYS_USERFAULTFD, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    }

    @Override
    public void unblockWakeUpSignal() {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment set = arena.allocate(SIZEOF_SIGSET, 8);
            set.set(ValueLayout.JAVA_LONG, 0, 1L << (WAKE_UP_SIGNAL - 1));
            Downcall.call(SIGMASK, SIG_UNBLOCK, set.address(), 0);
        }
    }
}
