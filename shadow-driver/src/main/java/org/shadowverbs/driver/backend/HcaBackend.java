// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;
import org.shadowverbs.bindings.verbs.ibv_device_attr;
import org.shadowverbs.bindings.verbs.ibv_gid_entry;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.coordinator.client.HcaLimits;
import org.shadowverbs.driver.nativelib.Downcall;
import org.shadowverbs.driver.nativelib.NativeLibrary;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;

/** The verbs library of this host, libibverbs.so.1, and the providers behind it. */
@SuppressWarnings("restricted")
public final class HcaBackend implements Backend {
    /** By their ordinals. */
    private final MemorySegment[] functions;
    private long deviceList;

    public HcaBackend() {
        this(function -> function.isOurs() ? NativeLibrary.function(function.symbol())
                : NativeLibrary.installedFunction(function.symbol()));
    }

    /** @param library gives the functions, a null address for one that it lacks; all are asked for now, see {@link NativeLibrary} */
    HcaBackend(final Function<HcaFunction, MemorySegment> library) {
        functions = Stream.of(HcaFunction.values()).map(library).toArray(MemorySegment[]::new);
    }

    /** @param arguments the first is the object that it is about */
    private long call(final HcaFunction function, final long... arguments) {
        Backend.live(arguments[0]);
        return Downcall.call(functions[function.ordinal()], arguments);
    }

    /** Calls a function that returns an object: null is a failure, errno says which. */
    private long made(final HcaFunction function, final long... arguments) {
        final long pointer = call(function, arguments);
        if (pointer == 0) {
            throw new VerbsException(Downcall.errno());
        }
        return pointer;
    }

    /** Calls a function that returns 0 or an errno value or, as some providers and older verbs, -1 with errno set. */
    private int err(final HcaFunction function, final long... arguments) {
        final int err = (int) call(function, arguments);
        return err >= 0 ? err : err == -1 && Downcall.errno() != 0 ? Downcall.errno() : -err;
    }

    /** The same, of a function that ends what the object stands for: when there is nothing behind it, it is done. */
    private int ended(final HcaFunction function, final long... arguments) {
        return arguments[0] == 0 ? 0 : err(function, arguments);
    }

    @Override
    public String name() {
        return BackendName.HCA;
    }

