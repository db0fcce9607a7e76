// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

import static org.shadowverbs.driver.nativelib.Downcall.call;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import org.shadowverbs.bindings.abi.shadowverbs_h;
import org.shadowverbs.bindings.abi.sv_gate_report;
import org.shadowverbs.bindings.abi.sv_masks;
import org.shadowverbs.bindings.abi.sv_request;
import org.shadowverbs.bindings.abi.sv_route;
import org.shadowverbs.bindings.abi.sv_route_name;

/** The preload library that this process runs under. */
@SuppressWarnings("restricted")
public final class NativeLibrary implements Native {
    private static final int LONGEST_LINE = 2048;

    private static final SymbolLookup LIBRARY = Downcall.library("libshadowverbs.so");

    private static final MemorySegment SV_ABI_VERSION = f("sv_abi_version");
    private static final MemorySegment SV_INSTALLED_FUNCTION = f("sv_installed_function");
    private static final MemorySegment SV_DRIVER_READY = f("sv_driver_ready");
    private static final MemorySegment SV_SAY = f("sv_say");
    private static final MemorySegment SV_MAILBOX = f("sv_mailbox");
    private static final MemorySegment SV_MAILBOX_TAKE = f("sv_mailbox_take");
    private static final MemorySegment SV_MAILBOX_ANSWER = f("sv_mailbox_answer");
    private static final MemorySegment SV_GATE_ANNOUNCE = f("sv_gate_announce");
    private static final MemorySegment SV_GATE_CLOSE = f("sv_gate_close");
    private static final MemorySegment SV_GATE_OPEN = f("sv_gate_open");
    private static final MemorySegment SV_SET_MASKS = f("sv_set_masks");
    private static final MemorySegment SV_KEYMAP_NEW = f("sv_keymap_new");
    private static final MemorySegment SV_KEYMAP_FREE = f("sv_keymap_free");
    private static final MemorySegment SV_TCP_SELECT = f("sv_tcp_select");
    private static final MemorySegment SV_DEVICE_FOR = f("sv_device_for");
    private static final MemorySegment SV_DEVICE_GUID = f("sv_device_guid");
    private static final MemorySegment SV_DEVICE_REAL = f("sv_device_real");
    private static final MemorySegment SV_DEVICE_BIND = f("sv_device_bind");
    private static final MemorySegment SV_CONTEXT_ALLOC = f("sv_context_alloc");
    private static final MemorySegment SV_CONTEXT_OPEN = f("sv_context_open");
    private static final MemorySegment SV_CONTEXT_BIND = f("sv_context_bind");
    private static final MemorySegment SV_CONTEXT_SET_LKEYS = f("sv_context_set_lkeys");
    private static final MemorySegment SV_CONTEXT_FREE = f("sv_context_free");
    private static final MemorySegment SV_PD_ALLOC = f("sv_pd_alloc");
    private static final MemorySegment SV_PD_BIND = f("sv_pd_bind");
    private static final MemorySegment SV_PD_FREE = f("sv_pd_free");
    private static final MemorySegment SV_MR_ALLOC = f("sv_mr_alloc");
    private static final MemorySegment SV_MR_BIND = f("sv_mr_bind");
    private static final MemorySegment SV_MR_FREE = f("sv_mr_free");
    private static final MemorySegment SV_DM_ALLOC = f("sv_dm_alloc");
    private static final MemorySegment SV_DM_BIND = f("sv_dm_bind");
    private static final MemorySegment SV_DM_FREE = f("sv_dm_free");
    private static final MemorySegment SV_REAL_ALLOC_MW = f("sv_real_alloc_mw");
    private static final MemorySegment SV_REAL_DEALLOC_MW = f("sv_real_dealloc_mw");
    private static final MemorySegment SV_MW_ALLOC = f("sv_mw_alloc");
    private static final MemorySegment SV_MW_BIND = f("sv_mw_bind");
    private static final MemorySegment SV_MW_FREE = f("sv_mw_free");
    private static final MemorySegment SV_MW_REAL_RKEY = f("sv_mw_real_rkey");
    private static final MemorySegment SV_MW_BOUND = f("sv_mw_bound");
    private static final MemorySegment SV_MW_QP = f("sv_mw_qp");
    private static final MemorySegment SV_MW_REBIND = f("sv_mw_rebind");
    private static final MemorySegment SV_MW_UNBIND = f("sv_mw_unbind");
    private static final MemorySegment SV_CHANNEL_ALLOC = f("sv_channel_alloc");
    private static final MemorySegment SV_CHANNEL_BIND = f("sv_channel_bind");
    private static final MemorySegment SV_CHANNEL_FREE = f("sv_channel_free");
    private static final MemorySegment SV_CQ_ALLOC = f("sv_cq_alloc");
    private static final MemorySegment SV_CQ_OPEN = f("sv_cq_open");
    private static final MemorySegment SV_CQ_BIND = f("sv_cq_bind");
    private static final MemorySegment SV_CQ_RESIZED = f("sv_cq_resized");
    private static final MemorySegment SV_CQ_FREE = f("sv_cq_free");
    private static final MemorySegment SV_AH_ALLOC = f("sv_ah_alloc");
    private static final MemorySegment SV_AH_BIND = f("sv_ah_bind");
    private static final MemorySegment SV_AH_FREE = f("sv_ah_free");
    private static final MemorySegment SV_IDMAP_NEW = f("sv_idmap_new");
    private static final MemorySegment SV_IDMAP_FREE = f("sv_idmap_free");
    private static final MemorySegment SV_ROUTES_NEW = f("sv_routes_new");
    private static final MemorySegment SV_ROUTES_FREE = f("sv_routes_free");
    private static final MemorySegment SV_CONTEXT_SET_SOURCES = f("sv_context_set_sources");
    private static final MemorySegment SV_SRQ_ALLOC = f("sv_srq_alloc");
    private static final MemorySegment SV_SRQ_OPEN = f("sv_srq_open");
    private static final MemorySegment SV_SRQ_BIND = f("sv_srq_bind");
    private static final MemorySegment SV_SRQ_FREE = f("sv_srq_free");
    private static final MemorySegment SV_SRQ_BOOKMARK = f("sv_srq_bookmark");
    private static final MemorySegment SV_SRQ_POST_LANDING = f("sv_srq_post_landing");
    private static final MemorySegment SV_SRQ_REPLAY = f("sv_srq_replay");
    private static final MemorySegment SV_XRCD_ALLOC = f("sv_xrcd_alloc");
    private static final MemorySegment SV_XRCD_DOMAIN = f("sv_xrcd_domain");
    private static final MemorySegment SV_XRCD_BIND = f("sv_xrcd_bind");
    private static final MemorySegment SV_XRCD_FREE = f("sv_xrcd_free");
    private static final MemorySegment SV_QP_ALLOC = f("sv_qp_alloc");
    private static final MemorySegment SV_QP_OPEN = f("sv_qp_open");
    private static final MemorySegment SV_QP_BIND = f("sv_qp_bind");
    private static final MemorySegment SV_QP_STATE = f("sv_qp_state");
    private static final MemorySegment SV_QP_PEER = f("sv_qp_peer");
    private static final MemorySegment SV_QP_SET_RKEYS = f("sv_qp_set_rkeys");
    private static final MemorySegment SV_QP_SET_SRQS = f("sv_qp_set_srqs");
    private static final MemorySegment SV_QP_LEAVE = f("sv_qp_leave");
    private static final MemorySegment SV_QP_FREE = f("sv_qp_free");
    private static final MemorySegment SV_REAL_QUERY_PORT = f("sv_real_query_port");
    private static final MemorySegment SV_REAL_QUERY_DEVICE_EX = f("sv_real_query_device_ex");
    private static final MemorySegment SV_REAL_REG_MR = f("sv_real_reg_mr");
    private static final MemorySegment SV_REAL_ALLOC_NULL_MR = f("sv_real_alloc_null_mr");
    private static final MemorySegment SV_REAL_ALLOC_DM = f("sv_real_alloc_dm");
    private static final MemorySegment SV_REAL_FREE_DM = f("sv_real_free_dm");
    private static final MemorySegment SV_REAL_REG_DM_MR = f("sv_real_reg_dm_mr");
    private static final MemorySegment SV_REAL_CREATE_CQ_EX = f("sv_real_create_cq_ex");
    private static final MemorySegment SV_REAL_MODIFY_CQ = f("sv_real_modify_cq");
    private static final MemorySegment SV_REAL_MODIFY_QP_RATE_LIMIT = f("sv_real_modify_qp_rate_limit");
    private static final MemorySegment SV_REAL_OPEN_XRCD = f("sv_real_open_xrcd");
    private static final MemorySegment SV_REAL_CLOSE_XRCD = f("sv_real_close_xrcd");
    private static final MemorySegment SV_REAL_OPEN_QP = f("sv_real_open_qp");
    private static final MemorySegment SV_REAL_CREATE_SRQ_EX = f("sv_real_create_srq_ex");
    private static final MemorySegment SV_REAL_GET_SRQ_NUM = f("sv_real_get_srq_num");
    private static final MemorySegment SV_REAL_CREATE_QP_EX = f("sv_real_create_qp_ex");
    private static final MemorySegment SV_QP_BOOKMARK = f("sv_qp_bookmark");
    private static final MemorySegment SV_CQ_DRAIN = f("sv_cq_drain");
    private static final MemorySegment SV_QP_SENT = f("sv_qp_sent");
    private static final MemorySegment SV_QP_TARGETS = f("sv_qp_targets");
    private static final MemorySegment SV_XRCD_FOREIGN_QPS = f("sv_xrcd_foreign_qps");
    private static final MemorySegment SV_XRCD_FORGET = f("sv_xrcd_forget");
    private static final MemorySegment SV_QP_RETIRE = f("sv_qp_retire");
    private static final MemorySegment SV_QP_POST_MARKER = f("sv_qp_post_marker");
    private static final MemorySegment SV_QP_POST_LANDING = f("sv_qp_post_landing");
    private static final MemorySegment SV_QP_ERRORS_WITHDRAW = f("sv_qp_errors_withdraw");
    private static final MemorySegment SV_QP_ERRORS_DELIVER = f("sv_qp_errors_deliver");
    private static final MemorySegment SV_CHANNEL_DRAIN = f("sv_channel_drain");
    private static final MemorySegment SV_CONTEXT_DRAIN = f("sv_context_drain");
    private static final MemorySegment SV_QP_REPLAY_RECEIVES = f("sv_qp_replay_receives");
    private static final MemorySegment SV_QP_REPLAY_SENDS = f("sv_qp_replay_sends");
    private static final MemorySegment SV_QP_FAIL = f("sv_qp_fail");
    private static final MemorySegment SV_MEMORY_TRIM = f("sv_memory_trim");
    private static final MemorySegment SV_CM_SEND = f("sv_cm_send");
    private static final MemorySegment SV_CM_DETACH = f("sv_cm_detach");
    private static final MemorySegment SV_CM_RECEIVER = f("sv_cm_receiver");
    private static final MemorySegment SV_CM_REATTACH = f("sv_cm_reattach");
    private static final MemorySegment SV_CM_LOST_IN_USE = f("sv_cm_lost_in_use");
    private static final MemorySegment SV_CM_LOST = f("sv_cm_lost");
    private static final MemorySegment SV_CM_ENDED = f("sv_cm_ended");
    private static final MemorySegment SV_TIMERS_STOP = f("sv_timers_stop");
    private static final MemorySegment SV_TIMERS_START = f("sv_timers_start");
    private static final MemorySegment SV_READ_LINE = f("sv_read_line");

