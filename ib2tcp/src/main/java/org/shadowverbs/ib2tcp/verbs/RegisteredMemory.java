// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.verbs;

import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_dm;
import org.shadowverbs.bindings.verbs.ibv_mr;
import org.shadowverbs.bindings.verbs.ibv_mw;
import org.shadowverbs.bindings.verbs.ibv_pd;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ib2tcp.engine.MemoryRegions;
import org.shadowverbs.ib2tcp.sockets.TcpDevice;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Host;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.TcpStructs;

/**
 * Memory that keys stand for: regions, windows, and device memory, which there is none of, so it is the process's own. The keys
 * themselves are in {@link MemoryRegions}. All of it runs on the engine's thread.
 */
final class RegisteredMemory {
    /** Logarithm of a cache line. */
    private static final int MAX_DM_ALIGNMENT = 6;

    /** Device memory. */
    private static final class DeviceMemory {
        final DeviceContext context;
        /** Regions of it. */
        int users;

        DeviceMemory(final DeviceContext context) {
            this.context = context;
        }
    }

    private static final class Region {
        int key;
        /** The device memory that it is a region of, or null. */
        DeviceMemory dm;
        int access;
        long iova;
        ProtectionDomain domain;
    }

    final ObjectTable<Region> regions = new ObjectTable<>("a memory region");
    final ObjectTable<DeviceMemory> memories = new ObjectTable<>("device memory");
    final ObjectTable<ProtectionDomain> windows = new ObjectTable<>("a memory window");
    private final TcpDevice device;
    private final Posix posix;
    private final Host host;
    private final ObjectTable<DeviceContext> contexts;
    private final ObjectTable<ProtectionDomain> domains;

    RegisteredMemory(final TcpDevice device, final Posix posix, final Host host,
            final ObjectTable<DeviceContext> contexts, final ObjectTable<ProtectionDomain> domains) {
        this.device = device;
        this.posix = posix;
        this.host = host;
        this.contexts = contexts;
        this.domains = domains;
    }

    // ---- Regions ----------------------------------------------------------------------------------------------------

    /** @return address of the struct ibv_mr */
    long register(final long pd, final long at, final long bytes, final long iova, final int access) {
        final ProtectionDomain domain = domains.known(pd);
        checkMemory(at, bytes, access);
        final Region region = new Region();
        region.domain = domain;
        region.access = access;
        region.iova = iova;
        region.key = device.regions.add(pd, at, bytes, iova, access);
        final long address = posix.allocate(ibv_mr.sizeof());
        describe(address, pd, at, bytes, region.key);
        domain.users++;
        regions.add(address, region);
        return address;
    }

    /** A region without memory: what is written to it is gone, and zeros are read. */
    long registerNothing(final long pd) {
        final ProtectionDomain domain = domains.known(pd);
        final Region region = new Region();
        region.domain = domain;
        region.key = device.regions.addNothing(pd);
        final long address = posix.allocate(ibv_mr.sizeof());
        describe(address, pd, 0, 0, region.key);
        domain.users++;
        regions.add(address, region);
        return address;
    }

    /** Changes what the flags name ({@code enum ibv_rereg_mr_flags}); when it is refused the region is as it was. */
    void reregister(final long mr, final int flags, final long pd, final long at, final long bytes, final int access) {
        final Region region = regions.known(mr);
        final MemorySegment struct = TcpStructs.at(mr, ibv_mr.sizeof());
        final boolean moves = (flags & verbs_h.IBV_REREG_MR_CHANGE_TRANSLATION()) != 0;
        final long newPd = (flags & verbs_h.IBV_REREG_MR_CHANGE_PD()) != 0 ? pd : ibv_mr.pd(struct).address();
        final long newAt = moves ? at : ibv_mr.addr(struct).address();
        final long newBytes = moves ? bytes : ibv_mr.length(struct);
        final int newAccess = (flags & verbs_h.IBV_REREG_MR_CHANGE_ACCESS()) != 0 ? access : region.access;
        final ProtectionDomain domain = domains.known(newPd);
        checkMemory(newAt, newBytes, newAccess);
        device.regions.remove(region.key);
        region.access = newAccess;
        region.key = device.regions.add(newPd, newAt, newBytes, moves ? newAt : region.iova, newAccess);
        region.iova = moves ? newAt : region.iova;
        region.domain.users--;
        domain.users++;
        region.domain = domain;
        describe(mr, newPd, newAt, newBytes, region.key);
    }

    void deregister(final long mr) {
        final Region region = regions.known(mr);
        device.regions.remove(region.key);
        region.domain.users--;
        if (region.dm != null) {
            region.dm.users--;
        }
        regions.remove(mr);
        posix.free(mr);
    }

