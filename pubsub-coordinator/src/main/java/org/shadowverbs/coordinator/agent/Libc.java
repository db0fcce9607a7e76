// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.nio.file.Path;
import java.util.List;

/** The C library functions that the JDK has no other way to: each failure becomes an exception that names the call. */
public final class Libc {
    private static final Linker LINKER = Linker.nativeLinker();
    private static final Linker.Option ERRNO_STATE = Linker.Option.captureCallState("errno");
    private static final VarHandle ERRNO =
            Linker.Option.captureStateLayout().varHandle(MemoryLayout.PathElement.groupElement("errno"));

    private static final int EINTR = 4;
    private static final int ESRCH = 3;
    private static final short POLLIN = 1;
    private static final int SIG_SETMASK = 2;
    private static final int SOL_SOCKET = 1;
    private static final int SCM_RIGHTS = 1;
    private static final int MSG_NOSIGNAL = 0x4000;
    private static final int F_SETFD = 2;
    private static final int FD_CLOEXEC = 1;

    private Libc() {
    }

    @SuppressWarnings("restricted")
    private static MethodHandle function(final String name, final MemoryLayout... arguments) {
        return LINKER.downcallHandle(find(name), FunctionDescriptor.of(ValueLayout.JAVA_INT, arguments), ERRNO_STATE);
    }

    private static MemorySegment find(final String name) {
        return LINKER.defaultLookup().find(name).orElseThrow(
                () -> new UnsupportedOperationException("the C library has no " + name));
    }

    private static final class Fifo {
        static final MethodHandle MKFIFO = function("mkfifo", ValueLayout.ADDRESS, ValueLayout.JAVA_INT);
    }

    private static final class Attribute {
        static final MethodHandle GETXATTR = function("getxattr", ValueLayout.ADDRESS, ValueLayout.ADDRESS,
                ValueLayout.ADDRESS, ValueLayout.JAVA_LONG);
    }

    private static final class Kill {
        static final MethodHandle KILL = function("kill", ValueLayout.JAVA_INT, ValueLayout.JAVA_INT);
    }

    private static final class Pidfd {
        static final MethodHandle OPEN = function("pidfd_open", ValueLayout.JAVA_INT, ValueLayout.JAVA_INT);
        static final MethodHandle POLL =
                function("poll", ValueLayout.ADDRESS, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT);
        static final MethodHandle CLOSE = function("close", ValueLayout.JAVA_INT);
    }

    private static final class PidfdInfo {
        static final MethodHandle IOCTL = ioctl();
        /** _IOWR(0xFF, 11, struct pidfd_info), for the first 64 bytes of that. */
        static final long GET = 0xC040FF0BL;
        static final long EXIT = 1 << 3;
        static final int BYTES = 64;
        static final int EXIT_CODE = 60;

