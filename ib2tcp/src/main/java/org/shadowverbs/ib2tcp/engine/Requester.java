// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** The half of a queue pair that executes its send requests, in order. */
public abstract class Requester extends Sender {
    public static final int FLAG_FENCE = 1;
    static final int FLAG_SIGNALED = 2;
    static final int FLAG_SOLICITED = 4;
    public static final int FLAG_INLINE = 8;
    /** enum ibv_wc_opcode of each ibv_wr_opcode. */
    static final int[] COMPLETED = {1, 1, 0, 0, 2, 3, 4, 6, 5, 0};

    public final QueuePair qp;
    public final Device device;
    public Link link;
    /** The request that is being sent, and how much of it has been. */
    public int at;
    public long offset;
    /** Until then, if it waits; in nanoseconds. */
    public long resumeAt;
    /** In SQD: the first request that had not been begun then. */
    private int held;
    private boolean drainReported;

    public Requester(final QueuePair qp) {
        this.qp = qp;
        this.device = qp.device;
    }

    /** Forgets what is under way: the queue pair goes to RESET or into an error state. */
    public abstract void reset();

    /** The queue pair has come to RTS. */
    public abstract void start();

    /** Sends what there is to send. */
    public abstract void proceed();

    /** The wait is over. */
    public abstract void resume();

    public abstract void linkLost(Link gone);

    public boolean uses(final Link other) {
        return link == other;
    }

    /** A batch that has frames of this requester does not need its memory any more. */
    public void detached(final Batch batch) {
        // Most requesters do nothing then.
    }

    /** A frame from the peer's responder that came over a link; puts its payload, if any, in place. */
    public void answer(final Link from, final Inbound inbound) throws ProtocolException {
        throw new IllegalStateException("nobody answers this requester");
    }

    /** Whether its next frame goes over that link and takes an acknowledgement with it. */
    public boolean carries(final Link over) {
        return false;
    }

    /** An acknowledgement that came with a request. */
    public void acknowledged(final Link from, final long header) throws ProtocolException {
        throw new IllegalStateException("nobody answers this requester");
    }

    /** The payload of such a frame is in place. */
    public void placed(final long header) {
        throw new IllegalStateException("nobody answers this requester");
    }

    /** A key that such a frame's payload went by has been withdrawn before all of it was in place. */
    public void cut(final long header) {
        throw new IllegalStateException("nobody answers this requester");
    }

    /** Whether such a frame, which is being received, may still be written to where it belongs. */
    public boolean allows(final long header) {
        throw new IllegalStateException("nobody answers this requester");
    }

    public final boolean sends() {
        return qp.state == QueuePair.RTS || qp.state == QueuePair.SQD;
    }

    /** The queue pair goes to SQD. */
    final void hold() {
        held = begun();
        drainReported = false;
    }

    /** The first request of which nothing has been sent yet. */
    public int begun() {
        return at + (offset != 0 ? 1 : 0);
    }

    /** In SQD no further request is begun; what was, is sent to its end, and again where that is necessary. */
    public final boolean mayBegin() {
        return qp.state != QueuePair.SQD || at - held < 0;
    }

    /** In SQD, a request that was begun is not completed. */
    public final boolean draining() {
        return qp.state == QueuePair.SQD && (offset != 0 || at - held < 0 || at != qp.send.head());
    }

    /** Says that the send queue is drained, if it is, once. */
    public final void sayDrained() {
        if (qp.state == QueuePair.SQD && !draining() && !drainReported) {
            drainReported = true;
            if (qp.drainEvent) {
                qp.event(QueuePair.EVENT_SQ_DRAINED);
            }
        }
    }

    /** Starts the header of a request's next frame and adds its payload. */
    public final long frame(final Batch batch, final long request, final int type, final int part, final int attempt,
            final int destination, final int sequence) {
        final long header = batch.header();
        start(header, request, type, part, attempt, destination, sequence);
        if (part > 0) {
            payload(batch, request, part);
        }
        return header;
    }

