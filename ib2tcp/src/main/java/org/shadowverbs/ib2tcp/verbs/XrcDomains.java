// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.verbs;

import java.lang.foreign.MemorySegment;
import java.util.List;
import org.shadowverbs.bindings.verbs.ibv_xrcd;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.TcpStructs;

/**
 * XRC domains (ibv_open_xrcd(3)). Several handles stand for one domain when they were opened with one file, in this process:
 * each process has domains of its own, whatever the file.
 */
public final class XrcDomains {
    public static final int O_CREAT = 0100;
    public static final int O_EXCL = 0200;

    private static final class Handle {
        final long context;
        final int domain;
        /** 0 0: no file. */
        final long device;
        final long inode;
        int users;

        Handle(final long context, final int domain, final long device, final long inode) {
            this.context = context;
            this.domain = domain;
            this.device = device;
            this.inode = inode;
        }
    }

    private final ObjectTable<Handle> handles = new ObjectTable<>("an XRC domain");
    private int domains;

    /** The addresses of those of a context. */
    List<Long> of(final long context) {
        return handles.of(context);
    }

    /**
     * @param fd of a file, or negative: a domain that nobody else opens
     * @return address of the struct ibv_xrcd
     */
    public long open(final Posix posix, final long context, final int fd, final int flags) {
        if ((flags & ~(O_CREAT | O_EXCL)) != 0 || fd < 0 && (flags & O_CREAT) == 0) {
            throw new DeviceException(Posix.EINVAL, "open an XRC domain with flags 0" + Integer.toOctalString(flags));
        }
        final long[] file = fd < 0 ? new long[2] : posix.file(fd);
        Handle same = null;
        for (final Handle handle : handles.all()) {
            if (fd >= 0 && handle.context == context && handle.device == file[0] && handle.inode == file[1]) {
                same = handle;
            }
        }
        // As the kernel's verbs core answers.
        if (same != null && (flags & O_EXCL) != 0) {
            throw new DeviceException(Posix.EINVAL, "be the first to open an XRC domain");
        }
        if (same == null && (flags & O_CREAT) == 0) {
            throw new DeviceException(Posix.EAGAIN, "open an XRC domain that this process has not; those of other"
                    + " processes cannot be shared");
        }
        final long address = posix.allocate(ibv_xrcd.sizeof());
        ibv_xrcd.context(TcpStructs.at(address, ibv_xrcd.sizeof()), MemorySegment.ofAddress(context));
        handles.add(address, new Handle(context, same == null ? ++domains : same.domain, file[0], file[1]));
        return address;
    }

    long context(final long address) {
        return handles.known(address).context;
    }

    /** The number of the domain, not 0. */
    public int domain(final long address) {
        return handles.known(address).domain;
    }

    public void use(final long address, final int more) {
        handles.known(address).users += more;
    }

    public void close(final Posix posix, final long address) {
        if (handles.known(address).users != 0) {
            throw new DeviceException(Posix.EBUSY, "close an XRC domain that is in use");
        }
        handles.remove(address);
        posix.free(address);
    }
}
