// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/** What a memory region was made of: enough to make it anew. Immutable. */
final class Registration {
    enum Kind {
        /** Of the application's memory. */
        MEMORY,
        /** Of none: reads give zeros, writes go nowhere. */
        NULL,
        DEVICE,
        /** Of another driver's buffer, by a descriptor that is ours. */
        DMABUF
    }

    final Kind kind;
    /** In device memory and in a buffer, where the region begins there. */
    final long address;
    final long length;
    final long iova;
    final int access;
    /** Of device memory, else null. */
    final Dm dm;
    /** Of a buffer, else -1. */
    final int fd;

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

    static Registration memory(final long address, final long length, final long iova, final int access) {
        return new Registration(Kind.MEMORY, address, length, iova, access, null, -1);
    }

    static Registration ofNothing() {
        return new Registration(Kind.NULL, 0, 0, 0, 0, null, -1);
    }

    static Registration device(final Dm dm, final long offset, final long length, final int access) {
        return new Registration(Kind.DEVICE, offset, length, 0, access, dm, -1);
    }

    static Registration dmabuf(final int fd, final long offset, final long length, final long iova,
            final int access) {
        return new Registration(Kind.DMABUF, offset, length, iova, access, null, fd);
    }

    /** @return the real region */
    long make(final Backend backend, final long realPd) {
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
    long shownAddress() {
        return kind == Kind.DEVICE ? 0 : address;
    }
}
