// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_global_route;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_cap;
import org.shadowverbs.bindings.verbs.ibv_qp_rate_limit_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.ids.Gid;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * What ibv_modify_qp has set so far, merged in order: the latest value of each attribute, and the state. To make the queue
 * pair anew each attribute is given at the first transition that takes it, with its latest value: what was changed by a
 * later RTS to RTS is so in force from the start. Ids are virtual, as the application gave them. A rate limit, which the
 * device may not have, is left to {@link org.shadowverbs.driver.verbs.Pacing}.
 *
 * <p>Source: ibv_modify_qp(3) and IBTA volume 1, 11.2.5.2, for the attributes of each transition of a reliable
 * connection.
 */
public final class QpAttributes {
    private static final int STATE = verbs_h.IBV_QP_STATE();
    private static final int AV = verbs_h.IBV_QP_AV();
    private static final int RATE_LIMIT = verbs_h.IBV_QP_RATE_LIMIT();

    private static final int AT_INIT = verbs_h.IBV_QP_PKEY_INDEX() | verbs_h.IBV_QP_PORT()
            | verbs_h.IBV_QP_ACCESS_FLAGS() | verbs_h.IBV_QP_QKEY();
    private static final int AT_RTR = AV | verbs_h.IBV_QP_PATH_MTU() | verbs_h.IBV_QP_DEST_QPN()
            | verbs_h.IBV_QP_RQ_PSN() | verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC() | verbs_h.IBV_QP_MIN_RNR_TIMER()
            | verbs_h.IBV_QP_ALT_PATH();
    private static final int AT_RTS = verbs_h.IBV_QP_TIMEOUT() | verbs_h.IBV_QP_RETRY_CNT()
            | verbs_h.IBV_QP_RNR_RETRY() | verbs_h.IBV_QP_SQ_PSN() | verbs_h.IBV_QP_MAX_QP_RD_ATOMIC()
            | verbs_h.IBV_QP_PATH_MIG_STATE();

    /** Mask bit, offset, length: the bytes of struct ibv_qp_attr that belong to each bit. */
    private static final long[] FIELDS = {
        verbs_h.IBV_QP_EN_SQD_ASYNC_NOTIFY(), ibv_qp_attr.en_sqd_async_notify$offset(), 1,
        verbs_h.IBV_QP_ACCESS_FLAGS(), ibv_qp_attr.qp_access_flags$offset(), 4,
        verbs_h.IBV_QP_PKEY_INDEX(), ibv_qp_attr.pkey_index$offset(), 2,
        verbs_h.IBV_QP_PORT(), ibv_qp_attr.port_num$offset(), 1,
        verbs_h.IBV_QP_QKEY(), ibv_qp_attr.qkey$offset(), 4,
        verbs_h.IBV_QP_AV(), ibv_qp_attr.ah_attr$offset(), ibv_ah_attr.sizeof(),
        verbs_h.IBV_QP_PATH_MTU(), ibv_qp_attr.path_mtu$offset(), 4,
        verbs_h.IBV_QP_TIMEOUT(), ibv_qp_attr.timeout$offset(), 1,
        verbs_h.IBV_QP_RETRY_CNT(), ibv_qp_attr.retry_cnt$offset(), 1,
        verbs_h.IBV_QP_RNR_RETRY(), ibv_qp_attr.rnr_retry$offset(), 1,
        verbs_h.IBV_QP_RQ_PSN(), ibv_qp_attr.rq_psn$offset(), 4,
        verbs_h.IBV_QP_MAX_QP_RD_ATOMIC(), ibv_qp_attr.max_rd_atomic$offset(), 1,
        verbs_h.IBV_QP_ALT_PATH(), ibv_qp_attr.alt_ah_attr$offset(), ibv_ah_attr.sizeof(),
        verbs_h.IBV_QP_ALT_PATH(), ibv_qp_attr.alt_pkey_index$offset(), 2,
        verbs_h.IBV_QP_ALT_PATH(), ibv_qp_attr.alt_port_num$offset(), 1,
        verbs_h.IBV_QP_ALT_PATH(), ibv_qp_attr.alt_timeout$offset(), 1,
        verbs_h.IBV_QP_MIN_RNR_TIMER(), ibv_qp_attr.min_rnr_timer$offset(), 1,
        verbs_h.IBV_QP_SQ_PSN(), ibv_qp_attr.sq_psn$offset(), 4,
        verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC(), ibv_qp_attr.max_dest_rd_atomic$offset(), 1,
        verbs_h.IBV_QP_PATH_MIG_STATE(), ibv_qp_attr.path_mig_state$offset(), 4,
        verbs_h.IBV_QP_CAP(), ibv_qp_attr.cap$offset(), ibv_qp_cap.sizeof(),
        verbs_h.IBV_QP_DEST_QPN(), ibv_qp_attr.dest_qp_num$offset(), 4,
        RATE_LIMIT, ibv_qp_attr.rate_limit$offset(), 4,
    };

