// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import java.lang.foreign.MemorySegment;
import java.util.Map;
import org.shadowverbs.bindings.verbs.ibv_alloc_dm_attr;
import org.shadowverbs.bindings.verbs.ibv_cq_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_device_attr;
import org.shadowverbs.bindings.verbs.ibv_device_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_gid_entry;
import org.shadowverbs.bindings.verbs.ibv_port_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_qp_open_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr_ex;
import org.shadowverbs.bindings.verbs.ibv_xrcd_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Host;
import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Settings;
import org.shadowverbs.ib2tcp.verbs.TcpVerbs;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.NumberRanges;

/** The verbs device over TCP: real objects are those of the module ib2tcp. It has one device with one port and one GID. */
public final class Ib2TcpBackend implements Backend {
    /** No IEEE number is ours: one that is locally administered, which begins as the GUID does. */
    private static final int VENDOR = 0x025356;
    private static final int PART = 1;
    private static final int GIDS = 1;
    /** The clock of completions, in kHz. */
    private static final long NANOSECONDS = 1_000_000;
    private static final int DEFAULT_PKEY = 0xffff;
    private static final int WIDTH_4X = 2;
    private static final int LINK_UP = 5;

    private final Host host;
    private final TcpVerbs verbs;
    private final boolean infiniband;

    /** @param infiniband whether that is the link layer of the port, which has a lid then */
    Ib2TcpBackend(final Native library, final boolean infiniband) {
        this(new TcpHost(library), infiniband);
    }

    Ib2TcpBackend(final Host host, final boolean infiniband) {
        this.host = host;
        this.infiniband = infiniband;
        verbs = new TcpVerbs(host, Settings.of(System.getenv()));
    }

    /** A control verb that gives an object. */
    private interface Making {
        long run();
    }

    private interface Doing {
        void run();
    }

    private static long made(final long object, final Making verb) {
        Backend.live(object);
        try {
            return verb.run();
        } catch (DeviceException e) {
            throw new VerbsException(e.errno(), e.getMessage());
        }
    }

    private int err(final long object, final Doing verb) {
        Backend.live(object);
        return err(verb);
    }

    private int ended(final long object, final Doing verb) {
        return object == 0 ? 0 : err(verb);
    }

    /** What the device refuses is said: nobody else knows why. That an object is in use is an answer, which the program understands. */
    private int err(final Doing verb) {
        try {
            verb.run();
            return 0;
        } catch (DeviceException e) {
            if (e.errno() != VerbsErrno.EBUSY) {
                host.say(e.getMessage());
            }
            return e.errno();
        }
    }

    @Override
    public String name() {
        return infiniband ? BackendName.TCP_INFINIBAND : BackendName.TCP;
    }

    @Override
    public String listener() {
        return verbs.listener();
    }

    @Override
    public void settle() {
        err(verbs::settle);
    }

    @Override
    public void restored(final String secret, final String address) {
        verbs.restored(secret, address);
    }

    @Override
    public void numbersFrom(final int range) {
        verbs.numbersFrom(range);
    }

    @Override
    public int numberRange() {
        return NumberRanges.of(verbs.firstNumber());
    }

    @Override
    public long[] devices() {
        return new long[] {host.device()};
    }

    @Override
    public String deviceName(final long device) {
        Backend.live(device);
        return BackendName.TCP_DEVICE;
    }

    @Override
    public long openDevice(final long device) {
        return made(device, verbs::openDevice);
    }

    @Override
    public int closeDevice(final long context) {
        return ended(context, () -> verbs.closeDevice(context));
    }

