// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;

/**
 * The system calls that ib2tcp is made of; names as in their manual pages, results too, errno beside them. All descriptors
 * are non-blocking. Not Java's channels: readv and sendmsg take addresses of the application's memory as they are, nothing is
 * wrapped for a message, memory that is gone is EFAULT and no crash, and whoever closes a descriptor knows that it is closed.
 */
@SuppressWarnings("restricted")
public final class Posix {
    public static final int EINTR = 4;
    public static final int EAGAIN = 11;
    public static final int ENOMEM = 12;
    public static final int EFAULT = 14;
    public static final int EBUSY = 16;
    public static final int EINVAL = 22;
    public static final int EPIPE = 32;
    public static final int EOPNOTSUPP = 95;
    public static final int ECONNRESET = 104;
    static final int EINPROGRESS = 115;
    public static final int EPOLLIN = 1;
    public static final int EPOLLOUT = 4;
    /** struct epoll_event is packed on x86-64, and only there. */
    public static final int EPOLL_EVENT_SIZE = "amd64".equals(System.getProperty("os.arch")) ? 12 : 16;
    public static final int EPOLL_DATA = EPOLL_EVENT_SIZE - 8;

    private static final int AF_INET = 2;
    private static final int SOCK_STREAM = 1;
    private static final int SOCK_NONBLOCK = 0x800;
    private static final int SOCK_CLOEXEC = 0x80000;
    private static final int SOL_SOCKET = 1;
    private static final int SO_ERROR = 4;
    private static final int SO_KEEPALIVE = 9;
    private static final int IPPROTO_TCP = 6;
    private static final int SOCK_DGRAM = 2;
    private static final int SO_REUSEADDR = 2;
    private static final int SO_RCVBUF = 8;
    private static final int SO_RCVBUFFORCE = 33;
    private static final int IPPROTO_IP = 0;
    private static final int IP_MULTICAST_IF = 32;
    private static final int IP_MULTICAST_TTL = 33;
    private static final int IP_MULTICAST_LOOP = 34;
    private static final int IP_ADD_MEMBERSHIP = 35;
    private static final int IP_DROP_MEMBERSHIP = 36;
    private static final int IP_MULTICAST_ALL = 49;
    private static final int TCP_NODELAY = 1;
    private static final int TCP_CONGESTION = 13;
    /** "reno", which every system has and allows, as it lies in memory. */
    private static final int RENO = 0x6f6e6572;
    private static final int TCP_USER_TIMEOUT = 18;
    private static final int EPOLL_CTL_ADD = 1;
    private static final int EPOLL_CTL_DEL = 2;
    private static final int EPOLL_CTL_MOD = 3;
    private static final int MS_ASYNC = 1;
    private static final int SOCKADDR_SIZE = 16;
    /** Or a little more than a struct stat, which begins with device and inode. */
    private static final int STAT_SIZE = 256;
    private static final long FUTEX = "amd64".equals(System.getProperty("os.arch")) ? 202 : 98;
    private static final int FUTEX_WAIT_PRIVATE = 128;
    private static final int FUTEX_WAKE_PRIVATE = 129;
    private static final int MSGHDR_SIZE = 56;
    private static final int MSG_IOV = 16;
    private static final int MSG_IOVLEN = 24;
    private static final int MSG_NOSIGNAL = 0x4000;
    private static final int SIOCGIFCONF = 0x8912;
    /** struct ifreq: a name of 16 bytes, then a socket address. */
    private static final int IFREQ_SIZE = 40;
    private static final int IFREQ_IPV4 = 20;
    private static final int MOST_INTERFACES = 1024;