    /** A struct ibv_qp_attr on the Java heap; longs, so that it is aligned. */
    private final MemorySegment latest = MemorySegment.ofArray(new long[(int) (ibv_qp_attr.sizeof() + 7) / 8]);
    private int given;
    private int state = verbs_h.IBV_QPS_RESET();
    /** ibv_modify_qp_rate_limit has set the limit, with the two that follow; ibv_modify_qp leaves those to the device. */
    private boolean ratedByItsOwnVerb;
    private int maxBurst;
    private short typicalPacket;

    /** For another process that has the queue pair open, to {@link #decode}. */
    public synchronized byte[] encode() {
        return new RecordWriter(256).i32(given).i8(state).bytes(latest.toArray(ValueLayout.JAVA_BYTE)).toByteArray();
    }

    public synchronized void decode(final byte[] bytes) {
        final RecordReader in = new RecordReader(bytes);
        given = in.i32();
        state = in.i8();
        latest.copyFrom(MemorySegment.ofArray(in.bytes()));
        in.end();
    }

    /** Notes a modify_qp that succeeded. */
    public synchronized void record(final MemorySegment attr, final int mask) {
        if ((mask & STATE) != 0) {
            if (ibv_qp_attr.qp_state(attr) == verbs_h.IBV_QPS_SQD() && state != verbs_h.IBV_QPS_SQD()) {
                given &= ~verbs_h.IBV_QP_EN_SQD_ASYNC_NOTIFY(); // of this time, not of an earlier one
            }
            state = ibv_qp_attr.qp_state(attr);
            if (state == verbs_h.IBV_QPS_RESET()) {
                given = 0;
                latest.fill((byte) 0);
                return;
            }
        }
        if ((mask & RATE_LIMIT) != 0) {
            ratedByItsOwnVerb = false;
        }
        copy(attr, latest, mask);
        given |= mask;
    }

    /** Notes a modify_qp_rate_limit that succeeded. */
    public synchronized void recordRateLimit(final MemorySegment attr) {
        ibv_qp_attr.rate_limit(latest, ibv_qp_rate_limit_attr.rate_limit(attr));
        maxBurst = ibv_qp_rate_limit_attr.max_burst_sz(attr);
        typicalPacket = ibv_qp_rate_limit_attr.typical_pkt_sz(attr);
        ratedByItsOwnVerb = true;
        given |= RATE_LIMIT;
    }

    /** In kbit/s; 0: none. */
    public synchronized int rateLimit() {
        return ibv_qp_attr.rate_limit(latest);
    }

    /** Fills a zeroed struct, if ibv_modify_qp_rate_limit has set the limit; false: ibv_modify_qp has. */
    public synchronized boolean fillRateLimit(final MemorySegment attr) {
        ibv_qp_rate_limit_attr.rate_limit(attr, rateLimit());
        ibv_qp_rate_limit_attr.max_burst_sz(attr, maxBurst);
        ibv_qp_rate_limit_attr.typical_pkt_sz(attr, typicalPacket);
        return ratedByItsOwnVerb;
    }

    /** The attributes of the mask, from one struct to another. */
    static void copy(final MemorySegment from, final MemorySegment to, final int mask) {
        for (int i = 0; i < FIELDS.length; i += 3) {
            if ((mask & FIELDS[i]) != 0) {
                MemorySegment.copy(from, FIELDS[i + 1], to, FIELDS[i + 1], FIELDS[i + 2]);
            }
        }
    }

    /** {@code enum ibv_qp_state}: what the application has set, or ERR when the hardware has. */
    public synchronized int state() {
        return state;
    }

    /** Send requests may have been posted, and are not flushed: RTS or SQD. */
    public synchronized boolean sends() {
        return state == verbs_h.IBV_QPS_RTS() || state == verbs_h.IBV_QPS_SQD();
    }

    /** What a queue pair that receives is told to be in when something else is changed: SQD stays, all else is or becomes RTS. */
    public synchronized int stateForChange() {
        return state == verbs_h.IBV_QPS_SQD() ? state : verbs_h.IBV_QPS_RTS();
    }

    /** The hardware put the queue pair into the error state. */
    public synchronized void failed() {
        state = verbs_h.IBV_QPS_ERR();
    }

    synchronized boolean isGiven(final int bit) {
        return (given & bit) != 0;
    }

    /** A destination is known: the state is, or was before an error, RTR or later. */
    public synchronized boolean connected() {
        return (given & AV) != 0;
    }

    public synchronized int destQpNum() {
        return ibv_qp_attr.dest_qp_num(latest);
    }

