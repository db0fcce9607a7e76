// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import static org.shadowverbs.driver.nativelib.Downcall.call;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Map;
import org.shadowverbs.bindings.verbs.ibv_context;
import org.shadowverbs.bindings.verbs.ibv_device_attr;
import org.shadowverbs.bindings.verbs.ibv_gid_entry;
import org.shadowverbs.bindings.verbs.ibv_mr;
import org.shadowverbs.bindings.verbs.ibv_mw;
import org.shadowverbs.bindings.verbs.ibv_qp;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.coordinator.client.HcaLimits;
import org.shadowverbs.driver.nativelib.Downcall;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.NativeLibrary;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;

/** The verbs library of this host, libibverbs.so.1, and the providers behind it. */
@SuppressWarnings("restricted")
public final class HcaBackend implements Backend {

    private static final MemorySegment IBV_GET_DEVICE_LIST = f("ibv_get_device_list");
    private static final MemorySegment IBV_FREE_DEVICE_LIST = f("ibv_free_device_list");
    private static final MemorySegment IBV_GET_DEVICE_NAME = f("ibv_get_device_name");
    private static final MemorySegment IBV_OPEN_DEVICE = f("ibv_open_device");
    private static final MemorySegment IBV_CLOSE_DEVICE = f("ibv_close_device");
    private static final MemorySegment IBV_QUERY_DEVICE = f("ibv_query_device");
    private static final MemorySegment IBV_QUERY_GID = f("ibv_query_gid");
    private static final MemorySegment IBV_QUERY_GID_EX = f("_ibv_query_gid_ex");
    private static final MemorySegment IBV_QUERY_GID_TABLE = f("_ibv_query_gid_table");
    private static final MemorySegment IBV_QUERY_PKEY = f("ibv_query_pkey");
    private static final MemorySegment IBV_GET_PKEY_INDEX = f("ibv_get_pkey_index");
    private static final MemorySegment IBV_ALLOC_PD = f("ibv_alloc_pd");
    private static final MemorySegment IBV_DEALLOC_PD = f("ibv_dealloc_pd");
    private static final MemorySegment IBV_REG_DMABUF_MR = f("ibv_reg_dmabuf_mr");
    private static final MemorySegment IBV_REREG_MR = f("ibv_rereg_mr");
    private static final MemorySegment IBV_DEREG_MR = f("ibv_dereg_mr");
    private static final MemorySegment IBV_CREATE_COMP_CHANNEL = f("ibv_create_comp_channel");
    private static final MemorySegment IBV_DESTROY_COMP_CHANNEL = f("ibv_destroy_comp_channel");
    private static final MemorySegment IBV_CREATE_CQ = f("ibv_create_cq");
    private static final MemorySegment IBV_RESIZE_CQ = f("ibv_resize_cq");
    private static final MemorySegment IBV_DESTROY_CQ = f("ibv_destroy_cq");
    private static final MemorySegment IBV_CREATE_AH = f("ibv_create_ah");
    private static final MemorySegment IBV_DESTROY_AH = f("ibv_destroy_ah");
    private static final MemorySegment IBV_CREATE_SRQ = f("ibv_create_srq");
    private static final MemorySegment IBV_MODIFY_SRQ = f("ibv_modify_srq");
    private static final MemorySegment IBV_QUERY_SRQ = f("ibv_query_srq");
    private static final MemorySegment IBV_DESTROY_SRQ = f("ibv_destroy_srq");
    private static final MemorySegment IBV_CREATE_QP = f("ibv_create_qp");
    private static final MemorySegment IBV_QUERY_QP = f("ibv_query_qp");
    private static final MemorySegment IBV_MODIFY_QP = f("ibv_modify_qp");
    private static final MemorySegment IBV_ATTACH_MCAST = f("ibv_attach_mcast");
    private static final MemorySegment IBV_DETACH_MCAST = f("ibv_detach_mcast");
    private static final MemorySegment IBV_DESTROY_QP = f("ibv_destroy_qp");

    private final Native library;
    private long deviceList;

    public HcaBackend(final Native library) {
        this.library = library;
    }

    private static MemorySegment f(final String name) {
        return NativeLibrary.installedFunction(name);
    }

    /** The result of functions that return an object: null is a failure, errno says which. */
    private static long object(final long pointer) {
        if (pointer == 0) {
            throw new VerbsException(Downcall.errno());
        }
        return pointer;
    }