    @Override
    public long[] devices() {
        final long old = deviceList;
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment count = arena.allocate(4, 4);
            deviceList = made(HcaFunction.IBV_GET_DEVICE_LIST, count.address());
            // Only now: what is in both lists stays valid.
            if (old != 0) {
                call(HcaFunction.IBV_FREE_DEVICE_LIST, old);
            }
            final long[] devices = new long[count.get(ValueLayout.JAVA_INT, 0)];
            final MemorySegment list = MemorySegment.ofAddress(deviceList).reinterpret(devices.length * 8L);
            for (int i = 0; i < devices.length; i++) {
                devices[i] = list.getAtIndex(ValueLayout.JAVA_LONG, i);
            }
            return devices;
        }
    }

    @Override
    public String deviceName(final long device) {
        return MemorySegment.ofAddress(call(HcaFunction.IBV_GET_DEVICE_NAME, device)).reinterpret(Long.MAX_VALUE).getString(0);
    }

    @Override
    public long openDevice(final long device) {
        return made(HcaFunction.IBV_OPEN_DEVICE, device);
    }

    @Override
    public int closeDevice(final long context) {
        return ended(HcaFunction.IBV_CLOSE_DEVICE, context);
    }

    @Override
    public int queryDevice(final long context, final MemorySegment attr) {
        return err(HcaFunction.IBV_QUERY_DEVICE, context, attr.address());
    }

    @Override
    public Map<String, Long> limits(final long context) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_device_attr.allocate(arena);
            return queryDevice(context, attr) == 0 ? HcaLimits.of(attr) : Map.of();
        }
    }

    @Override
    public int queryDeviceEx(final long context, final MemorySegment attr) {
        return err(HcaFunction.SV_REAL_QUERY_DEVICE_EX, context, attr.address());
    }

    @Override
    public int queryPort(final long context, final int port, final MemorySegment attr) {
        return err(HcaFunction.SV_REAL_QUERY_PORT, context, port, attr.address());
    }

    @Override
    public int sourceLid() {
        return 0;
    }

    @Override
    public int queryGid(final long context, final int port, final int index, final MemorySegment gid) {
        return err(HcaFunction.IBV_QUERY_GID, context, port, index, gid.address());
    }

    @Override
    public int queryGidEx(final long context, final int port, final int index, final MemorySegment entry,
            final int flags) {
        return err(HcaFunction._IBV_QUERY_GID_EX, context, port, index, entry.address(), flags, ibv_gid_entry.sizeof());
    }

    @Override
    public int queryGidTable(final long context, final MemorySegment entries, final int maxEntries) {
        return (int) call(HcaFunction._IBV_QUERY_GID_TABLE, context, entries.address(), maxEntries, 0,
                ibv_gid_entry.sizeof());
    }

    @Override
    public int queryPkey(final long context, final int port, final int index, final long pkey) {
        return err(HcaFunction.IBV_QUERY_PKEY, context, port, index, pkey);
    }

    @Override
    public int pkeyIndex(final long context, final int port, final int pkey) {
        final int index = (int) call(HcaFunction.IBV_GET_PKEY_INDEX, context, port, pkey);
        return index >= 0 ? index : -(Downcall.errno() == 0 ? VerbsErrno.EINVAL : Downcall.errno());
    }

    @Override
    public long allocPd(final long context) {
        return made(HcaFunction.IBV_ALLOC_PD, context);
    }

    @Override
    public int deallocPd(final long pd) {
        return ended(HcaFunction.IBV_DEALLOC_PD, pd);
    }

    @Override
    public long regMr(final long pd, final long address, final long length, final long iova, final int access) {
        return made(HcaFunction.SV_REAL_REG_MR, pd, address, length, iova, access);
    }

    @Override
    public long allocNullMr(final long pd) {
        return made(HcaFunction.SV_REAL_ALLOC_NULL_MR, pd);
    }

    @Override
    public long regDmMr(final long pd, final long dm, final long offset, final long length, final int access) {
        return made(HcaFunction.SV_REAL_REG_DM_MR, pd, dm, offset, length, access);
    }

    @Override
    public long regDmabufMr(final long pd, final long offset, final long length, final long iova, final int fd,
            final int access) {
        return made(HcaFunction.IBV_REG_DMABUF_MR, pd, offset, length, iova, fd, access);
    }

    @Override
    public long allocMw(final long pd, final int type) {
        return made(HcaFunction.SV_REAL_ALLOC_MW, pd, type);
    }

    @Override
    public int deallocMw(final long mw) {
        return ended(HcaFunction.SV_REAL_DEALLOC_MW, mw);
    }

    @Override
    public long allocDm(final long context, final MemorySegment attr) {
        return made(HcaFunction.SV_REAL_ALLOC_DM, context, attr.address());
    }

    @Override
    public int freeDm(final long dm) {
        return ended(HcaFunction.SV_REAL_FREE_DM, dm);
    }

    @Override
    public int reregMr(final long mr, final int flags, final long pd, final long address, final long length,
            final int access) {
        return (int) call(HcaFunction.IBV_REREG_MR, mr, flags, pd, address, length, access);
    }

    @Override
    public int deregMr(final long mr) {
        return ended(HcaFunction.IBV_DEREG_MR, mr);
    }

    @Override
    public long createChannel(final long context) {
        return made(HcaFunction.IBV_CREATE_COMP_CHANNEL, context);
    }

    @Override
    public int destroyChannel(final long channel) {
        return ended(HcaFunction.IBV_DESTROY_COMP_CHANNEL, channel);
    }

    @Override
    public long createCq(final long context, final int cqe, final long cqContext, final long channel,
            final int vector) {
        return made(HcaFunction.IBV_CREATE_CQ, context, cqe, cqContext, channel, vector);
    }

    @Override
    public long createCqEx(final long context, final MemorySegment attr) {
        return made(HcaFunction.SV_REAL_CREATE_CQ_EX, context, attr.address());
    }

    @Override
    public int modifyCq(final long cq, final MemorySegment attr) {
        return err(HcaFunction.SV_REAL_MODIFY_CQ, cq, attr.address());
    }

    @Override
    public int resizeCq(final long cq, final int cqe) {
        return err(HcaFunction.IBV_RESIZE_CQ, cq, cqe);
    }

    @Override
    public int destroyCq(final long cq) {
        return ended(HcaFunction.IBV_DESTROY_CQ, cq);
    }

    @Override
    public long createAh(final long pd, final MemorySegment attr) {
        return made(HcaFunction.IBV_CREATE_AH, pd, attr.address());
    }

    @Override
    public int destroyAh(final long ah) {
        return ended(HcaFunction.IBV_DESTROY_AH, ah);
    }

    @Override
    public long openXrcd(final long context, final MemorySegment attr) {
        return made(HcaFunction.SV_REAL_OPEN_XRCD, context, attr.address());
    }

    @Override
    public int closeXrcd(final long xrcd) {
        return ended(HcaFunction.SV_REAL_CLOSE_XRCD, xrcd);
    }

    @Override
    public long openQp(final long context, final MemorySegment attr) {
        return made(HcaFunction.SV_REAL_OPEN_QP, context, attr.address());
    }

    @Override
    public long createSrqEx(final long context, final MemorySegment initAttr) {
        return made(HcaFunction.SV_REAL_CREATE_SRQ_EX, context, initAttr.address());
    }

    @Override
    public int srqNum(final long srq) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment number = arena.allocate(4, 4);
            VerbsException.check(err(HcaFunction.SV_REAL_GET_SRQ_NUM, srq, number.address()));
            return number.get(ValueLayout.JAVA_INT, 0);
        }
    }

    @Override
    public long createSrq(final long pd, final MemorySegment initAttr) {
        return made(HcaFunction.IBV_CREATE_SRQ, pd, initAttr.address());
    }

    @Override
    public int modifySrq(final long srq, final MemorySegment attr, final int mask) {
        return err(HcaFunction.IBV_MODIFY_SRQ, srq, attr.address(), mask);
    }

    @Override
    public int querySrq(final long srq, final MemorySegment attr) {
        return err(HcaFunction.IBV_QUERY_SRQ, srq, attr.address());
    }

    @Override
    public int destroySrq(final long srq) {
        return ended(HcaFunction.IBV_DESTROY_SRQ, srq);
    }

    @Override
    public long createQp(final long pd, final MemorySegment initAttr) {
        return made(HcaFunction.IBV_CREATE_QP, pd, initAttr.address());
    }

    @Override
    public long createQpEx(final long context, final MemorySegment initAttr) {
        return made(HcaFunction.SV_REAL_CREATE_QP_EX, context, initAttr.address());
    }

    @Override
    public int attachMcast(final long qp, final MemorySegment gid, final int lid) {
        return err(HcaFunction.IBV_ATTACH_MCAST, qp, gid.address(), lid);
    }

    @Override
    public int detachMcast(final long qp, final MemorySegment gid, final int lid) {
        return ended(HcaFunction.IBV_DETACH_MCAST, qp, gid.address(), lid);
    }

    @Override
    public int queryQp(final long qp, final MemorySegment attr, final int mask, final MemorySegment initAttr) {
        return err(HcaFunction.IBV_QUERY_QP, qp, attr.address(), mask, initAttr.address());
    }

    @Override
    public int modifyQp(final long qp, final MemorySegment attr, final int mask) {
        return err(HcaFunction.IBV_MODIFY_QP, qp, attr.address(), mask);
    }

    @Override
    public int modifyQpRateLimit(final long qp, final MemorySegment attr) {
        return err(HcaFunction.SV_REAL_MODIFY_QP_RATE_LIMIT, qp, attr.address());
    }

    @Override
    public int destroyQp(final long qp) {
        return ended(HcaFunction.IBV_DESTROY_QP, qp);
    }
}