    private static final MemorySegment OPEN = Downcall.function(Linker.nativeLinker().defaultLookup(), "open");
    private static final MemorySegment FCNTL = Downcall.function(Linker.nativeLinker().defaultLookup(), "fcntl");
    private static final MemorySegment CLOSE = Downcall.function(Linker.nativeLinker().defaultLookup(), "close");
    private static final MemorySegment SIGMASK =
            Downcall.function(Linker.nativeLinker().defaultLookup(), "pthread_sigmask");
    private static final MemorySegment GETPID = Downcall.function(Linker.nativeLinker().defaultLookup(), "getpid");
    private static final int O_NONBLOCK = 04000;
    private static final int O_CLOEXEC = 02000000;
    private static final int F_SETFL = 4;
    private static final int F_DUPFD_CLOEXEC = 1030;
    private static final int SIG_UNBLOCK = 1;
    /** SIGRTMAX - 2: what sun.nio.ch.NativeThread sends. */
    private static final int WAKE_UP_SIGNAL = 62;
    private static final int SIZEOF_SIGSET = 128;

    private static MemorySegment f(final String name) {
        return Downcall.function(LIBRARY, name);
    }

    /** The function of the installed libibverbs.so.1, which dlsym does not give here; a null address: it has none. */
    public static MemorySegment installedFunction(final String name) {
        try (Arena arena = Arena.ofConfined()) {
            return MemorySegment.ofAddress(call(SV_INSTALLED_FUNCTION, arena.allocateFrom(name).address()));
        }
    }

