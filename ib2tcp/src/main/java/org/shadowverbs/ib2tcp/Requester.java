// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/**
 * The half of a queue pair that executes its send requests: sends them in order, waits for answers, and goes back to the
 * first that is not answered when the peer was not ready or the way to it broke. Every request has one sequence number.
 *
 * <p>Each time it goes back it begins a new <em>attempt</em>, whose number is in every frame: what comes late of an older
 * attempt is recognised on both sides and dropped.
 */
final class Requester extends Sender {
    private static final int FLAG_FENCE = 1;
    private static final int FLAG_SIGNALED = 2;
    private static final int FLAG_SOLICITED = 4;
    private static final int FLAG_INLINE = 8;
    private static final int FOR_EVER = 7;
    /** enum ibv_wc_opcode of each ibv_wr_opcode. */
    private static final int[] COMPLETED = {1, 1, 0, 0, 2, 3, 4};

    private final QueuePair qp;
    private final Device device;
    private Link link;
    /** The request that is being sent, and how much of it has been. */
    private int at;
    private long offset;
    /** Reads and atomics that have been sent and not answered. */
    private int outstanding;
    /** Of the answer to the oldest of these. */
    private long answered;
    private int attempt;
    /** Sequence number of ring index 0. */
    private int sequenceBase;
    private int retriesLeft;
    private int rnrLeft;
    private boolean waiting;
    private boolean waitsForReceive;
    /** Until then, if it waits; in nanoseconds. */
    long resumeAt;
    private boolean drainReported;

    Requester(final QueuePair qp) {
        this.qp = qp;
        this.device = qp.device;
    }

    void reset() {
        link = null;
        waiting = false;
        device.timers.remove(this);
        at = qp.send.head();
        offset = 0;
        outstanding = 0;
        answered = 0;
    }

    void start() {
        reset();
        sequenceBase = qp.sendSequence - at;
        progressed();
        drainReported = false;
    }

    private void progressed() {
        retriesLeft = qp.retries;
        rnrLeft = qp.rnrRetries;
    }

    private int sequence(final int index) {
        return sequenceBase + index;
    }

    /** Sends what there is to send. */
    void proceed() {
        if (qp.state != QueuePair.RTS && qp.state != QueuePair.SQD || waiting) {
            return;
        }
        if (qp.state == QueuePair.SQD && at == qp.send.head() && offset == 0) {
            if (!drainReported) {
                drainReported = true;
                qp.async.send(qp.address, QueuePair.EVENT_SQ_DRAINED);
            }
            return;
        }
        drainReported = false;
        if (at == qp.send.tail() && offset == 0) {
            return;
        }
        if (link == null) {
            link = device.link(qp.peerPrefix, qp.peerId);
            if (link == null) {
                retry();
                return;
            }
        }
        link.schedule(this);
    }

    @Override
    boolean fill(final Batch batch) {
        if (waiting || link == null || qp.state != QueuePair.RTS && qp.state != QueuePair.SQD
                || at == qp.send.tail()) {
            return false;
        }
        final long request = qp.send.entry(at);
        final int opcode = Memory.i32(request + Layouts.SEND_OPCODE);
        final int flags = Memory.i32(request + Layouts.SEND_FLAGS);
        final long length = Memory.i64(request + Layouts.SEND_LENGTH);
        if (offset == 0 && (qp.state == QueuePair.SQD || outstanding > 0 && ((flags & FLAG_FENCE) != 0
                || Frame.reads(opcode) && outstanding >= qp.maxReads))) {
            return false;
        }
        // At every frame, for a key may be withdrawn in the midst of a message.
        final int status = check(request, opcode, flags, length);
        if (status != CompletionQueue.SUCCESS) {
            // Those before it are completed first.
            if (at == qp.send.head()) {
                qp.fail(status);
            }
            return false;
        }
        final int part = Frame.reads(opcode) ? 0 : (int) Math.min(length - offset, Frame.MAX_PAYLOAD);
        final long header = batch.header();
        Frame.start(header, Frame.REQUEST, opcode, attempt, qp.peerNumber, qp.number, sequence(at));
        Frame.flags(header, (flags & FLAG_SOLICITED) != 0 ? Frame.SOLICITED : 0);
        Frame.immediate(header, Memory.i32(request + Layouts.SEND_IMM));
        Frame.length(header, length);
        if (opcode != Frame.SEND && opcode != Frame.SEND_IMM) {
            Frame.address(header, Memory.i64(request + Layouts.SEND_REMOTE));
            Frame.rkey(header, Memory.i32(request + Layouts.SEND_RKEY));
        }
        if (Frame.atomic(opcode)) {
            Frame.compareAdd(header, Memory.i64(request + Layouts.SEND_COMPARE));
            Frame.swap(header, Memory.i64(request + Layouts.SEND_SWAP));
        } else {
            Frame.payload(header, part);
            Frame.offset(header, offset);
        }
        if (part > 0) {
            if ((flags & FLAG_INLINE) != 0) {
                batch.vectors().add(request + Layouts.SEND_SIZE + offset, part);
            } else {
                device.regions.slice(batch.vectors(), request + Layouts.SEND_SIZE,
                        Memory.i32(request + Layouts.SEND_NUM_SGE), qp.domain, 0, offset, part);
            }
        }
        offset += part;
        if (Frame.reads(opcode)) {
            outstanding++;
        }
        if (Frame.reads(opcode) || offset == length) {
            at++;
            offset = 0;
        }
        return at != qp.send.tail();
    }