    public synchronized int destLid() {
        return ibv_ah_attr.dlid(ibv_qp_attr.ah_attr(latest)) & 0xffff;
    }

    /** Zero when the destination is given by lid alone. */
    public synchronized Gid destGid() {
        return destinationGid(ibv_qp_attr.ah_attr(latest));
    }

    public static Gid destinationGid(final MemorySegment ahAttr) {
        return ibv_ah_attr.is_global(ahAttr) == 0 ? Gid.ZERO
                : Structs.gid(ibv_global_route.dgid(ibv_ah_attr.grh(ahAttr)));
    }

    /** Index of the GID that it sends from by that port, as the application knows it; -1: none. */
    synchronized int sourceIndex(final int port) {
        return connected() ? sourceIndex(ibv_qp_attr.ah_attr(latest), port) : -1;
    }

    static int sourceIndex(final MemorySegment ahAttr, final int port) {
        return ibv_ah_attr.is_global(ahAttr) == 0 || (ibv_ah_attr.port_num(ahAttr) & 0xff) != port ? -1
                : ibv_global_route.sgid_index(ibv_ah_attr.grh(ahAttr)) & 0xff;
    }

    public synchronized int port() {
        return ibv_qp_attr.port_num(latest);
    }

    /** RDMA READs and atomics that it may have under way, and that its peer may. */
    synchronized int maxReads() {
        return ibv_qp_attr.max_rd_atomic(latest) & 0xff;
    }

    synchronized int maxPeerReads() {
        return ibv_qp_attr.max_dest_rd_atomic(latest) & 0xff;
    }

    synchronized int pkeyIndex() {
        return ibv_qp_attr.pkey_index(latest) & 0xffff;
    }

    public synchronized int rnrRetry() {
        return isGiven(verbs_h.IBV_QP_RNR_RETRY()) ? ibv_qp_attr.rnr_retry(latest) : 7;
    }

    public synchronized int minRnrTimer() {
        return ibv_qp_attr.min_rnr_timer(latest);
    }

    public synchronized int accessFlags() {
        return ibv_qp_attr.qp_access_flags(latest);
    }

    /**
     * Fills a zeroed struct for the transition to that state.
     *
     * @param required what that transition must be given, of which the application may have given nothing: then it is zero,
     *        and the port the first
     * @return the mask
     */
    public synchronized int fill(final MemorySegment attr, final int target, final int required) {
        final int mask = given & (target == verbs_h.IBV_QPS_INIT() ? AT_INIT
                : target == verbs_h.IBV_QPS_RTR() ? AT_RTR
                : target == verbs_h.IBV_QPS_RTS() ? AT_RTS
                : target == verbs_h.IBV_QPS_SQD() ? verbs_h.IBV_QP_EN_SQD_ASYNC_NOTIFY() : 0);
        if ((required & verbs_h.IBV_QP_PORT()) != 0) {
            ibv_qp_attr.port_num(attr, (byte) 1);
        }
        copy(latest, attr, mask);
        ibv_qp_attr.qp_state(attr, target);
        return mask | required | STATE;
    }

    /**
     * Overlays what the application has set on what the real queue pair answered. One that was made anew in the error
     * state has been told nothing of RTR and RTS (see {@link #path}).
     */
    public synchronized void overlay(final MemorySegment attr) {
        copy(latest, attr, given & (state == verbs_h.IBV_QPS_ERR() ? AT_INIT | AT_RTR | AT_RTS
                : AV | verbs_h.IBV_QP_DEST_QPN() | verbs_h.IBV_QP_ALT_PATH() | verbs_h.IBV_QP_MIN_RNR_TIMER()
                | verbs_h.IBV_QP_ACCESS_FLAGS() | verbs_h.IBV_QP_PKEY_INDEX()));
    }

    /**
     * The transitions that lead from RESET to the state, in order. To ERR no driver goes from RESET; and further than by way
     * of INIT there is no need, for a queue pair in ERR does nothing with what it is told of its peer.
     */
    public synchronized int[] path() {
        if (state == verbs_h.IBV_QPS_RESET()) {
            return new int[] {};
        }
        if (state == verbs_h.IBV_QPS_ERR()) {
            return new int[] {verbs_h.IBV_QPS_INIT(), verbs_h.IBV_QPS_ERR()};
        }
        final int[] all = {verbs_h.IBV_QPS_INIT(), verbs_h.IBV_QPS_RTR(), verbs_h.IBV_QPS_RTS(),
            verbs_h.IBV_QPS_SQD()};
        int n = 0;
        while (n < all.length && all[n] <= state) {
            n++;
        }
        final int[] path = new int[n];
        System.arraycopy(all, 0, path, 0, n);
        return path;
    }
}
