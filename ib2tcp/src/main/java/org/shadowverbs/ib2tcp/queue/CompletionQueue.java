// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.queue;

import java.time.Instant;
import org.shadowverbs.ib2tcp.system.Events;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Waiters;

/** The engine's end of a completion queue: it puts completions in, and tells the channel when that was asked for. */
public final class CompletionQueue {
    public static final int SUCCESS = 0;
    public static final int LOC_LEN_ERR = 1;
    public static final int LOC_QP_OP_ERR = 2;
    public static final int LOC_PROT_ERR = 4;
    public static final int WR_FLUSH_ERR = 5;
    public static final int MW_BIND_ERR = 6;
    public static final int REM_INV_REQ_ERR = 9;
    public static final int REM_ACCESS_ERR = 10;
    public static final int REM_OP_ERR = 11;
    public static final int RETRY_EXC_ERR = 12;
    public static final int RNR_RETRY_EXC_ERR = 13;

    public static final int OPCODE_RECV = 128;
    public static final int OPCODE_RECV_WITH_IMM = 129;
    private static final int ARMED_SOLICITED = 1;
    private static final int ARMED_ANY = 2;
    private static final int EVENT_CQ_ERR = 0;

    /** What System.nanoTime is short of the time since 1970. */
    private static final long WALLCLOCK = wallclock();

    final long address;
    final Events channel;
    public final Events async;
    private final Waiters waiters;
    public int users;
    private int tail;
    private boolean overrun;

    /** @param channel null when there is none */
    public CompletionQueue(final long address, final Events channel, final Events async, final Waiters waiters) {
        this.address = address;
        this.channel = channel;
        this.async = async;
        this.waiters = waiters;
    }

    private static long wallclock() {
        final Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano() - System.nanoTime();
    }

    public void push(final Completion completion, final int qpNumber) {
        final int mask = Memory.i32(address + Layouts.CQ_MASK);
        if (tail - Memory.acquire(address + Layouts.CQ_HEAD) > mask) {
            if (!overrun) {
                overrun = true;
                async.send(address, EVENT_CQ_ERR);
            }
            return;
        }
        final long stamps = Memory.i64(address + Layouts.CQ_STAMPS);
        if (stamps != 0) {
            final long now = System.nanoTime();
            final long stamp = stamps + (tail & mask) * Layouts.STAMP_SIZE;
            Memory.i64(stamp + Layouts.STAMP_MONOTONIC, now);
            Memory.i64(stamp + Layouts.STAMP_WALLCLOCK, now + WALLCLOCK);
        }
        final long wc = Memory.i64(address + Layouts.CQ_ENTRIES) + (tail & mask) * Layouts.WC_SIZE;
        Memory.i64(wc + Layouts.WC_WR_ID, completion.wrId);
        Memory.pair(wc + Layouts.WC_STATUS, completion.status, completion.opcode);
        Memory.pair(wc + Layouts.WC_VENDOR_ERR, 0, completion.bytes);
        Memory.pair(wc + Layouts.WC_IMM, completion.imm, qpNumber);
        Memory.pair(wc + Layouts.WC_SRC_QP, completion.sourceNumber, completion.flags);
        Memory.u16(wc + Layouts.WC_SLID, completion.sourceLid);
        Memory.u8(wc + Layouts.WC_SL, completion.serviceLevel);
        waiters.completed();
        if (channel == null) {
            Memory.release(address + Layouts.CQ_TAIL, ++tail);
            return;
        }
        // The index before the look at `armed`: who arms afterwards will find the completion by polling.
        Memory.volatileSet(address + Layouts.CQ_TAIL, ++tail);
        final int armed = Memory.volatileGet(address + Layouts.CQ_ARMED);
        if (armed != 0 && (armed == ARMED_ANY || completion.solicited || completion.status != SUCCESS)
                && Memory.compareAndSet(address + Layouts.CQ_ARMED, armed, 0)) {
            channel.send(address, 0);
        } else if (armed == ARMED_SOLICITED && Memory.volatileGet(address + Layouts.CQ_ARMED) == ARMED_ANY
                && Memory.compareAndSet(address + Layouts.CQ_ARMED, ARMED_ANY, 0)) {
            // Armed for any while we looked: an event too many is allowed, one too few is not.
            channel.send(address, 0);
        }
    }
}
