// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.nativelib.Native;

/** What a memory region was made of: enough to make it anew. Immutable. */
public final class Registration {
    public enum Kind {
        /** The application's memory. */
        MEMORY,
        /** No memory: reads give zeros, writes go nowhere. */
        NULL,
        DEVICE,
        /** Another driver's buffer, by a descriptor of ours. */
        DMABUF
    }

    /** IBV_ACCESS_REMOTE_WRITE, _READ, _ATOMIC. */
    private static final int REMOTE = 2 | 4 | 8;

    /** IBV_ACCESS_LOCAL_WRITE, _REMOTE_WRITE, _REMOTE_ATOMIC: by receives and answers, or by peers. */
    private static final int WRITTEN = 1 | 2 | 8;
    /** IBV_ACCESS_ON_DEMAND: the device writes through the page tables. */
    private static final int ON_DEMAND = 64;

    public final Kind kind;
    /** In device memory and in a buffer, where the region begins there. */
    public final long address;
    public final long length;
    public final long iova;
    public final int access;
    /** The device memory, else null. */
    final Dm dm;
    /** The descriptor of a buffer, else -1. */
    public final int fd;

    private Registration(final Kind kind, final long address, final long length, final long iova, final int access,
            final Dm dm, final int fd) {
        this.kind = kind;
        this.address = address;
        this.length = length;
        this.iova = iova;
        this.access = access;
        this.dm = dm;
        this.fd = fd;
    }

    public static Registration memory(final long address, final long length, final long iova, final int access) {
        return new Registration(Kind.MEMORY, address, length, iova, access, null, -1);
    }

    public static Registration ofNothing() {
        return new Registration(Kind.NULL, 0, 0, 0, 0, null, -1);
    }

    public static Registration device(final Dm dm, final long offset, final long length, final int access) {
        return new Registration(Kind.DEVICE, offset, length, 0, access, dm, -1);
    }

    public static Registration dmabuf(final int fd, final long offset, final long length, final long iova,
            final int access) {
        return new Registration(Kind.DMABUF, offset, length, iova, access, null, fd);
    }

    /** Whether peers may access it: its rkey is of use to others. */
    public boolean remote() {
        return (access & REMOTE) != 0;
    }

    /**
     * Has the kernel count as written what a device may have written to: it writes past the page tables, so an image that has only
     * what is written since the last one would lack that. A device over TCP writes as the program does.
     *
     * @param backend its name
     */
    public void countAsWritten(final Native library, final String backend) {
        if (kind == Kind.MEMORY && (access & WRITTEN) != 0 && (access & ON_DEMAND) == 0 && !BackendName.overTcp(backend)) {
            library.countAsWritten(address, length);
        }
    }

    /** @return the real region */
    public long make(final Backend backend, final long realPd) {
        switch (kind) {
            case NULL:
                return backend.allocNullMr(realPd);
            case DEVICE:
                return backend.regDmMr(realPd, dm.real, address, length, access);
            case DMABUF:
                return backend.regDmabufMr(realPd, address, length, iova, fd, access);
            default:
                return backend.regMr(realPd, address, length, iova, access);
        }
    }

    /** The address that the virtual struct shows. */
    public long shownAddress() {
        return kind == Kind.DEVICE ? 0 : address;
    }
}