    /** Every argument is a register's width, so one shape fits all. */
    private static final FunctionDescriptor SHAPE = FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG,
            ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG,
            ValueLayout.JAVA_LONG);
    private static final MethodHandle CALL = Linker.nativeLinker().downcallHandle(SHAPE,
            Linker.Option.captureCallState("errno"));
    /** For what never waits: the collector waits for it, which saves the telling that it need not. */
    private static final MethodHandle QUICK = Linker.nativeLinker().downcallHandle(SHAPE,
            Linker.Option.captureCallState("errno"), Linker.Option.critical(false));
    private static final MemorySegment READ = f("read");
    private static final MemorySegment WRITE = f("write");
    private static final MemorySegment READV = f("readv");
    private static final MemorySegment RECV = f("recv");
    private static final MemorySegment SEND = f("send");
    private static final MemorySegment SENDMSG = f("sendmsg");
    private static final MemorySegment SENDTO = f("sendto");
    private static final MemorySegment EPOLL_WAIT = f("epoll_wait");
    private static final MemorySegment PPOLL = f("ppoll");
    private static final MemorySegment MSYNC = f("msync");
    private static final MemorySegment SYSCALL = f("syscall");
    private static final MemorySegment SCHED_YIELD = f("sched_yield");

    /** errno of this object's last call; a Posix belongs to one thread at a time. */
    private final MemorySegment errno = Arena.global().allocate(4, 4);
    private final long scratch = Arena.global().allocate(64, 8).address();
    /** A struct msghdr. */
    private final long message = Arena.global().allocate(MSGHDR_SIZE, 8).address();
    private final long pageMask = -call(f("sysconf"), 30);

    private static MemorySegment f(final String name) {
        return Linker.nativeLinker().defaultLookup().findOrThrow(name);
    }

    public int errno() {
        return errno.get(ValueLayout.JAVA_INT, 0);
    }

    private long call(final MemorySegment function, final long a, final long b, final long c, final long d,
            final long e) {
        return call(function, a, b, c, d, e, 0);
    }

    private long call(final MemorySegment function, final long a, final long b, final long c, final long d,
            final long e, final long g) {
        try {
            return (long) CALL.invokeExact(function, errno, a, b, c, d, e, g);
        } catch (Throwable t) {
            throw new IllegalStateException(t);
        }
    }

    private long quick(final MemorySegment function, final long a, final long b, final long c, final long d) {
        try {
            return (long) QUICK.invokeExact(function, errno, a, b, c, d, 0L, 0L);
        } catch (Throwable t) {
            throw new IllegalStateException(t);
        }
    }

    private long call(final MemorySegment function, final long a) {
        return call(function, a, 0, 0, 0, 0);
    }

    private int check(final long result, final String what) {
        if ((int) result < 0) {
            throw new DeviceException(errno(), what);
        }
        return (int) result;
    }

    public long read(final int fd, final long to, final long bytes) {
        return quick(READ, fd, to, bytes, 0);
    }

    public long write(final int fd, final long from, final long bytes) {
        return quick(WRITE, fd, from, bytes, 0);
    }

    public long readv(final int fd, final long iov, final int count) {
        return quick(READV, fd, iov, count, 0);
    }

    /** From a socket: less of the kernel's code than read(2). */
    public long receive(final int fd, final long to, final long bytes) {
        return quick(RECV, fd, to, bytes, 0);
    }

    /** As writev(2), to a socket, and without a SIGPIPE, of which the application may think that it is its own. */
    public long send(final int fd, final long iov, final int count) {
        if (count == 1) {
            return quick(SEND, fd, Memory.i64(iov), Memory.i64(iov + 8), MSG_NOSIGNAL);
        }
        Memory.i64(message + MSG_IOV, iov);
        Memory.i64(message + MSG_IOVLEN, count);
        return quick(SENDMSG, fd, message, MSG_NOSIGNAL, 0);
    }

    /** @return device and inode of an open file */
    public long[] file(final int fd) {
        final long stat = allocate(STAT_SIZE);
        final long result = call(f("fstat"), fd, stat, 0, 0, 0);
        final long[] file = {Memory.i64(stat), Memory.i64(stat + 8)};
        free(stat);
        check(result, "ask for a file's inode");
        return file;
    }

    public void close(final int fd) {
        if (fd >= 0) {
            call(f("close"), fd);
        }
    }

    /** Whether all of it is mapped. */
    public boolean mapped(final long address, final long bytes) {
        final long start = address & pageMask;
        return bytes == 0 || call(MSYNC, start, address + bytes - start, MS_ASYNC, 0, 0) == 0;
    }

    /** Zeroed, aligned to a cache line; to be given to {@link #free}. */
    public long allocate(final long bytes) {
        final long address = call(f("aligned_alloc"), 64, bytes + 63 & -64L, 0, 0, 0);
        if (address == 0) {
            throw new DeviceException(ENOMEM, "allocate " + bytes + " bytes");
        }
        Memory.zero(address, bytes);
        return address;
    }

    public void free(final long address) {
        call(f("free"), address);
    }

    public int eventfd() {
        return check(call(f("eventfd"), 0, SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0), "make an eventfd");
    }

    /** @return the reading end below, the writing end, which never blocks, above */
    long pipe() {
        check(call(f("pipe2"), scratch, SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0), "make a pipe");
        return Memory.i64(scratch);
    }

    public int epollCreate() {
        return check(call(f("epoll_create1"), SOCK_CLOEXEC), "make an epoll descriptor");
    }

    public void epollAdd(final int epoll, final int fd, final int events, final long data) {
        epollControl(epoll, EPOLL_CTL_ADD, fd, events, data);
    }

    public void epollModify(final int epoll, final int fd, final int events, final long data) {
        epollControl(epoll, EPOLL_CTL_MOD, fd, events, data);
    }

    public void epollDelete(final int epoll, final int fd) {
        call(f("epoll_ctl"), epoll, EPOLL_CTL_DEL, fd, scratch, 0);
    }

    private void epollControl(final int epoll, final int operation, final int fd, final int events, final long data) {
        Memory.i32(scratch, events);
        Memory.i64(scratch + EPOLL_DATA, data);
        check(call(f("epoll_ctl"), epoll, operation, fd, scratch, 0), "watch a descriptor");
    }

    /** Wakes all that sleep on that word of this process. */
    public void futexWake(final long word) {
        call(SYSCALL, FUTEX, word, FUTEX_WAKE_PRIVATE, Integer.MAX_VALUE, 0);
    }

    /** Returns when the word is another, on a wake, a signal, or when the time is over. */
    public void futexWait(final long word, final int expected, final long nanos) {
        final long timeout = timespec(nanos);
        call(SYSCALL, FUTEX, word, FUTEX_WAIT_PRIVATE, expected, timeout);
    }

    /** Returns when there is something to read, on a signal, or when the time is over. */
    public void awaitReadable(final int fd, final long nanos) {
        final long timeout = timespec(nanos);
        Memory.i32(scratch + 32, fd);
        Memory.i32(scratch + 36, EPOLLIN); // POLLIN
        call(PPOLL, scratch + 32, 1, timeout, 0, 0);
    }

    private long timespec(final long nanos) {
        Memory.i64(scratch, nanos / 1_000_000_000);
        Memory.i64(scratch + 8, nanos % 1_000_000_000);
        return scratch;
    }

    void yield() {
        call(SCHED_YIELD, 0);
    }

    public int epollWait(final int epoll, final long events, final int max, final int millis) {
        return (int) (millis == 0 ? quick(EPOLL_WAIT, epoll, events, max, 0) : call(EPOLL_WAIT, epoll, events, max, millis, 0));
    }

    private void sockaddr(final int ipv4, final int port) {
        Memory.zero(scratch, SOCKADDR_SIZE);
        Memory.u16(scratch, AF_INET);
        Memory.u8(scratch + 2, port >> 8);
        Memory.u8(scratch + 3, port);
        Memory.net32(scratch + 4, ipv4);
    }

    private int tcpSocket() {
        return check(call(f("socket"), AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0),
                "make a socket");
    }

    /** Listens at any free port of that address. */
    public int listen(final int ipv4) {
        final int fd = tcpSocket();
        sockaddr(ipv4, 0);
        if (call(f("bind"), fd, scratch, SOCKADDR_SIZE, 0, 0) < 0 || call(f("listen"), fd, 1024, 0, 0, 0) < 0) {
            final int err = errno();
            close(fd);
            throw new DeviceException(err, "listen at " + Address.text(ipv4));
        }
        return fd;
    }

    public int localPort(final int fd) {
        Memory.i32(scratch + 32, SOCKADDR_SIZE);
        check(call(f("getsockname"), fd, scratch, scratch + 32, 0, 0), "ask for a socket's address");
        return Memory.u8(scratch + 2) << 8 | Memory.u8(scratch + 3);
    }

    /** @return the address of this end of a UDP socket that would send there, or 0 */
    int sourceTowards(final int ipv4) {
        final int fd = check(call(f("socket"), AF_INET, 2 | SOCK_CLOEXEC, 0, 0, 0), "make a socket");
        sockaddr(ipv4, 9);
        final boolean reached = call(f("connect"), fd, scratch, SOCKADDR_SIZE, 0, 0) == 0;
        Memory.i32(scratch + 32, SOCKADDR_SIZE);
        final boolean named = reached && call(f("getsockname"), fd, scratch, scratch + 32, 0, 0) == 0;
        close(fd);
        return named ? Memory.net32(scratch + 4) : 0;
    }

    /** The IPv4 addresses of this host's interfaces but for the loopback's. */
    int[] addresses() {
        final int fd = check(call(f("socket"), AF_INET, 2 | SOCK_CLOEXEC, 0, 0, 0), "make a socket");
        final long list = allocate((long) MOST_INTERFACES * IFREQ_SIZE);
        Memory.i32(scratch, MOST_INTERFACES * IFREQ_SIZE);
        Memory.i64(scratch + 8, list);
        final boolean read = call(f("ioctl"), fd, SIOCGIFCONF, scratch, 0, 0) == 0;
        final int[] all = new int[read ? Memory.i32(scratch) / IFREQ_SIZE : 0];
        int n = 0;
        for (int i = 0; i < all.length; i++) {
            final int ipv4 = Memory.net32(list + (long) i * IFREQ_SIZE + IFREQ_IPV4);
            if (!Address.isLoopback(ipv4)) {
                all[n++] = ipv4;
            }
        }
        free(list);
        close(fd);
        return Arrays.copyOf(all, n);
    }

    /** @return the connection, or -1 */
    public int accept(final int fd) {
        return (int) call(f("accept4"), fd, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }

    /** Begins to connect; {@link #socketError} tells the result once it is writable. @return -1: failed at once */
    public int connect(final int ipv4, final int port) {
        final int fd = tcpSocket();
        sockaddr(ipv4, port);
        if (call(f("connect"), fd, scratch, SOCKADDR_SIZE, 0, 0) < 0 && errno() != EINPROGRESS) {
            close(fd);
            return -1;
        }
        return fd;
    }

    public int socketError(final int fd) {
        Memory.i32(scratch + 32, 4);
        call(f("getsockopt"), fd, SOL_SOCKET, SO_ERROR, scratch, scratch + 32);
        return Memory.i32(scratch);
    }

    /** No delay for small frames; a host that is gone is noticed. */
    public void tune(final int fd, final int deadMillis) {
        option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, deadMillis);
    }

    /**
     * A UDP socket at a port that many processes share, which sends to multicast groups by the interface with that address, and
     * receives of those alone that it is a member of.
     */
    public int multicastSocket(final int ipv4, final int port, final int buffer) {
        final int fd = check(call(f("socket"), AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0),
                "make a socket");
        option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
        option(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 1);
        option(fd, IPPROTO_IP, IP_MULTICAST_TTL, 1);
        if (option(fd, SOL_SOCKET, SO_RCVBUFFORCE, buffer) != 0) {
            option(fd, SOL_SOCKET, SO_RCVBUF, buffer); // as much as one without privilege may have
        }
        Memory.net32(scratch + 32, ipv4);
        boolean made = call(f("setsockopt"), fd, IPPROTO_IP, IP_MULTICAST_IF, scratch + 32, 4) == 0;
        sockaddr(0, port);
        made = made && call(f("bind"), fd, scratch, SOCKADDR_SIZE, 0, 0) == 0;
        if (!made) {
            final int err = errno();
            close(fd);
            throw new DeviceException(err, "make a socket for multicast at " + Address.text(ipv4));
        }
        return fd;
    }

    /** Joins a multicast group by the interface with that address, or leaves it. */
    public void membership(final int fd, final int group, final int ipv4, final boolean join) {
        Memory.net32(scratch, group);
        Memory.net32(scratch + 4, ipv4);
        check(call(f("setsockopt"), fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, scratch, 8),
                (join ? "join" : "leave") + " the multicast group " + Address.text(group));
    }

    /** @return bytes sent, or negative */
    public long sendTo(final int fd, final long from, final long bytes, final int ipv4, final int port) {
        sockaddr(ipv4, port);
        return call(SENDTO, fd, from, bytes, 0, scratch, SOCKADDR_SIZE);
    }

    /** For both ends on this host: there is no network to spare. Reno sends what the window allows and paces nothing. */
    public void unpace(final int fd) {
        option(fd, IPPROTO_TCP, TCP_CONGESTION, RENO); // refused: it stays as the system has it
    }

    private int option(final int fd, final int level, final int name, final int value) {
        Memory.i32(scratch, value);
        return (int) call(f("setsockopt"), fd, level, name, scratch, 4);
    }
}