    @Override
    public int abiVersion() {
        return (int) call(SV_ABI_VERSION);
    }

    @Override
    public void driverReady(final int err) {
        call(SV_DRIVER_READY, err);
    }

    @Override
    public void say(final String line) {
        try (Arena arena = Arena.ofConfined()) {
            call(SV_SAY, arena.allocateFrom(line).address());
        }
    }

    @Override
    public MemorySegment mailbox() {
        return MemorySegment.ofAddress(call(SV_MAILBOX))
                .reinterpret(sv_request.sizeof() * shadowverbs_h.SV_MAILBOX_SLOTS());
    }

    @Override
    public int mailboxTake(final int timeoutMillis) {
        return (int) call(SV_MAILBOX_TAKE, timeoutMillis);
    }

    @Override
    public void mailboxAnswer(final int slot) {
        call(SV_MAILBOX_ANSWER, slot);
    }

    @Override
    public void gateAnnounce(final boolean on) {
        call(SV_GATE_ANNOUNCE, on ? 1 : 0);
    }

    @Override
    public String gateClose(final long timeoutNanos) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment report = sv_gate_report.allocate(arena);
            final int err = (int) call(SV_GATE_CLOSE, timeoutNanos, report.address());
            if (err == 0) {
                return null;
            }
            return sv_gate_report.inside(report) + " thread(s) still inside a verb, thread "
                    + sv_gate_report.tid(report) + " in " + sv_gate_report.verb(report).getString(0);
        }
    }

    @Override
    public void memoryTrim() {
        call(SV_MEMORY_TRIM);
    }

    @Override
    public int cmSend() {
        return (int) call(SV_CM_SEND);
    }

    @Override
    public int cmDetach(final int socket) {
        return (int) call(SV_CM_DETACH, socket);
    }

    @Override
    public int cmReceiver() {
        return (int) call(SV_CM_RECEIVER);
    }

    @Override
    public int cmReattach(final int socket) {
        return (int) call(SV_CM_REATTACH, socket);
    }

    @Override
    public int cmLostInUse() {
        return (int) call(SV_CM_LOST_IN_USE);
    }

    @Override
    public long[] cmLost() {
        int room = 64;
        for (;;) {
            try (Arena arena = Arena.ofConfined()) {
                final MemorySegment tokens = arena.allocate(8L * room, 8);
                final int count = (int) call(SV_CM_LOST, tokens.address(), room);
                if (count <= room) {
                    return tokens.asSlice(0, 8L * count).toArray(ValueLayout.JAVA_LONG);
                }
                room = count;
            }
        }
    }

    @Override
    public void cmEnded(final long token, final int status) {
        call(SV_CM_ENDED, token, status);
    }

    @Override
    public void timersStop() {
        call(SV_TIMERS_STOP);
    }

    @Override
    public void timersStart() {
        call(SV_TIMERS_START);
    }

    @Override
    public void gateOpen() {
        call(SV_GATE_OPEN);
    }

    @Override
    public void setMasks(final int qpNum, final int key, final int lid, final long gid) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment masks = sv_masks.allocate(arena);
            sv_masks.qp_num(masks, qpNum);
            sv_masks.key(masks, key);
            sv_masks.lid(masks, (short) lid);
            sv_masks.gid(masks, gid);
            call(SV_SET_MASKS, masks.address());
        }
    }

    @Override
    public long keymapNew(final int[] virtuals, final int[] reals) {
        try (Arena arena = Arena.ofConfined()) {
            return call(SV_KEYMAP_NEW, arena.allocateFrom(ValueLayout.JAVA_INT, virtuals).address(),
                    arena.allocateFrom(ValueLayout.JAVA_INT, reals).address(), virtuals.length);
        }
    }

    @Override
    public void keymapFree(final long map) {
        call(SV_KEYMAP_FREE, map);
    }

    @Override
    public long deviceFor(final long realDevice) {
        return call(SV_DEVICE_FOR, realDevice);
    }

    @Override
    public long deviceReal(final long vdevice) {
        return call(SV_DEVICE_REAL, vdevice);
    }

    @Override
    public void deviceBind(final long vdevice, final long real) {
        call(SV_DEVICE_BIND, vdevice, real);
    }

    @Override
    public long deviceGuid(final long device) {
        return call(SV_DEVICE_GUID, device);
    }

    @Override
    public long contextAlloc(final long vdevice) {
        return call(SV_CONTEXT_ALLOC, vdevice);
    }

    @Override
    public int contextOpen(final long vcontext, final long real) {
        return (int) call(SV_CONTEXT_OPEN, vcontext, real);
    }

    @Override
    public int contextBind(final long vcontext, final long real) {
        return (int) call(SV_CONTEXT_BIND, vcontext, real);
    }

    @Override
    public void contextSetLkeys(final long vcontext, final long map) {
        call(SV_CONTEXT_SET_LKEYS, vcontext, map);
    }

    @Override
    public void contextFree(final long vcontext) {
        call(SV_CONTEXT_FREE, vcontext);
    }

    @Override
    public long pdAlloc(final long vcontext) {
        return call(SV_PD_ALLOC, vcontext);
    }

    @Override
    public void pdBind(final long vpd, final long real) {
        call(SV_PD_BIND, vpd, real);
    }

    @Override
    public void pdFree(final long vpd) {
        call(SV_PD_FREE, vpd);
    }

    @Override
    public long mrAlloc(final long vpd, final long addr, final long length, final int vlkey, final int vrkey) {
        return call(SV_MR_ALLOC, vpd, addr, length, vlkey, vrkey);
    }

    @Override
    public void mrBind(final long vmr, final long real) {
        call(SV_MR_BIND, vmr, real);
    }

    @Override
    public void mrFree(final long vmr) {
        call(SV_MR_FREE, vmr);
    }

    @Override
    public long dmAlloc(final long vcontext, final long length) {
        return call(SV_DM_ALLOC, vcontext, length);
    }

    @Override
    public int dmBind(final long vdm, final long real) {
        return (int) call(SV_DM_BIND, vdm, real);
    }

    @Override
    public void dmFree(final long vdm) {
        call(SV_DM_FREE, vdm);
    }

    @Override
    public long realAllocMw(final long realPd, final int type) {
        return call(SV_REAL_ALLOC_MW, realPd, type);
    }

    @Override
    public int realDeallocMw(final long realMw) {
        return (int) call(SV_REAL_DEALLOC_MW, realMw);
    }

    @Override
    public long mwAlloc(final long vpd, final int type, final int vrkey) {
        return call(SV_MW_ALLOC, vpd, type, vrkey);
    }

    @Override
    public void mwBind(final long vmw, final long real) {
        call(SV_MW_BIND, vmw, real);
    }

    @Override
    public void mwFree(final long vmw) {
        call(SV_MW_FREE, vmw);
    }

    @Override
    public int mwRealRkey(final long vmw, final int vrkey) {
        return (int) call(SV_MW_REAL_RKEY, vmw, vrkey);
    }

    @Override
    public int mwBound(final long vmw) {
        return (int) call(SV_MW_BOUND, vmw);
    }

    @Override
    public long mwQp(final long vmw) {
        return call(SV_MW_QP, vmw);
    }

    @Override
    public int mwRebind(final long vmw, final long vqp) {
        return (int) call(SV_MW_REBIND, vmw, vqp);
    }

    @Override
    public void mwUnbind(final long vmw) {
        call(SV_MW_UNBIND, vmw);
    }

    @Override
    public long channelAlloc(final long vcontext) {
        return call(SV_CHANNEL_ALLOC, vcontext);
    }

    @Override
    public int channelBind(final long vchannel, final long real) {
        return (int) call(SV_CHANNEL_BIND, vchannel, real);
    }

    @Override
    public void channelFree(final long vchannel) {
        call(SV_CHANNEL_FREE, vchannel);
    }

    @Override
    public long cqAlloc(final long vcontext) {
        return call(SV_CQ_ALLOC, vcontext);
    }

    @Override
    public int cqOpen(final long vcq, final MemorySegment spec) {
        return (int) call(SV_CQ_OPEN, vcq, spec.address());
    }

    @Override
    public int cqBind(final long vcq, final long real) {
        return (int) call(SV_CQ_BIND, vcq, real);
    }

    @Override
    public void cqResized(final long vcq, final int cqe) {
        call(SV_CQ_RESIZED, vcq, cqe);
    }

    @Override
    public void cqFree(final long vcq) {
        call(SV_CQ_FREE, vcq);
    }

    @Override
    public long xrcdAlloc(final long vcontext, final int fd) {
        return call(SV_XRCD_ALLOC, vcontext, fd);
    }

    @Override
    public int xrcdDomain(final long vxrcd) {
        return (int) call(SV_XRCD_DOMAIN, vxrcd);
    }

    @Override
    public void xrcdBind(final long vxrcd, final long real) {
        call(SV_XRCD_BIND, vxrcd, real);
    }

    @Override
    public void xrcdFree(final long vxrcd) {
        call(SV_XRCD_FREE, vxrcd);
    }

    @Override
    public long realOpenXrcd(final long realContext, final MemorySegment attr) {
        return call(SV_REAL_OPEN_XRCD, realContext, attr.address());
    }

    @Override
    public int realCloseXrcd(final long realXrcd) {
        return (int) call(SV_REAL_CLOSE_XRCD, realXrcd);
    }

    @Override
    public long realOpenQp(final long realContext, final MemorySegment attr) {
        return call(SV_REAL_OPEN_QP, realContext, attr.address());
    }

    @Override
    public long realCreateSrqEx(final long realContext, final MemorySegment attr) {
        return call(SV_REAL_CREATE_SRQ_EX, realContext, attr.address());
    }

    @Override
    public int realGetSrqNum(final long realSrq, final MemorySegment number) {
        return (int) call(SV_REAL_GET_SRQ_NUM, realSrq, number.address());
    }

    @Override
    public long realCreateQpEx(final long realContext, final MemorySegment attr) {
        return call(SV_REAL_CREATE_QP_EX, realContext, attr.address());
    }

    @Override
    public long qpAlloc(final long vcontext, final long vpd) {
        return call(SV_QP_ALLOC, vcontext, vpd);
    }

    @Override
    public int qpOpen(final long vqp, final MemorySegment spec) {
        return (int) call(SV_QP_OPEN, vqp, spec.address());
    }

    @Override
    public int qpBind(final long vqp, final long real) {
        return (int) call(SV_QP_BIND, vqp, real);
    }

    @Override
    public long ahAlloc(final long vpd) {
        return call(SV_AH_ALLOC, vpd);
    }

    @Override
    public int ahBind(final long vah, final MemorySegment reals, final int count, final long map,
            final MemorySegment makers) {
        return (int) call(SV_AH_BIND, vah, reals == null ? 0 : reals.address(), count, map,
                makers == null ? 0 : makers.address());
    }

    @Override
    public void ahFree(final long vah) {
        call(SV_AH_FREE, vah);
    }

    @Override
    public long idmapNew(final long[] keys, final long[] values) {
        try (Arena arena = Arena.ofConfined()) {
            return call(SV_IDMAP_NEW, arena.allocateFrom(ValueLayout.JAVA_LONG, keys).address(),
                    arena.allocateFrom(ValueLayout.JAVA_LONG, values).address(), keys.length);
        }
    }

    @Override
    public void idmapFree(final long map) {
        call(SV_IDMAP_FREE, map);
    }

    @Override
    public long routesNew(final long[] routes, final long[] names) {
        try (Arena arena = Arena.ofConfined()) {
            return call(SV_ROUTES_NEW, arena.allocateFrom(ValueLayout.JAVA_LONG, routes).address(),
                    routes.length * 8L / sv_route.sizeof(), arena.allocateFrom(ValueLayout.JAVA_LONG, names).address(),
                    names.length * 8L / sv_route_name.sizeof());
        }
    }

    @Override
    public void routesFree(final long routes) {
        call(SV_ROUTES_FREE, routes);
    }

    @Override
    public void contextSetSources(final long vcontext, final long map, final long routes) {
        call(SV_CONTEXT_SET_SOURCES, vcontext, map, routes);
    }

    @Override
    public long srqAlloc(final long vpd) {
        return call(SV_SRQ_ALLOC, vpd);
    }

    @Override
    public int srqOpen(final long vsrq, final MemorySegment spec) {
        return (int) call(SV_SRQ_OPEN, vsrq, spec.address());
    }

    @Override
    public void srqBind(final long vsrq, final long real) {
        call(SV_SRQ_BIND, vsrq, real);
    }

    @Override
    public void srqFree(final long vsrq) {
        call(SV_SRQ_FREE, vsrq);
    }

    @Override
    public void srqBookmark(final long vsrq, final MemorySegment bookmark) {
        call(SV_SRQ_BOOKMARK, vsrq, bookmark.address());
    }

    @Override
    public int srqPostLanding(final long vsrq, final long length) {
        return (int) call(SV_SRQ_POST_LANDING, vsrq, length);
    }

    @Override
    public int srqReplay(final long vsrq, final MemorySegment position) {
        return (int) call(SV_SRQ_REPLAY, vsrq, position.address());
    }

    @Override
    public void qpState(final long vqp, final int state) {
        call(SV_QP_STATE, vqp, state);
    }

    @Override
    public void qpPeer(final long vqp, final int destVqpNum, final int destVlid) {
        call(SV_QP_PEER, vqp, destVqpNum, destVlid);
    }

    @Override
    public void qpSetRkeys(final long vqp, final long map) {
        call(SV_QP_SET_RKEYS, vqp, map);
    }

    @Override
    public void qpSetSrqs(final long vqp, final long map) {
        call(SV_QP_SET_SRQS, vqp, map);
    }

    @Override
    public void qpLeave(final long vqp) {
        call(SV_QP_LEAVE, vqp);
    }

    @Override
    public void qpFree(final long vqp) {
        call(SV_QP_FREE, vqp);
    }

    @Override
    public void tcpSelect(final boolean on, final boolean lids) {
        Downcall.call(SV_TCP_SELECT, !on ? 0 : lids ? 2 : 1);
    }

    @Override
    public int realQueryPort(final long realContext, final int port, final MemorySegment attr) {
        return (int) call(SV_REAL_QUERY_PORT, realContext, port, attr.address());
    }

    @Override
    public int realQueryDeviceEx(final long realContext, final MemorySegment attr) {
        return (int) call(SV_REAL_QUERY_DEVICE_EX, realContext, attr.address());
    }

    @Override
    public long realRegMr(final long realPd, final long addr, final long length, final long iova, final int access) {
        return call(SV_REAL_REG_MR, realPd, addr, length, iova, access);
    }

    @Override
    public long realAllocNullMr(final long realPd) {
        return call(SV_REAL_ALLOC_NULL_MR, realPd);
    }

    @Override
    public long realAllocDm(final long realContext, final MemorySegment attr) {
        return call(SV_REAL_ALLOC_DM, realContext, attr.address());
    }

    @Override
    public int realFreeDm(final long realDm) {
        return (int) call(SV_REAL_FREE_DM, realDm);
    }

    @Override
    public long realRegDmMr(final long realPd, final long realDm, final long offset, final long length,
            final int access) {
        return call(SV_REAL_REG_DM_MR, realPd, realDm, offset, length, access);
    }

    @Override
    public long realCreateCqEx(final long realContext, final MemorySegment attr) {
        return call(SV_REAL_CREATE_CQ_EX, realContext, attr.address());
    }

    @Override
    public int realModifyCq(final long realCq, final MemorySegment attr) {
        return (int) call(SV_REAL_MODIFY_CQ, realCq, attr.address());
    }

    @Override
    public int realModifyQpRateLimit(final long realQp, final MemorySegment attr) {
        return (int) call(SV_REAL_MODIFY_QP_RATE_LIMIT, realQp, attr.address());
    }

    @Override
    public void qpBookmark(final long vqp, final MemorySegment bookmark) {
        call(SV_QP_BOOKMARK, vqp, bookmark.address());
    }

    @Override
    public int cqDrain(final long vcq) {
        return (int) call(SV_CQ_DRAIN, vcq);
    }

    @Override
    public int qpTargets(final long vqp, final MemorySegment numbers) {
        return (int) call(SV_QP_TARGETS, vqp, numbers.address());
    }

    @Override
    public int xrcdForeignQps(final int domain, final MemorySegment foreignQps) {
        return (int) call(SV_XRCD_FOREIGN_QPS, domain, foreignQps.address());
    }

    @Override
    public void xrcdForget(final int domain, final int qpNum) {
        call(SV_XRCD_FORGET, domain, qpNum);
    }

    @Override
    public int qpSent(final long vqp, final long position, final MemorySegment sent) {
        return (int) call(SV_QP_SENT, vqp, position, sent.address());
    }

    @Override
    public int qpRetire(final long vqp, final long position) {
        return (int) call(SV_QP_RETIRE, vqp, position);
    }

    @Override
    public int qpPostMarker(final long vqp) {
        return (int) call(SV_QP_POST_MARKER, vqp);
    }

    @Override
    public int qpPostLanding(final long vqp, final long length) {
        return (int) call(SV_QP_POST_LANDING, vqp, length);
    }

    @Override
    public int qpErrorsWithdraw(final long vqp) {
        return (int) call(SV_QP_ERRORS_WITHDRAW, vqp);
    }

    @Override
    public int qpErrorsDeliver(final long vqp) {
        return (int) call(SV_QP_ERRORS_DELIVER, vqp);
    }

    @Override
    public int channelDrain(final long vchannel) {
        return (int) call(SV_CHANNEL_DRAIN, vchannel);
    }

    @Override
    public int contextDrain(final long vcontext) {
        return (int) call(SV_CONTEXT_DRAIN, vcontext);
    }

    @Override
    public int qpReplayReceives(final long vqp, final MemorySegment position) {
        return (int) call(SV_QP_REPLAY_RECEIVES, vqp, position.address());
    }

    @Override
    public int qpReplaySends(final long vqp, final MemorySegment position) {
        return (int) call(SV_QP_REPLAY_SENDS, vqp, position.address());
    }

    @Override
    public int qpFail(final long vqp) {
        return (int) call(SV_QP_FAIL, vqp);
    }

    @Override
    public String readLine(final int fd) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment line = arena.allocate(LONGEST_LINE);
            final int length = (int) call(SV_READ_LINE, fd, line.address(), LONGEST_LINE);
            if (length < 0) {
                throw new VerbsException(-length, "cannot read the verdict: " + VerbsErrno.name(-length));
            }
            return length == 0 ? null : line.getString(0);
        }
    }

    @Override
    public int openForReading(final String path) {
        try (Arena arena = Arena.ofConfined()) {
            // Not to hang here should the other end be gone; reading is to block.
            final int fd = (int) call(OPEN, arena.allocateFrom(path).address(), O_NONBLOCK | O_CLOEXEC);
            if (fd < 0) {
                final int err = Downcall.errno();
                throw new VerbsException(err, "cannot open " + path + ": " + VerbsErrno.name(err));
            }
            call(FCNTL, fd, F_SETFL, 0);
            return fd;
        }
    }

    @Override
    public void close(final int fd) {
        call(CLOSE, fd);
    }

    @Override
    public int duplicate(final int fd) {
        final int own = (int) call(FCNTL, fd, F_DUPFD_CLOEXEC, 0);
        if (own < 0) {
            throw new VerbsException(Downcall.errno());
        }
        return own;
    }

    @Override
    public int processId() {
        return (int) call(GETPID);
    }

    @Override
    public void unblockWakeUpSignal() {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment set = arena.allocate(SIZEOF_SIGSET, 8);
            set.set(ValueLayout.JAVA_LONG, 0, 1L << (WAKE_UP_SIGNAL - 1));
            call(SIGMASK, SIG_UNBLOCK, set.address(), 0);
        }
    }
}
