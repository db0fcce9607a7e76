// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.reliable;

import org.shadowverbs.ib2tcp.engine.Batch;
import org.shadowverbs.ib2tcp.engine.Inbound;
import org.shadowverbs.ib2tcp.engine.Link;
import org.shadowverbs.ib2tcp.engine.MemoryRegions;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.Requester;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.RnrTimer;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/**
 * The requester of a reliable connection or of XRC. It waits for answers, and goes back to the first request without an answer
 * when the peer was not ready or the connection broke. Every message has one sequence number.
 *
 * <p>Each time it goes back it begins a new <em>attempt</em>, whose number is in every frame: both sides recognise a late frame
 * of an older attempt and drop it.
 *
 * <p>A request that concerns this side alone (of memory windows) is no message. It is executed once, when those before it have
 * been sent, and completed when those before it are.
 */
public final class ReliableRequester extends Requester {
    private static final int FOR_EVER = 7;

    /** Reads and atomics that have been sent and not answered. */
    private int outstanding;
    /** How many bytes of the answer to the oldest of these have come. */
    private long answered;
    private int attempt;
    /** Sequence numbers of the next message to be completed, and to be sent. */
    private int headSequence;
    private int nextSequence;
    /** Requests before it that concern this side alone have been executed. */
    private int localsDone;
    private int retriesLeft;
    private int rnrLeft;
    private boolean waiting;
    private boolean waitsForReceive;
    /** The first request of which nothing had been sent when it was gone back last. */
    private int furthest;

    public ReliableRequester(final QueuePair qp) {
        super(qp);
    }

    @Override
    public void reset() {
        link = null;
        waiting = false;
        device.timers.remove(this);
        at = qp.send.head();
        furthest = at;
        offset = 0;
        outstanding = 0;
        answered = 0;
    }

    @Override
    public void start() {
        reset();
        headSequence = qp.sendSequence;
        nextSequence = headSequence;
        localsDone = at;
        progressed();
    }

    private void progressed() {
        retriesLeft = qp.retries;
        rnrLeft = qp.rnrRetries;
    }