    /** The result of functions that return 0 or an errno value or, as some providers and older verbs, -1 with errno set. */
    private static int err(final long result) {
        final int err = (int) result;
        return err >= 0 ? err : err == -1 && Downcall.errno() != 0 ? Downcall.errno() : -err;
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
            deviceList = object(call(IBV_GET_DEVICE_LIST, count.address()));
            // Only now: what is in both lists stays valid.
            if (old != 0) {
                call(IBV_FREE_DEVICE_LIST, old);
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
        return MemorySegment.ofAddress(call(IBV_GET_DEVICE_NAME, device)).reinterpret(Long.MAX_VALUE).getString(0);
    }

    @Override
    public long openDevice(final long device) {
        return object(call(IBV_OPEN_DEVICE, device));
    }

    @Override
    public int closeDevice(final long context) {
        return err(call(IBV_CLOSE_DEVICE, context));
    }

    @Override
    public int queryDevice(final long context, final MemorySegment attr) {
        return err(call(IBV_QUERY_DEVICE, context, attr.address()));
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
        return library.realQueryDeviceEx(context, attr);
    }

    @Override
    public int queryPort(final long context, final int port, final MemorySegment attr) {
        return library.realQueryPort(context, port, attr);
    }

    @Override
    public int sourceLid() {
        return 0;
    }

    @Override
    public int queryGid(final long context, final int port, final int index, final MemorySegment gid) {
        return err(call(IBV_QUERY_GID, context, port, index, gid.address()));
    }

    @Override
    public int queryGidEx(final long context, final int port, final int index, final MemorySegment entry,
            final int flags) {
        return err(call(IBV_QUERY_GID_EX, context, port, index, entry.address(), flags, ibv_gid_entry.sizeof()));
    }

    @Override
    public int queryGidTable(final long context, final MemorySegment entries, final int maxEntries) {
        return (int) call(IBV_QUERY_GID_TABLE, context, entries.address(), maxEntries, 0, ibv_gid_entry.sizeof());
    }

    @Override
    public int queryPkey(final long context, final int port, final int index, final long pkey) {
        return err(call(IBV_QUERY_PKEY, context, port, index, pkey));
    }

    @Override
    public int pkeyIndex(final long context, final int port, final int pkey) {
        final int index = (int) call(IBV_GET_PKEY_INDEX, context, port, pkey);
        return index >= 0 ? index : -(Downcall.errno() == 0 ? VerbsErrno.EINVAL : Downcall.errno());
    }

    @Override
    public int completionVectors(final long context) {
        return ibv_context.num_comp_vectors(Structs.at(context, ibv_context.sizeof()));
    }

    @Override
    public long allocPd(final long context) {
        return object(call(IBV_ALLOC_PD, context));
    }

    @Override
    public int deallocPd(final long pd) {
        return err(call(IBV_DEALLOC_PD, pd));
    }

    @Override
    public long regMr(final long pd, final long address, final long length, final long iova, final int access) {
        return object(library.realRegMr(pd, address, length, iova, access));
    }

    @Override
    public long allocNullMr(final long pd) {
        return object(library.realAllocNullMr(pd));
    }

    @Override
    public long regDmMr(final long pd, final long dm, final long offset, final long length, final int access) {
        return object(library.realRegDmMr(pd, dm, offset, length, access));
    }

    @Override
    public long regDmabufMr(final long pd, final long offset, final long length, final long iova, final int fd,
            final int access) {
        return object(call(IBV_REG_DMABUF_MR, pd, offset, length, iova, fd, access));
    }

    @Override
    public long allocMw(final long pd, final int type) {
        return object(library.realAllocMw(pd, type));
    }

    @Override
    public int deallocMw(final long mw) {
        return err(library.realDeallocMw(mw));
    }

    @Override
    public int mwRkey(final long mw) {
        return ibv_mw.rkey(Structs.at(mw, ibv_mw.sizeof()));
    }

    @Override
    public long allocDm(final long context, final MemorySegment attr) {
        return object(library.realAllocDm(context, attr));
    }

    @Override
    public int freeDm(final long dm) {
        return err(library.realFreeDm(dm));
    }

    @Override
    public int reregMr(final long mr, final int flags, final long pd, final long address, final long length,
            final int access) {
        return (int) call(IBV_REREG_MR, mr, flags, pd, address, length, access);
    }

    @Override
    public int deregMr(final long mr) {
        return err(call(IBV_DEREG_MR, mr));
    }

    @Override
    public int lkey(final long mr) {
        return ibv_mr.lkey(Structs.at(mr, ibv_mr.sizeof()));
    }

    @Override
    public int rkey(final long mr) {
        return ibv_mr.rkey(Structs.at(mr, ibv_mr.sizeof()));
    }

    @Override
    public long createChannel(final long context) {
        return object(call(IBV_CREATE_COMP_CHANNEL, context));
    }

    @Override
    public int destroyChannel(final long channel) {
        return err(call(IBV_DESTROY_COMP_CHANNEL, channel));
    }

    @Override
    public long createCq(final long context, final int cqe, final long cqContext, final long channel,
            final int vector) {
        return object(call(IBV_CREATE_CQ, context, cqe, cqContext, channel, vector));
    }

    @Override
    public long createCqEx(final long context, final MemorySegment attr) {
        return object(library.realCreateCqEx(context, attr));
    }

    @Override
    public int modifyCq(final long cq, final MemorySegment attr) {
        return err(library.realModifyCq(cq, attr));
    }

    @Override
    public int resizeCq(final long cq, final int cqe) {
        return err(call(IBV_RESIZE_CQ, cq, cqe));
    }

    @Override
    public int destroyCq(final long cq) {
        return err(call(IBV_DESTROY_CQ, cq));
    }

    @Override
    public long createAh(final long pd, final MemorySegment attr) {
        return object(call(IBV_CREATE_AH, pd, attr.address()));
    }

    @Override
    public int destroyAh(final long ah) {
        return err(call(IBV_DESTROY_AH, ah));
    }

    @Override
    public long openXrcd(final long context, final MemorySegment attr) {
        return object(library.realOpenXrcd(context, attr));
    }

    @Override
    public int closeXrcd(final long xrcd) {
        return err(library.realCloseXrcd(xrcd));
    }

    @Override
    public long openQp(final long context, final MemorySegment attr) {
        return object(library.realOpenQp(context, attr));
    }

    @Override
    public long createSrqEx(final long context, final MemorySegment initAttr) {
        return object(library.realCreateSrqEx(context, initAttr));
    }

    @Override
    public int srqNum(final long srq) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment number = arena.allocate(4, 4);
            VerbsException.check(err(library.realGetSrqNum(srq, number)));
            return number.get(ValueLayout.JAVA_INT, 0);
        }
    }

    @Override
    public long createSrq(final long pd, final MemorySegment initAttr) {
        return object(call(IBV_CREATE_SRQ, pd, initAttr.address()));
    }

    @Override
    public int modifySrq(final long srq, final MemorySegment attr, final int mask) {
        return err(call(IBV_MODIFY_SRQ, srq, attr.address(), mask));
    }

    @Override
    public int querySrq(final long srq, final MemorySegment attr) {
        return err(call(IBV_QUERY_SRQ, srq, attr.address()));
    }

    @Override
    public int destroySrq(final long srq) {
        return err(call(IBV_DESTROY_SRQ, srq));
    }

    @Override
    public long createQp(final long pd, final MemorySegment initAttr) {
        return object(call(IBV_CREATE_QP, pd, initAttr.address()));
    }

    @Override
    public long createQpEx(final long context, final MemorySegment initAttr) {
        return object(library.realCreateQpEx(context, initAttr));
    }

    @Override
    public int qpNum(final long qp) {
        return ibv_qp.qp_num(Structs.at(qp, ibv_qp.sizeof()));
    }

    @Override
    public int attachMcast(final long qp, final MemorySegment gid, final int lid) {
        return err(call(IBV_ATTACH_MCAST, qp, gid.address(), lid));
    }

    @Override
    public int detachMcast(final long qp, final MemorySegment gid, final int lid) {
        return err(call(IBV_DETACH_MCAST, qp, gid.address(), lid));
    }

    @Override
    public int queryQp(final long qp, final MemorySegment attr, final int mask, final MemorySegment initAttr) {
        return err(call(IBV_QUERY_QP, qp, attr.address(), mask, initAttr.address()));
    }

    @Override
    public int modifyQp(final long qp, final MemorySegment attr, final int mask) {
        return err(call(IBV_MODIFY_QP, qp, attr.address(), mask));
    }

    @Override
    public int modifyQpRateLimit(final long qp, final MemorySegment attr) {
        return err(library.realModifyQpRateLimit(qp, attr));
    }

    @Override
    public int destroyQp(final long qp) {
        return err(call(IBV_DESTROY_QP, qp));
    }
}