    /** What is wrong with a request on this side; {@code enum ibv_wc_status}. */
    private int check(final long request, final int opcode, final int flags, final long length) {
        if (length > Frame.MAX_MESSAGE || Frame.atomic(opcode) && length != 8) {
            return CompletionQueue.LOC_LEN_ERR;
        }
        if (Frame.reads(opcode) && qp.maxReads == 0) {
            return CompletionQueue.LOC_QP_OP_ERR;
        }
        if ((flags & FLAG_INLINE) == 0 && !allows(request, Frame.reads(opcode) ? MemoryRegions.LOCAL_WRITE : 0)) {
            return CompletionQueue.LOC_PROT_ERR;
        }
        return CompletionQueue.SUCCESS;
    }

    private boolean allows(final long request, final int needed) {
        return device.regions.allow(request + Layouts.SEND_SIZE, Memory.i32(request + Layouts.SEND_NUM_SGE), qp.domain,
                needed);
    }

    /** A frame from the peer's responder that came over a link; puts its payload, if any, in place. */
    void answer(final Link from, final Inbound inbound) throws ProtocolException {
        final long header = inbound.header;
        if (from != link || Frame.attempt(header) != attempt) {
            return;
        }
        final int index = Frame.sequence(header) - sequenceBase;
        final int ahead = index - qp.send.head();
        switch (Frame.type(header)) {
            case Frame.ACK:
                if (ahead >= 0 && Integer.compareUnsigned(ahead, at - qp.send.head()) < 0) {
                    completeBefore(index + 1, true);
                    proceed();
                } // else an acknowledgement of what is acknowledged
                break;
            case Frame.NAK:
                checkSent(ahead);
                refused(header, index);
                break;
            case Frame.READY:
                if (waiting && waitsForReceive) {
                    resume();
                }
                break;
            default:
                checkSent(ahead);
                completeBefore(index, true);
                result(index, inbound);
                break;
        }
    }

    private void checkSent(final int ahead) throws ProtocolException {
        final int sent = at - qp.send.head() + (offset > 0 ? 1 : 0);
        if (Integer.compareUnsigned(ahead, sent) >= 0) {
            throw new ProtocolException("an answer to what was not asked");
        }
    }

    /** The answer to the read or atomic at the head. */
    private void result(final int index, final Inbound inbound) throws ProtocolException {
        final long header = inbound.header;
        final long request = qp.send.entry(index);
        final int opcode = Memory.i32(request + Layouts.SEND_OPCODE);
        final boolean atomic = Frame.type(header) == Frame.ATOMIC_RESPONSE;
        if (atomic != Frame.atomic(opcode) || !Frame.reads(opcode)) {
            throw new ProtocolException("an answer of the wrong kind");
        }
        if (!atomic && (Frame.length(header) != Memory.i64(request + Layouts.SEND_LENGTH)
                || Frame.offset(header) != answered)) {
            throw new ProtocolException("an answer of the wrong length");
        }
        // The key may have been withdrawn since the request was sent.
        final long sges = request + Layouts.SEND_SIZE;
        final int count = Memory.i32(request + Layouts.SEND_NUM_SGE);
        if (!device.regions.slice(inbound.target, sges, count, qp.domain, MemoryRegions.LOCAL_WRITE, answered,
                atomic ? 8 : Frame.payload(header))) {
            inbound.target.clear();
            qp.fail(CompletionQueue.LOC_PROT_ERR);
            return;
        }
        if (atomic) {
            Memory.i64(header + 24, Frame.address(header)); // now in this host's order
            inbound.target.fill(header + 24, 8);
        }
        inbound.accept(qp, false);
    }