    @Override
    public int queryDevice(final long context, final MemorySegment attr) {
        Backend.live(context);
        attr.fill((byte) 0);
        ibv_device_attr.fw_ver(attr).setString(0, "1");
        ibv_device_attr.node_guid(attr, host.guid());
        ibv_device_attr.sys_image_guid(attr, host.guid());
        ibv_device_attr.vendor_id(attr, VENDOR);
        ibv_device_attr.vendor_part_id(attr, PART);
        ibv_device_attr.max_mr_size(attr, Long.MAX_VALUE);
        ibv_device_attr.page_size_cap(attr, 0xfffff000L);
        ibv_device_attr.max_qp(attr, Limits.MAX_QP);
        ibv_device_attr.max_qp_wr(attr, Limits.USUAL_WR);
        ibv_device_attr.max_sge(attr, Limits.USUAL_SGE);
        ibv_device_attr.max_sge_rd(attr, Limits.USUAL_SGE);
        ibv_device_attr.max_cq(attr, Limits.MAX_QP);
        ibv_device_attr.max_srq(attr, Limits.MAX_SRQ);
        ibv_device_attr.max_srq_wr(attr, Limits.USUAL_WR);
        ibv_device_attr.max_srq_sge(attr, Limits.USUAL_SGE);
        ibv_device_attr.max_ah(attr, Limits.MAX_MR);
        ibv_device_attr.max_mw(attr, Limits.MAX_MR);
        ibv_device_attr.device_cap_flags(attr, verbs_h.IBV_DEVICE_MEM_WINDOW()
                | verbs_h.IBV_DEVICE_MEM_WINDOW_TYPE_2B() | verbs_h.IBV_DEVICE_SRQ_RESIZE() | verbs_h.IBV_DEVICE_XRC());
        ibv_device_attr.max_cqe(attr, Limits.MAX_CQE);
        ibv_device_attr.max_mr(attr, Limits.MAX_MR);
        ibv_device_attr.max_pd(attr, Limits.MAX_QP);
        ibv_device_attr.max_qp_rd_atom(attr, Limits.USUAL_READS);
        ibv_device_attr.max_qp_init_rd_atom(attr, Limits.USUAL_READS);
        ibv_device_attr.max_res_rd_atom(attr, Limits.USUAL_READS * Limits.MAX_QP);
        ibv_device_attr.atomic_cap(attr, verbs_h.IBV_ATOMIC_GLOB());
        ibv_device_attr.max_pkeys(attr, (short) Limits.PKEYS);
        ibv_device_attr.phys_port_cnt(attr, (byte) 1);
        ibv_device_attr.max_mcast_grp(attr, Limits.MAX_QP);
        ibv_device_attr.max_mcast_qp_attach(attr, Limits.MAX_QP);
        ibv_device_attr.max_total_mcast_qp_attach(attr, Limits.MAX_QP);
        return 0;
    }

    @Override
    public Map<String, Long> limits(final long context) {
        Backend.live(context);
        return Limits.byName();
    }

    @Override
    public int queryDeviceEx(final long context, final MemorySegment attr) {
        Backend.live(context);
        attr.fill((byte) 0);
        ibv_device_attr_ex.max_dm_size(attr, Limits.MAX_DM);
        ibv_device_attr_ex.phys_port_cnt_ex(attr, 1);
        ibv_device_attr_ex.completion_timestamp_mask(attr, -1);
        ibv_device_attr_ex.hca_core_clock(attr, NANOSECONDS);
        return queryDevice(context, ibv_device_attr_ex.orig_attr(attr));
    }

    @Override
    public int queryPort(final long context, final int port, final MemorySegment attr) {
        Backend.live(context);
        if (port != 1) {
            return VerbsErrno.EINVAL;
        }
        attr.fill((byte) 0);
        ibv_port_attr.state(attr, verbs_h.IBV_PORT_ACTIVE());
        ibv_port_attr.max_mtu(attr, verbs_h.IBV_MTU_4096());
        ibv_port_attr.active_mtu(attr, verbs_h.IBV_MTU_4096());
        ibv_port_attr.gid_tbl_len(attr, GIDS);
        ibv_port_attr.max_msg_sz(attr, (int) Limits.MAX_MESSAGE);
        ibv_port_attr.pkey_tbl_len(attr, (short) Limits.PKEYS);
        ibv_port_attr.active_width(attr, (byte) WIDTH_4X);
        ibv_port_attr.active_speed(attr, (byte) 1);
        ibv_port_attr.phys_state(attr, (byte) LINK_UP);
        if (infiniband) {
            ibv_port_attr.link_layer(attr, (byte) verbs_h.IBV_LINK_LAYER_INFINIBAND());
            ibv_port_attr.lid(attr, (short) verbs.lid());
            ibv_port_attr.sm_lid(attr, (short) verbs.lid());
        } else {
            ibv_port_attr.link_layer(attr, (byte) verbs_h.IBV_LINK_LAYER_ETHERNET());
            ibv_port_attr.flags(attr, (byte) verbs_h.IBV_QPF_GRH_REQUIRED());
        }
        return 0;
    }

    @Override
    public boolean addressedByGid() {
        return true;
    }

    @Override
    public boolean lidsAreOurs() {
        return infiniband;
    }

    @Override
    public void lid(final int lid) {
        verbs.lid(lid);
    }

    @Override
    public int sourceLid() {
        return verbs.sourceLid();
    }

    private Gid gid() {
        return new Gid(verbs.gidPrefix(), verbs.gidInterface());
    }