    /** Sends what there is to send. */
    @Override
    public void proceed() {
        if (!sends() || waiting) {
            return;
        }
        passLocals();
        sayDrained();
        if (!sends() || offset == 0 && (at == qp.send.tail() || !mayBegin())) {
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

    /** Executes the requests to be sent next, as long as nothing of them is sent. */
    private void passLocals() {
        while (offset == 0 && at != qp.send.tail() && sends() && mayBegin()
                && Frame.local(Memory.i32(qp.send.entry(at) + Layouts.SEND_OPCODE))) {
            final long request = qp.send.entry(at);
            if (at - localsDone >= 0) {
                if (outstanding > 0 && (Memory.i32(request + Layouts.SEND_FLAGS) & FLAG_FENCE) != 0) {
                    return;
                }
                final int status = executeLocal(request);
                if (status != CompletionQueue.SUCCESS) {
                    if (at == qp.send.head()) {
                        qp.fail(status);
                    }
                    return; // those before it are completed first, and then it is tried again
                }
                localsDone = at + 1;
            }
            Memory.i32(request + Layouts.SEND_SEQUENCE, nextSequence);
            at++;
            completeLocals();
        }
    }

    /** Those at the head that have been executed. */
    private void completeLocals() {
        while (qp.send.head() != at && Frame.local(Memory.i32(qp.send.first() + Layouts.SEND_OPCODE))) {
            qp.completeSend(CompletionQueue.SUCCESS);
        }
    }

    @Override
    public boolean fill(final Batch batch) {
        if (waiting || link == null || !sends() || at == qp.send.tail()) {
            return false;
        }
        final long request = qp.send.entry(at);
        final int opcode = Memory.i32(request + Layouts.SEND_OPCODE);
        final int flags = Memory.i32(request + Layouts.SEND_FLAGS);
        final long length = Memory.i64(request + Layouts.SEND_LENGTH);
        if (Frame.local(opcode) || offset == 0 && (!mayBegin() || outstanding > 0 && ((flags & FLAG_FENCE) != 0
                || Frame.reads(opcode) && outstanding >= qp.maxReads))) {
            return false;
        }
        // At every frame, because a key may be withdrawn during a message.
        final int status = check(request, opcode, length);
        if (status != CompletionQueue.SUCCESS) {
            // Those before it are completed first.
            if (at == qp.send.head()) {
                qp.fail(status);
            }
            return false;
        }
        final int part = Frame.reads(opcode) ? 0 : (int) Math.min(length - offset, Frame.MAX_PAYLOAD);
        Memory.i32(request + Layouts.SEND_SEQUENCE, nextSequence);
        final long header = frame(batch, request, Frame.REQUEST, part, attempt, qp.peerNumber, nextSequence);
        if (qp.type == QueuePair.XRC_SEND) {
            Frame.sharedQueue(header, Frame.atomic(opcode) ? Memory.i32(request + Layouts.SEND_IMM)
                    : (int) Memory.i64(request + Layouts.SEND_COMPARE));
        }
        if (!Frame.sends(opcode)) {
            Frame.address(header, Memory.i64(request + Layouts.SEND_REMOTE));
            Frame.rkey(header, Memory.i32(request + Layouts.SEND_RKEY));
        }
        if (Frame.atomic(opcode)) {
            Frame.compareAdd(header, Memory.i64(request + Layouts.SEND_COMPARE));
            Frame.swap(header, Memory.i64(request + Layouts.SEND_SWAP));
        } else {
            Frame.offset(header, offset);
            qp.responder.acknowledgeWith(link, header);
        }
        offset += part;
        if (Frame.reads(opcode)) {
            outstanding++;
        }
        if (Frame.reads(opcode) || offset == length) {
            at++;
            nextSequence++;
            offset = 0;
            passLocals();
        }
        return sends() && at != qp.send.tail();
    }

    @Override
    public boolean carries(final Link over) {
        return queued && link == over && at != qp.send.tail()
                && !Frame.atomic(Memory.i32(qp.send.entry(at) + Layouts.SEND_OPCODE));
    }

    /** What is wrong with a request on this side; {@code enum ibv_wc_status}. */
    private int check(final long request, final int opcode, final long length) {
        if (length > Frame.MAX_MESSAGE || Frame.atomic(opcode) && length != 8) {
            return CompletionQueue.LOC_LEN_ERR;
        }
        if (Frame.reads(opcode) && qp.maxReads == 0) {
            return CompletionQueue.LOC_QP_OP_ERR;
        }
        return allowed(request) ? CompletionQueue.SUCCESS : CompletionQueue.LOC_PROT_ERR;
    }

    /** The request with that sequence number, if it has been sent; else any that has not been. */
    private int indexOf(final int sequence) {
        int index = qp.send.head() + (sequence - headSequence);
        final int end = at + (offset > 0 ? 1 : 0);
        // Each request that is no message puts those behind it one place further back.
        while (Integer.compareUnsigned(index - qp.send.head(), end - qp.send.head()) < 0) {
            final long request = qp.send.entry(index);
            final int behind = sequence - Memory.i32(request + Layouts.SEND_SEQUENCE);
            if (behind == 0 && !Frame.local(Memory.i32(request + Layouts.SEND_OPCODE))) {
                return index;
            }
            index += Math.max(1, behind);
        }
        return index;
    }

    @Override
    public void answer(final Link from, final Inbound inbound) throws ProtocolException {
        final long header = inbound.header;
        if (from != link || Frame.attempt(header) != attempt) {
            return;
        }
        final int index = indexOf(Frame.sequence(header));
        final int ahead = index - qp.send.head();
        switch (Frame.type(header)) {
            case Frame.ACK:
                acknowledged(index);
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

    @Override
    public void acknowledged(final Link from, final long header) throws ProtocolException {
        if (from == link && Frame.acknowledgedAttempt(header) == attempt) {
            acknowledged(indexOf(Frame.acknowledgedSequence(header)));
        }
    }

    private void acknowledged(final int index) throws ProtocolException {
        final int ahead = index - qp.send.head();
        if (ahead >= 0 && Integer.compareUnsigned(ahead, at - qp.send.head()) < 0) {
            completeBefore(index + 1, true);
            proceed();
        } // else an acknowledgement of what is acknowledged
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

    @Override
    public boolean allows(final long header) {
        final long request = qp.send.first();
        return device.regions.covers(request + Layouts.SEND_SIZE, Memory.i32(request + Layouts.SEND_NUM_SGE), qp.domain,
                MemoryRegions.LOCAL_WRITE, answered, Frame.payload(header));
    }

    @Override
    public void cut(final long header) {
        qp.fail(CompletionQueue.LOC_PROT_ERR);
    }

    /** The payload of a frame of a read's answer is in place. */
    @Override
    public void placed(final long header) {
        answered += Frame.payload(header);
        if (Frame.type(header) == Frame.ATOMIC_RESPONSE || answered == Frame.length(header)) {
            answered = 0;
            outstanding--;
            complete();
            progressed();
            proceed();
        }
    }

    /** @param whole there can be no read among them that was not answered */
    private void completeBefore(final int index, final boolean whole) throws ProtocolException {
        while (qp.send.head() - index < 0) {
            if (Frame.reads(Memory.i32(qp.send.first() + Layouts.SEND_OPCODE))) {
                if (!whole) {
                    return;
                }
                throw new ProtocolException("a read that was passed over");
            }
            complete();
            progressed();
        }
    }

    /** Completes the message at the head, and what was executed behind it. */
    private void complete() {
        qp.completeSend(CompletionQueue.SUCCESS);
        headSequence++;
        completeLocals();
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

    /** The peer has not answered, as when an HCA's time-out has passed. */
    private void retry() {
        if (qp.timeout != 0 && retriesLeft-- == 0) {
            qp.fail(CompletionQueue.RETRY_EXC_ERR);
            return;
        }
        goBack();
        await(RnrTimer.timeout(qp.timeout), false);
    }

    private void goBack() {
        furthest = begun();
        at = qp.send.head();
        nextSequence = headSequence;
        offset = 0;
        outstanding = 0;
        answered = 0;
        attempt = attempt + 1 & 0xff;
    }

    @Override
    public int begun() {
        final int now = super.begun();
        return furthest - now > 0 ? furthest : now;
    }

    private void await(final long nanos, final boolean receive) {
        waiting = true;
        waitsForReceive = receive;
        resumeAt = device.now() + nanos;
        device.timers.add(this);
    }

    @Override
    public void resume() {
        device.timers.remove(this);
        waiting = false;
        proceed();
    }

    @Override
    public void linkLost(final Link gone) {
        if (link == gone) {
            link = null;
            if (qp.send.isEmpty()) {
                goBack();
            } else if (!waiting) {
                retry();
            }
        }
    }
}
