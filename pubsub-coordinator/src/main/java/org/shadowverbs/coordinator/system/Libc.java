// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.system;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;

/**
 * System calls for processes, descriptors and what becomes of them: each failure becomes an exception that names the call. Each
 * function is looked up when it is called for the first time.
 */
public final class Libc {
    public static final int EPERM = 1;
    public static final int EFAULT = 14;
    public static final int O_RDONLY = 0;
    public static final int O_WRONLY = 1;
    private static final int EINTR = 4;
    private static final int ESRCH = 3;
    private static final int RLIMIT_FSIZE = 1;
    private static final short POLLIN = 1;
    private static final int SIG_SETMASK = 2;
    private static final int SOL_SOCKET = 1;
    private static final int SCM_RIGHTS = 1;
    private static final int MSG_NOSIGNAL = 0x4000;
    private static final int F_SETFD = 2;
    private static final int FD_CLOEXEC = 1;
    private static final int O_CLOEXEC = 0x80000;

    private Libc() {
    }

    private static final class Kill {
        static final NativeFunction KILL = NativeFunction.of("kill");
    }

    private static final class Descriptors {
        static final NativeFunction OPEN = NativeFunction.of("open");
        static final NativeFunction CLOSE = NativeFunction.of("close");
        static final NativeFunction IOCTL = NativeFunction.of("ioctl");
        static final NativeFunction PIDFD_OPEN = NativeFunction.of("pidfd_open");
        static final NativeFunction PIDFD_GETFD = NativeFunction.of("pidfd_getfd");
        static final NativeFunction PRLIMIT = NativeFunction.of("prlimit");
        static final NativeFunction READ_MEMORY = NativeFunction.of("process_vm_readv");
        static final NativeFunction POLL = NativeFunction.of("poll");
    }

    private static final class PidfdInfo {
        /** _IOWR(0xFF, 11, struct pidfd_info), for the first 64 bytes of that. */
        static final long GET = 0xC040FF0BL;
        static final long EXIT = 1 << 3;
        static final int BYTES = 64;
        static final int EXIT_CODE = 60;
    }