    @Override
    public int queryGid(final long context, final int port, final int index, final MemorySegment gid) {
        Backend.live(context);
        if (port != 1 || index < 0 || index >= GIDS) {
            return VerbsErrno.EINVAL;
        }
        Structs.gid(gid, gid());
        return 0;
    }

    @Override
    public int queryGidEx(final long context, final int port, final int index, final MemorySegment entry,
            final int flags) {
        Backend.live(context);
        if (port != 1 || index < 0 || index >= GIDS || flags != 0) {
            return port == 1 && flags == 0 ? VerbsErrno.ENODATA : VerbsErrno.EINVAL;
        }
        entry.fill((byte) 0);
        Structs.gid(ibv_gid_entry.gid(entry), gid());
        ibv_gid_entry.port_num(entry, 1);
        ibv_gid_entry.gid_type(entry, infiniband ? verbs_h.IBV_GID_TYPE_IB() : verbs_h.IBV_GID_TYPE_ROCE_V1());
        return 0;
    }

    @Override
    public int queryGidTable(final long context, final MemorySegment entries, final int maxEntries) {
        Backend.live(context);
        return maxEntries < GIDS ? -VerbsErrno.EINVAL
                : queryGidEx(context, 1, 0, ibv_gid_entry.asSlice(entries, 0), 0) == 0 ? GIDS : -VerbsErrno.EIO;
    }

    @Override
    public int queryPkey(final long context, final int port, final int index, final long pkey) {
        Backend.live(context);
        if (port != 1 || index < 0 || index >= Limits.PKEYS) {
            return VerbsErrno.EINVAL;
        }
        Structs.at(pkey, 2).set(java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED, 0,
                (short) (index == 0 ? DEFAULT_PKEY : 0));
        return 0;
    }

    @Override
    public int pkeyIndex(final long context, final int port, final int pkey) {
        Backend.live(context);
        return port == 1 && (pkey & 0x7fff) == (DEFAULT_PKEY & 0x7fff) ? 0 : -VerbsErrno.EINVAL;
    }

    @Override
    public long allocPd(final long context) {
        return made(context, () -> verbs.allocPd(context));
    }

    @Override
    public int deallocPd(final long pd) {
        return ended(pd, () -> verbs.deallocPd(pd));
    }

    @Override
    public long regMr(final long pd, final long address, final long length, final long iova, final int access) {
        return made(pd, () -> verbs.regMr(pd, address, length, iova, access));
    }

    @Override
    public int reregMr(final long mr, final int flags, final long pd, final long address, final long length,
            final int access) {
        Backend.live(mr);
        return verbs.reregMr(mr, flags, pd, address, length, access);
    }

    @Override
    public int deregMr(final long mr) {
        return ended(mr, () -> verbs.deregMr(mr));
    }

    @Override
    public long createChannel(final long context) {
        return made(context, () -> verbs.createChannel(context));
    }

    @Override
    public int destroyChannel(final long channel) {
        return ended(channel, () -> verbs.destroyChannel(channel));
    }

    @Override
    public long createCq(final long context, final int cqe, final long cqContext, final long channel,
            final int vector) {
        Backend.live(context);
        if (vector != 0) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        return made(context, () -> verbs.createCq(context, cqe, cqContext, channel));
    }

    /** The flags are hints: of one thread, and of room that is always there. */
    @Override
    public long createCqEx(final long context, final MemorySegment attr) {
        Backend.live(context);
        if (ibv_cq_init_attr_ex.comp_vector(attr) != 0) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        return made(context, () -> verbs.createCqEx(context, ibv_cq_init_attr_ex.cqe(attr),
                ibv_cq_init_attr_ex.cq_context(attr).address(), ibv_cq_init_attr_ex.channel(attr).address(),
                ibv_cq_init_attr_ex.wc_flags(attr)));
    }

    /** Moderation is a leave to make fewer events, not an obligation. */
    @Override
    public int modifyCq(final long cq, final MemorySegment attr) {
        Backend.live(cq);
        return 0;
    }

    @Override
    public int resizeCq(final long cq, final int cqe) {
        return err(cq, () -> verbs.resizeCq(cq, cqe));
    }

    @Override
    public int destroyCq(final long cq) {
        return ended(cq, () -> verbs.destroyCq(cq));
    }

    @Override
    public long createQp(final long pd, final MemorySegment initAttr) {
        return made(pd, () -> verbs.createQp(pd, initAttr));
    }

    @Override
    public long createQpEx(final long context, final MemorySegment initAttr) {
        return made(context, () -> verbs.createReceiver(ibv_qp_init_attr_ex.xrcd(initAttr).address(), initAttr));
    }