    /** Adds the next bytes of a request's payload. */
    public final void payload(final Batch batch, final long request, final int bytes) {
        if (bytes <= Batch.TINY || (Memory.i32(request + Layouts.SEND_FLAGS) & FLAG_INLINE) != 0) {
            copyPayload(batch.append(bytes), request, bytes);
        } else {
            payload(batch.vectors(), request, bytes);
        }
    }

    private void start(final long header, final long request, final int type, final int part, final int attempt,
            final int destination, final int sequence) {
        final int opcode = Memory.i32(request + Layouts.SEND_OPCODE);
        final int flags = Memory.i32(request + Layouts.SEND_FLAGS);
        Frame.start(header, type, opcode, attempt, (flags & FLAG_SOLICITED) != 0 ? Frame.SOLICITED : 0, part, destination,
                qp.number, sequence);
        Frame.length(header, Memory.i64(request + Layouts.SEND_LENGTH));
        if (opcode == Frame.SEND_INV) {
            Frame.rkey(header, Memory.i32(request + Layouts.SEND_IMM));
        } else if (!Frame.atomic(opcode)) {
            Frame.immediate(header, Memory.i32(request + Layouts.SEND_IMM));
        }
    }

    /** Adds the memory of the next bytes of a request's payload. */
    public void payload(final Vectors to, final long request, final int bytes) {
        if ((Memory.i32(request + Layouts.SEND_FLAGS) & FLAG_INLINE) != 0) {
            to.add(request + Layouts.SEND_SIZE + offset, bytes);
        } else {
            device.regions.slice(to, request + Layouts.SEND_SIZE, Memory.i32(request + Layouts.SEND_NUM_SGE), qp.domain,
                    0, offset, bytes);
        }
    }

    /** Copies the next bytes of a request's payload, of which its keys allow it. */
    public void copyPayload(final long to, final long request, final int bytes) {
        if ((Memory.i32(request + Layouts.SEND_FLAGS) & FLAG_INLINE) != 0) {
            Memory.copy(request + Layouts.SEND_SIZE + offset, to, bytes);
        } else {
            device.regions.copy(to, request + Layouts.SEND_SIZE, Memory.i32(request + Layouts.SEND_NUM_SGE), qp.domain, offset,
                    bytes);
        }
    }

    /** Writes the header of a datagram. */
    public final void datagram(final long header, final long request, final int destination) {
        final long swap = Memory.i64(request + Layouts.SEND_SWAP);
        final int qkey = (int) swap;
        start(header, request, Frame.DATAGRAM, (int) Memory.i64(request + Layouts.SEND_LENGTH), (int) (swap >>> 32), destination,
                0);
        // A controlled Q_Key is the queue pair's own (IBTA volume 1, 10.2.4).
        Frame.rkey(header, qkey < 0 ? qp.qkey : qkey);
        Frame.lid(header, device.lid);
    }

    /** Whether the keys of a request allow what it does on this side. */
    public final boolean allowed(final long request) {
        final int opcode = Memory.i32(request + Layouts.SEND_OPCODE);
        return (Memory.i32(request + Layouts.SEND_FLAGS) & FLAG_INLINE) != 0
                || device.regions.allow(request + Layouts.SEND_SIZE, Memory.i32(request + Layouts.SEND_NUM_SGE),
                        qp.domain, Frame.reads(opcode) ? MemoryRegions.LOCAL_WRITE : 0);
    }

    /** Executes a request that concerns this side alone. @return {@code enum ibv_wc_status} */
    public final int executeLocal(final long request) {
        if (Memory.i32(request + Layouts.SEND_OPCODE) == Frame.LOCAL_INV) {
            return device.regions.invalidate(Memory.i32(request + Layouts.SEND_IMM), qp)
                    ? CompletionQueue.SUCCESS : CompletionQueue.MW_BIND_ERR;
        }
        return device.regions.bind(qp, Memory.i32(request + Layouts.SEND_RKEY),
                (int) Memory.i64(request + Layouts.SEND_SWAP), Memory.i64(request + Layouts.SEND_REMOTE),
                Memory.i64(request + Layouts.SEND_COMPARE), Memory.i32(request + Layouts.SEND_IMM))
                ? CompletionQueue.SUCCESS : CompletionQueue.MW_BIND_ERR;
    }
}