    /** The payload of a frame of a read's answer is in place. */
    void placed(final long header) {
        answered += Frame.payload(header);
        if (Frame.type(header) == Frame.ATOMIC_RESPONSE || answered == Frame.length(header)) {
            answered = 0;
            outstanding--;
            complete(CompletionQueue.SUCCESS);
            progressed();
            proceed();
        }
    }

    /** @param whole there can be no read among them that was not answered */
    private void completeBefore(final int index, final boolean whole) throws ProtocolException {
        while (qp.send.head() != index) {
            if (Frame.reads(Memory.i32(qp.send.first() + Layouts.SEND_OPCODE))) {
                if (!whole) {
                    return;
                }
                throw new ProtocolException("a read that was passed over");
            }
            complete(CompletionQueue.SUCCESS);
            progressed();
        }
    }

    /** Completes the request at the head. */
    void complete(final int status) {
        final long request = qp.send.first();
        final boolean shown = status != CompletionQueue.SUCCESS || qp.signalAll
                || (Memory.i32(request + Layouts.SEND_FLAGS) & FLAG_SIGNALED) != 0;
        final long wrId = Memory.i64(request + Layouts.SEND_WR_ID);
        final int opcode = Memory.i32(request + Layouts.SEND_OPCODE);
        final int length = (int) Memory.i64(request + Layouts.SEND_LENGTH);
        qp.send.remove(); // first: who sees the completion may post at once
        if (shown) {
            qp.sendQueue.push(wrId, status, COMPLETED[opcode], length, 0, false, qp.number, 0, false);
        }
    }

    private void refused(final long header, final int index) throws ProtocolException {
        if (Frame.opcode(header) == Frame.NOT_READY) {
            retry(); // says nothing of those before it
            return;
        }
        completeBefore(index, Frame.opcode(header) == Frame.RNR);
        switch (Frame.opcode(header)) {
            case Frame.RNR:
                if (qp.rnrRetries != FOR_EVER && rnrLeft-- == 0) {
                    qp.fail(CompletionQueue.RNR_RETRY_EXC_ERR);
                    return;
                }
                goBack();
                await(RnrTimer.nanos(Frame.timer(header)), true);
                break;
            case Frame.INVALID_REQUEST:
                qp.fail(CompletionQueue.REM_INV_REQ_ERR);
                break;
            case Frame.ACCESS_ERROR:
                qp.fail(CompletionQueue.REM_ACCESS_ERR);
                break;
            default:
                qp.fail(CompletionQueue.REM_OP_ERR);
                break;
        }
    }

    /** Nobody has answered: as when an HCA's time-out has passed. */
    private void retry() {
        if (qp.timeout != 0 && retriesLeft-- == 0) {
            qp.fail(CompletionQueue.RETRY_EXC_ERR);
            return;
        }
        goBack();
        await(RnrTimer.timeout(qp.timeout), false);
    }

    private void goBack() {
        at = qp.send.head();
        offset = 0;
        outstanding = 0;
        answered = 0;
        attempt = attempt + 1 & 0xff;
    }

    private void await(final long nanos, final boolean receive) {
        waiting = true;
        waitsForReceive = receive;
        resumeAt = device.now() + nanos;
        device.timers.add(this);
    }

    /** The wait is over. */
    void resume() {
        device.timers.remove(this);
        waiting = false;
        proceed();
    }

    void linkLost(final Link gone) {
        if (link == gone) {
            link = null;
            if (qp.send.isEmpty()) {
                goBack();
            } else if (!waiting) {
                retry();
            }
        }
    }

    boolean uses(final Link other) {
        return link == other;
    }
}