    @Override
    public long openQp(final long context, final MemorySegment attr) {
        return made(context, () -> verbs.openQp(ibv_qp_open_attr.xrcd(attr).address(), ibv_qp_open_attr.qp_num(attr),
                ibv_qp_open_attr.qp_context(attr).address()));
    }

    @Override
    public int attachMcast(final long qp, final MemorySegment gid, final int lid) {
        return err(qp, () -> verbs.attachMcast(qp, gid, lid));
    }

    @Override
    public int detachMcast(final long qp, final MemorySegment gid, final int lid) {
        return ended(qp, () -> verbs.detachMcast(qp, gid, lid));
    }

    @Override
    public int queryQp(final long qp, final MemorySegment attr, final int mask, final MemorySegment initAttr) {
        return err(qp, () -> verbs.queryQp(qp, attr, initAttr));
    }

    @Override
    public int modifyQp(final long qp, final MemorySegment attr, final int mask) {
        return err(qp, () -> verbs.modifyQp(qp, attr, mask));
    }

    /** A program that wants it sees in ibv_query_device_ex that there is none. */
    @Override
    public int modifyQpRateLimit(final long qp, final MemorySegment attr) {
        Backend.live(qp);
        return VerbsErrno.EOPNOTSUPP;
    }

    @Override
    public int destroyQp(final long qp) {
        return ended(qp, () -> verbs.destroyQp(qp));
    }

    @Override
    public long allocNullMr(final long pd) {
        return made(pd, () -> verbs.allocNullMr(pd));
    }

    @Override
    public long allocDm(final long context, final MemorySegment attr) {
        return made(context, () -> verbs.allocDm(context, ibv_alloc_dm_attr.length(attr),
                ibv_alloc_dm_attr.log_align_req(attr)));
    }

    @Override
    public int freeDm(final long dm) {
        return ended(dm, () -> verbs.freeDm(dm));
    }

    @Override
    public long regDmMr(final long pd, final long dm, final long offset, final long length, final int access) {
        return made(pd, () -> verbs.regDmMr(pd, dm, offset, length, access));
    }

    @Override
    public long allocMw(final long pd, final int type) {
        return made(pd, () -> verbs.allocMw(pd, type));
    }

    @Override
    public int deallocMw(final long mw) {
        return ended(mw, () -> verbs.deallocMw(mw));
    }

    @Override
    public long createSrq(final long pd, final MemorySegment initAttr) {
        return made(pd, () -> verbs.createSrq(pd, initAttr));
    }

    /** Of XRC: a basic one is made by {@link #createSrq}. */
    @Override
    public long createSrqEx(final long context, final MemorySegment initAttr) {
        return made(context, () -> verbs.createSrq(ibv_srq_init_attr_ex.pd(initAttr).address(),
                ibv_srq_init_attr_ex.xrcd(initAttr).address(), ibv_srq_init_attr_ex.cq(initAttr).address(), initAttr));
    }

    @Override
    public int srqNum(final long srq) {
        return (int) made(srq, () -> verbs.srqNumber(srq));
    }

    @Override
    public long openXrcd(final long context, final MemorySegment attr) {
        return made(context, () -> verbs.openXrcd(context, ibv_xrcd_init_attr.fd(attr), ibv_xrcd_init_attr.oflags(attr)));
    }

    @Override
    public int closeXrcd(final long xrcd) {
        return ended(xrcd, () -> verbs.closeXrcd(xrcd));
    }

    @Override
    public int modifySrq(final long srq, final MemorySegment attr, final int mask) {
        return err(srq, () -> verbs.modifySrq(srq, attr, mask));
    }

    @Override
    public int querySrq(final long srq, final MemorySegment attr) {
        return err(srq, () -> verbs.querySrq(srq, attr));
    }

    @Override
    public int destroySrq(final long srq) {
        return ended(srq, () -> verbs.destroySrq(srq));
    }

    @Override
    public long createAh(final long pd, final MemorySegment attr) {
        return made(pd, () -> verbs.createAh(pd, attr));
    }

    @Override
    public int destroyAh(final long ah) {
        return ended(ah, () -> verbs.destroyAh(ah));
    }

    // What the device does not have.

    private static VerbsException without(final String what) {
        return new VerbsException(VerbsErrno.EOPNOTSUPP, "ib2tcp has no " + what + " (EOPNOTSUPP)");
    }

    @Override
    public long regDmabufMr(final long pd, final long offset, final long length, final long iova, final int fd,
            final int access) {
        Backend.live(pd);
        throw without("dma-buf regions");
    }
}