    /** @throws IOException when it cannot be made */
    public static void mkfifo(final Path path, final int mode) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            check(NativeFunction.of("mkfifo").call(arena.allocateFrom(path.toString()).address(), mode), "mkfifo " + path);
        }
    }

    /** Whether the file has an extended attribute of that name; false also where the file system has none at all. */
    public static boolean hasAttribute(final Path path, final String name) {
        try (Arena arena = Arena.ofConfined()) {
            return NativeFunction.of("getxattr").callLong(arena.allocateFrom(path.toString()).address(),
                    arena.allocateFrom(name).address(), 0, 0) >= 0;
        }
    }

    /** Sends a signal. @return whether there was such a process, and it may be signalled */
    public static boolean signal(final long pid, final int signal) {
        return Kill.KILL.call(pid, signal) == 0;
    }

    /** Sends a signal. @return false when there is no such process */
    public static boolean kill(final long pid, final int signal) throws IOException {
        final int result = Kill.KILL.call(pid, signal);
        if (result != -ESRCH) {
            check(result, "kill " + pid + " with signal " + signal);
        }
        return result == 0;
    }

    /** A descriptor of the process, or -1 when there is none. It becomes readable when the process ends. */
    public static int pidfdOpen(final long pid) throws IOException {
        final int fd = Descriptors.PIDFD_OPEN.call(pid, 0);
        return fd == -ESRCH ? -1 : check(fd, "pidfd_open " + pid);
    }

    /** What wait(2) said of the process of that descriptor to its parent; -1 where the kernel does not tell, or it still runs. */
    public static int exitCode(final int pidfd) {
        try (Arena arena = Arena.ofConfined()) {
            // struct pidfd_info: u64 mask, u64 cgroupid, eleven u32 of ids, s32 exit_code
            final MemorySegment info = arena.allocate(PidfdInfo.BYTES, 8);
            info.set(ValueLayout.JAVA_LONG, 0, PidfdInfo.EXIT);
            return ioctl(pidfd, PidfdInfo.GET, info) == 0 && (info.get(ValueLayout.JAVA_LONG, 0) & PidfdInfo.EXIT) != 0
                    ? info.get(ValueLayout.JAVA_INT, PidfdInfo.EXIT_CODE) : -1;
        }
    }

    /** Waits until the descriptor is readable; a negative time-out waits for ever. Returns whether it is. */
    public static boolean pollReadable(final int fd, final int millis) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            // struct pollfd: int fd, short events, short revents
            final MemorySegment pollfd = arena.allocate(8, 4);
            pollfd.set(ValueLayout.JAVA_INT, 0, fd);
            pollfd.set(ValueLayout.JAVA_SHORT, 4, POLLIN);
            return check(uninterrupted(Descriptors.POLL, pollfd.address(), 1, millis), "poll") > 0;
        }
    }

    /** A descriptor of this process for the open file that is descriptor {@code fd} of another. */
    public static int descriptorOf(final long pid, final int fd) throws IOException {
        final int process = pidfdOpen(pid);
        if (process < 0) {
            throw new IOException("pidfd_open " + pid + ": no such process");
        }
        try {
            return check(Descriptors.PIDFD_GETFD.call(process, fd, 0), "pidfd_getfd " + fd + " of process " + pid);
        } finally {
            close(process);
        }
    }

    /** Writes to what another process has open as that descriptor, as if that process did. */
    public static void writeLine(final long pid, final int fd, final String line) throws IOException {
        final int taken = descriptorOf(pid, fd);
        try (Arena arena = Arena.ofConfined()) {
            final byte[] bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
            final long written = NativeFunction.of("write").callLong(taken,
                    arena.allocateFrom(ValueLayout.JAVA_BYTE, bytes).address(), bytes.length);
            final String what = "write to descriptor " + fd + " of process " + pid;
            check((int) written, what);
            if (written != bytes.length) {
                throw new IOException(what + ": " + written + " of " + bytes.length + " bytes");
            }
        } finally {
            close(taken);
        }
    }

    /** Sends a descriptor through a Unix socket, with one byte. */
    public static void sendDescriptor(final int socket, final int fd) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            // struct iovec: void *base, size_t length
            final MemorySegment iovec = arena.allocate(16, 8);
            iovec.set(ValueLayout.ADDRESS, 0, arena.allocate(1));
            iovec.set(ValueLayout.JAVA_LONG, 8, 1);
            // struct cmsghdr: size_t length, int level, int type; then the data, and padding
            final MemorySegment control = arena.allocate(24, 8);
            control.set(ValueLayout.JAVA_LONG, 0, 20);
            control.set(ValueLayout.JAVA_INT, 8, SOL_SOCKET);
            control.set(ValueLayout.JAVA_INT, 12, SCM_RIGHTS);
            control.set(ValueLayout.JAVA_INT, 16, fd);
            // struct msghdr: name, its length; iovec, how many; control, its length; flags
            final MemorySegment message = arena.allocate(56, 8);
            message.set(ValueLayout.ADDRESS, 16, iovec);
            message.set(ValueLayout.JAVA_LONG, 24, 1);
            message.set(ValueLayout.ADDRESS, 32, control);
            message.set(ValueLayout.JAVA_LONG, 40, control.byteSize());
            if (check(NativeFunction.of("sendmsg").call(socket, message.address(), MSG_NOSIGNAL), "sendmsg") != 1) {
                throw new IOException("sendmsg: its byte was not sent");
            }
        }
    }

    /** Opens a file; the program that this process becomes does not have it. */
    public static int open(final String path, final int flags) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            return check(uninterrupted(Descriptors.OPEN, arena.allocateFrom(path).address(), flags | O_CLOEXEC),
                    path + " cannot be opened");
        }
    }

    /** Whatever it answers, the descriptor is gone: close(2). */
    public static void close(final int fd) {
        Descriptors.CLOSE.call(fd);
    }

    /** @return its result, or a negative errno value */
    public static int ioctl(final int fd, final long request, final MemorySegment argument) {
        return uninterrupted(Descriptors.IOCTL, fd, request, argument.address());
    }

    /** From now on a process can write nothing to files: write(2) fails with EFBIG, and sends a SIGXFSZ. No error if it has ended. */
    public static void denyFileWrites(final long pid) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            // struct rlimit: soft, hard
            final int result = Descriptors.PRLIMIT.call(pid, RLIMIT_FSIZE, arena.allocate(16, 8).address(), 0);
            if (result != -ESRCH) {
                check(result, "prlimit " + pid);
            }
        }
    }

    /** Reads memory of another process. @return how many bytes were read, or a negative errno value */
    public static long readMemory(final long pid, final MemorySegment into, final long from) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment local = arena.allocate(ValueLayout.JAVA_LONG, 2);
            local.setAtIndex(ValueLayout.JAVA_LONG, 0, into.address());
            local.setAtIndex(ValueLayout.JAVA_LONG, 1, into.byteSize());
            final MemorySegment remote = arena.allocate(ValueLayout.JAVA_LONG, 2);
            remote.setAtIndex(ValueLayout.JAVA_LONG, 0, from);
            remote.setAtIndex(ValueLayout.JAVA_LONG, 1, into.byteSize());
            return Descriptors.READ_MEMORY.callLong(pid, local.address(), 1, remote.address(), 1, 0);
        }
    }

    /** The descriptor is not to be seen by the program that this process becomes. */
    public static void closeOnExec(final int fd) throws IOException {
        check(NativeFunction.of("fcntl").call(fd, F_SETFD, FD_CLOEXEC), "fcntl " + fd);
    }

    /** Whether the leader of this process's session is outside of its pid namespace, where no restore can put one. */
    public static boolean isSessionLedFromOutside() {
        return NativeFunction.of("getsid").call(0) == 0;
    }

    /** Makes this process the leader of a session of its own, also when it leads a process group, which setsid(2) bars. */
    public static void leadSession() throws IOException {
        final NativeFunction setsid = NativeFunction.of("setsid");
        if (setsid.call() > 0) {
            return;
        }
        final int group = NativeFunction.of("getpgid").call(NativeFunction.of("getppid").call());
        check(group, "getpgid");
        check(NativeFunction.of("setpgid").call(0, group), "setpgid");
        check(setsid.call(), "setsid");
    }

    /**
     * Becomes another program. Returns only when that fails.
     *
     * @param signalMask bit n-1 for signal n: what the JVM was started with, since its own threads block other signals
     * @return errno
     */
    public static int exec(final Path program, final List<String> argv, final List<String> environment,
            final long signalMask) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment mask = arena.allocate(128, 8); // sigset_t
            mask.set(ValueLayout.JAVA_LONG, 0, signalMask);
            final NativeFunction execve = NativeFunction.of("execve");
            final long path = arena.allocateFrom(program.toString()).address();
            final long arguments = pointers(arena, argv);
            final long variables = pointers(arena, environment);
            final int rc = NativeFunction.of("pthread_sigmask").call(SIG_SETMASK, mask.address(), 0);
            assert rc == 0;
            return -execve.call(path, arguments, variables);
        }
    }

    private static long pointers(final Arena arena, final List<String> strings) {
        final MemorySegment array = arena.allocate(ValueLayout.ADDRESS, strings.size() + 1L);
        for (int i = 0; i < strings.size(); i++) {
            array.setAtIndex(ValueLayout.ADDRESS, i, arena.allocateFrom(strings.get(i)));
        }
        return array.address();
    }

    /** Calls again what a signal has interrupted. */
    private static int uninterrupted(final NativeFunction function, final long... arguments) {
        int result;
        do {
            result = function.call(arguments);
        } while (result == -EINTR);
        return result;
    }

    /** @param result of a call: negative errno values are failures */
    private static int check(final int result, final String what) throws IOException {
        if (result < 0) {
            throw new IOException(what + ": errno " + -result);
        }
        return result;
    }
}