        @SuppressWarnings("restricted")
        private static MethodHandle ioctl() {
            return LINKER.downcallHandle(find("ioctl"), FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT,
                    ValueLayout.JAVA_LONG, ValueLayout.ADDRESS), ERRNO_STATE, Linker.Option.firstVariadicArg(2));
        }
    }

    private static final class Descriptors {
        static final MethodHandle GET =
                function("pidfd_getfd", ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT);
        static final MethodHandle WRITE = function("write", ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG);
        static final MethodHandle SENDMSG =
                function("sendmsg", ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_INT);
    }

    private static final class Session {
        static final MethodHandle GETSID = function("getsid", ValueLayout.JAVA_INT);
        static final MethodHandle SETSID = function("setsid");
        static final MethodHandle GETPPID = function("getppid");
        static final MethodHandle GETPGID = function("getpgid", ValueLayout.JAVA_INT);
        static final MethodHandle SETPGID = function("setpgid", ValueLayout.JAVA_INT, ValueLayout.JAVA_INT);
    }

    private static final class Exec {
        static final MethodHandle FCNTL = fcntl();

        @SuppressWarnings("restricted")
        private static MethodHandle fcntl() {
            return LINKER.downcallHandle(find("fcntl"), FunctionDescriptor.of(ValueLayout.JAVA_INT,
                    ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT), ERRNO_STATE,
                    Linker.Option.firstVariadicArg(2));
        }

        static final MethodHandle EXECVE =
                function("execve", ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.ADDRESS);
        static final MethodHandle SIGMASK =
                function("pthread_sigmask", ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.ADDRESS);
    }

    public static void mkfifo(final Path path, final int mode) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            if ((int) Fifo.MKFIFO.invokeExact(state, arena.allocateFrom(path.toString()), mode) != 0) {
                throw new IOException("mkfifo " + path + ": errno " + (int) ERRNO.get(state, 0L));
            }
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    /** Whether the file has an extended attribute of that name; false also where the file system has none at all. */
    public static boolean hasAttribute(final Path path, final String name) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            return (int) Attribute.GETXATTR.invokeExact(state, arena.allocateFrom(path.toString()),
                    arena.allocateFrom(name), MemorySegment.NULL, 0L) >= 0;
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    /** Returns false when there is no such process. */
    public static boolean kill(final long pid, final int signal) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            if ((int) Kill.KILL.invokeExact(state, (int) pid, signal) == 0) {
                return true;
            }
            final int errno = (int) ERRNO.get(state, 0L);
            if (errno == ESRCH) {
                return false;
            }
            throw new IOException("kill " + pid + " with signal " + signal + ": errno " + errno);
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    /** A descriptor of the process, or -1 when there is none. It becomes readable when the process ends. */
    static int pidfdOpen(final long pid) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            final int fd = (int) Pidfd.OPEN.invokeExact(state, (int) pid, 0);
            if (fd >= 0) {
                return fd;
            }
            final int errno = (int) ERRNO.get(state, 0L);
            if (errno == ESRCH) {
                return -1;
            }
            throw new IOException("pidfd_open " + pid + ": errno " + errno);
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    /** What wait(2) said of the process of that descriptor to its parent; -1 where the kernel does not tell, or it still runs. */
    static int exitCode(final int pidfd) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            // struct pidfd_info: u64 mask, u64 cgroupid, eleven u32 of ids, s32 exit_code
            final MemorySegment info = arena.allocate(PidfdInfo.BYTES, 8);
            info.set(ValueLayout.JAVA_LONG, 0, PidfdInfo.EXIT);
            final int status = (int) PidfdInfo.IOCTL.invokeExact(state, pidfd, PidfdInfo.GET, info);
            return status == 0 && (info.get(ValueLayout.JAVA_LONG, 0) & PidfdInfo.EXIT) != 0
                    ? info.get(ValueLayout.JAVA_INT, PidfdInfo.EXIT_CODE) : -1;
        } catch (Throwable t) {
            return -1; // as good as a kernel that does not tell
        }
    }

    /** Waits until the descriptor is readable; a negative time-out waits for ever. Returns whether it is. */
    static boolean pollReadable(final int fd, final int millis) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            // struct pollfd: int fd, short events, short revents
            final MemorySegment pollfd = arena.allocate(8, 4);
            pollfd.set(ValueLayout.JAVA_INT, 0, fd);
            pollfd.set(ValueLayout.JAVA_SHORT, 4, POLLIN);
            for (;;) {
                final int n = (int) Pidfd.POLL.invokeExact(state, pollfd, 1L, millis);
                if (n >= 0) {
                    return n > 0;
                }
                final int errno = (int) ERRNO.get(state, 0L);
                if (errno != EINTR) {
                    throw new IOException("poll: errno " + errno);
                }
            }
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    /** A descriptor of this process for the open file that is descriptor {@code fd} of another. */
    public static int descriptorOf(final long pid, final int fd) throws IOException {
        final int process = pidfdOpen(pid);
        if (process < 0) {
            throw new IOException("pidfd_open " + pid + ": no such process");
        }
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            final int taken = (int) Descriptors.GET.invokeExact(state, process, fd, 0);
            if (taken < 0) {
                throw new IOException("pidfd_getfd " + fd + " of process " + pid + ": errno "
                        + (int) ERRNO.get(state, 0L));
            }
            return taken;
        } catch (Throwable t) {
            throw sneak(t);
        } finally {
            close(process);
        }
    }

    /** Writes to what another process has open as that descriptor, as if that process did. */
    static void writeLine(final long pid, final int fd, final String line) throws IOException {
        final int taken = descriptorOf(pid, fd);
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            final byte[] bytes = (line + "\n").getBytes(java.nio.charset.StandardCharsets.UTF_8);
            if ((int) Descriptors.WRITE.invokeExact(state, taken, arena.allocateFrom(ValueLayout.JAVA_BYTE, bytes),
                    (long) bytes.length) != bytes.length) {
                throw new IOException("write to descriptor " + fd + " of process " + pid + ": errno " + (int) ERRNO.get(state, 0L));
            }
        } catch (Throwable t) {
            throw sneak(t);
        } finally {
            close(taken);
        }
    }

    /** Sends a descriptor through a Unix socket, with one byte. */
    static void sendDescriptor(final int socket, final int fd) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
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
            if ((int) Descriptors.SENDMSG.invokeExact(state, socket, message, MSG_NOSIGNAL) != 1) {
                throw new IOException("sendmsg: errno " + (int) ERRNO.get(state, 0L));
            }
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    static void close(final int fd) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            if ((int) Pidfd.CLOSE.invokeExact(state, fd) != 0) {
                throw new IOException("close " + fd + ": errno " + (int) ERRNO.get(state, 0L));
            }
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    /** The descriptor is not to be seen by the program that this process becomes. */
    public static void closeOnExec(final int fd) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            if ((int) Exec.FCNTL.invokeExact(state, fd, F_SETFD, FD_CLOEXEC) != 0) {
                throw new IOException("fcntl " + fd + ": errno " + (int) ERRNO.get(state, 0L));
            }
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    /** Whether the leader of this process's session is outside of its pid namespace, where no restore can put one. */
    public static boolean isSessionLedFromOutside() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            return (int) Session.GETSID.invokeExact(arena.allocate(Linker.Option.captureStateLayout()), 0) == 0;
        } catch (Throwable t) {
            throw sneak(t);
        }
    }

    /** Makes this process the leader of a session of its own, also when it leads a process group, which setsid(2) bars. */
    public static void leadSession() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            if ((int) Session.SETSID.invokeExact(state) > 0) {
                return;
            }
            final int parent = (int) Session.GETPPID.invokeExact(state);
            final int group = (int) Session.GETPGID.invokeExact(state, parent);
            if (group <= 0 || (int) Session.SETPGID.invokeExact(state, 0, group) != 0
                    || (int) Session.SETSID.invokeExact(state) <= 0) {
                throw new IOException("setsid: errno " + (int) ERRNO.get(state, 0L));
            }
        } catch (Throwable t) {
            throw sneak(t);
        }
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
            final MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            final MemorySegment mask = arena.allocate(128, 8); // sigset_t
            mask.set(ValueLayout.JAVA_LONG, 0, signalMask);
            final int rc = (int) Exec.SIGMASK.invokeExact(state, SIG_SETMASK, mask, MemorySegment.NULL);
            assert rc == 0;
            final int unused = (int) Exec.EXECVE.invokeExact(state, arena.allocateFrom(program.toString()),
                    pointers(arena, argv), pointers(arena, environment));
            return (int) ERRNO.get(state, 0L);
        } catch (Throwable t) {
            throw new IllegalStateException("execve", t);
        }
    }

    private static MemorySegment pointers(final Arena arena, final List<String> strings) {
        final MemorySegment array = arena.allocate(ValueLayout.ADDRESS, strings.size() + 1L);
        for (int i = 0; i < strings.size(); i++) {
            array.setAtIndex(ValueLayout.ADDRESS, i, arena.allocateFrom(strings.get(i)));
        }
        return array;
    }

    private static IOException sneak(final Throwable t) {
        if (t instanceof IOException e) {
            return e;
        }
        if (t instanceof RuntimeException e) {
            throw e;
        }
        if (t instanceof Error e) {
            throw e;
        }
        throw new IllegalStateException(t);
    }
}