    private void checkMemory(final long at, final long bytes, final int access) {
        if ((access & (MemoryRegions.REMOTE_WRITE | MemoryRegions.REMOTE_ATOMIC)) != 0
                && (access & MemoryRegions.LOCAL_WRITE) == 0 || bytes < 0) {
            throw new DeviceException(Posix.EINVAL, "register memory for remote writes and not for local ones");
        }
        if (!posix.mapped(at, bytes)) {
            throw new DeviceException(Posix.EFAULT, "register memory that is not mapped");
        }
    }

    private static void describe(final long mr, final long pd, final long at, final long bytes, final int key) {
        final MemorySegment struct = TcpStructs.at(mr, ibv_mr.sizeof());
        ibv_mr.context(struct, ibv_pd.context(TcpStructs.at(pd, ibv_pd.sizeof())));
        ibv_mr.pd(struct, MemorySegment.ofAddress(pd));
        ibv_mr.addr(struct, MemorySegment.ofAddress(at));
        ibv_mr.length(struct, bytes);
        ibv_mr.lkey(struct, key);
        ibv_mr.rkey(struct, key);
    }

    // ---- Device memory ----------------------------------------------------------------------------------------------

    /**
     * @param bytes no more than {@link Limits#MAX_DM}
     * @param alignment its logarithm
     * @return address of the struct ibv_dm
     */
    long allocateDm(final long context, final long bytes, final int alignment) {
        final DeviceContext of = contexts.known(context);
        if (bytes <= 0 || bytes > Limits.MAX_DM || alignment < 0 || alignment > MAX_DM_ALIGNMENT) {
            throw new DeviceException(Posix.EINVAL, "allocate " + bytes + " bytes of device memory");
        }
        final long address = posix.allocate(Layouts.DM_SIZE);
        ibv_dm.context(TcpStructs.at(address, ibv_dm.sizeof()), MemorySegment.ofAddress(context));
        host.dmInit(address);
        Memory.i64(address + Layouts.DM_BASE, posix.allocate(bytes));
        Memory.i64(address + Layouts.DM_LENGTH, bytes);
        of.users++;
        memories.add(address, new DeviceMemory(of));
        return address;
    }

    void freeDm(final long dm) {
        final DeviceMemory memoryOf = memories.known(dm);
        if (memoryOf.users != 0) {
            throw new DeviceException(Posix.EBUSY, "free device memory that is in use");
        }
        memories.remove(dm);
        memoryOf.context.users--;
        posix.free(Memory.i64(dm + Layouts.DM_BASE));
        posix.free(dm);
    }

    /** A region of device memory; requests count from its beginning. */
    long registerDm(final long pd, final long dm, final long offset, final long bytes, final int access) {
        final ProtectionDomain domain = domains.known(pd);
        final DeviceMemory of = memories.known(dm);
        final long length = Memory.i64(dm + Layouts.DM_LENGTH);
        if (offset < 0 || bytes < 0 || offset > length || bytes > length - offset) {
            throw new DeviceException(Posix.EINVAL, "register what is no part of the device memory");
        }
        final Region region = new Region();
        region.domain = domain;
        region.access = access;
        region.dm = of;
        region.key = device.regions.add(pd, Memory.i64(dm + Layouts.DM_BASE) + offset, bytes, 0, access);
        final long address = posix.allocate(ibv_mr.sizeof());
        describe(address, pd, 0, bytes, region.key);
        domain.users++;
        of.users++;
        regions.add(address, region);
        return address;
    }

    // ---- Memory windows ---------------------------------------------------------------------------------------------

    /**
     * @param type {@code enum ibv_mw_type}
     * @return address of the struct ibv_mw
     */
    long allocateWindow(final long pd, final int type) {
        final ProtectionDomain domain = domains.known(pd);
        if (type != verbs_h.IBV_MW_TYPE_1() && type != verbs_h.IBV_MW_TYPE_2()) {
            throw new DeviceException(Posix.EINVAL, "make a memory window of type " + type);
        }
        final long address = posix.allocate(ibv_mw.sizeof());
        final MemorySegment struct = TcpStructs.at(address, ibv_mw.sizeof());
        ibv_mw.context(struct, MemorySegment.ofAddress(domain.context.address));
        ibv_mw.pd(struct, MemorySegment.ofAddress(pd));
        ibv_mw.type(struct, type);
        ibv_mw.rkey(struct, device.regions.addWindow(pd, type == verbs_h.IBV_MW_TYPE_2()));
        domain.users++;
        windows.add(address, domain);
        return address;
    }

    void deallocateWindow(final long mw) {
        windows.known(mw).users--;
        windows.remove(mw);
        device.regions.remove(ibv_mw.rkey(TcpStructs.at(mw, ibv_mw.sizeof())));
        posix.free(mw);
    }
}
