// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.reliable;

import org.shadowverbs.ib2tcp.engine.Batch;
import org.shadowverbs.ib2tcp.engine.Inbound;
import org.shadowverbs.ib2tcp.engine.Link;
import org.shadowverbs.ib2tcp.engine.MemoryRegions;
import org.shadowverbs.ib2tcp.engine.Message;
import org.shadowverbs.ib2tcp.engine.OrphanAcks;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.Responder;
import org.shadowverbs.ib2tcp.engine.SharedQueue;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.wire.Frame;

/**
 * The responder of a reliable connection or of XRC. It executes each request once, in the order of sequence numbers, whatever
 * is sent again. Answers go over the link that the request came by.
 */
public final class ReliableResponder extends Responder {
    private static final int FIRST_ATTEMPT = -1;

    private int attempt = FIRST_ATTEMPT;
    /** The next request, and how much of it is in place. */
    private int expected;
    private long offset;
    private final Message message = new Message();
    private boolean takesReceive;
    /** Of XRC: the shared receive queue that the request names. */
    private SharedQueue named;
    /** What came after a negative acknowledgement is dropped until the next attempt. */
    private boolean refused;
    private boolean nakDue;
    private int nakCode;
    private boolean ackDue;
    /**
     * The last request of this attempt that was seen whole. Not `expected - 1`: after a link was lost, reads before that
     * are asked for again, and are not to be acknowledged before they are answered.
     */
    private int seen;
    private boolean readyDue;
    /** Reads and atomics whose answers are to be sent, oldest first. */
    private Answers answers = new Answers(0);

    public ReliableResponder(final QueuePair qp) {
        super(qp);
    }

    @Override
    public void reset() {
        link = null;
        attempt = FIRST_ATTEMPT;
        offset = 0;
        refused = false;
        nakDue = false;
        ackDue = false;
        readyDue = false;
        answers = new Answers(0);
    }

    @Override
    public void start() {
        reset();
        expected = qp.recvSequence;
        answers = new Answers(qp.maxPeerReads);
    }

    @Override
    public void request(final Link from, final Inbound inbound) {
        final long header = inbound.header;
        if (from != link || Frame.attempt(header) != attempt) {
            // Attempts count up; what is older comes late, over a link that the peer has given up.
            if (attempt != FIRST_ATTEMPT && (byte) (Frame.attempt(header) - attempt) <= 0) {
                return;
            }
            if (link != null && link != from) {
                link.remove(this);
                link.inbound.abandon(qp);
            }
            link = from;
            attempt = Frame.attempt(header);
            offset = 0;
            refused = false;
            nakDue = false;
            ackDue = false;
            readyDue = false;
            answers.forgetUnsent();
        }
        if (refused) {
            return;
        }
        final int ahead = Frame.sequence(header) - expected;
        final int opcode = Frame.opcode(header);
        final long length = Frame.length(header);
        final boolean known = qp.xrcDomain == 0 || names(header);
        if (ahead < 0) {
            duplicate(header, opcode, length);
        } else if (ahead > 0) {
            refuse(Frame.NOT_READY);
        } else if (offset > 0 && !message.continuedBy(header)) {
            fail(Frame.INVALID_REQUEST, QueuePair.EVENT_REQ_ERR);
        } else if (!Frame.reads(opcode) && Frame.offset(header) != offset) {
            refuse(Frame.NOT_READY);
        } else if (!known) {
            fail(Frame.INVALID_REQUEST, QueuePair.EVENT_REQ_ERR);
        } else if (Frame.reads(opcode)) {
            read(header, opcode, length);
        } else if (offset > 0 || begin(header, opcode, length)) {
            place(inbound, opcode);
        }
    }

    /** Each request of XRC names a queue, in whose protection domain it is executed. @return false: there is none */
    private boolean names(final long header) {
        named = device.sharedQueue(Frame.sharedQueue(header), qp.xrcDomain);
        qp.remoteDomain = named == null ? 0 : named.domain;
        return named != null;
    }

    /** The first frame of a SEND or WRITE. @return false: it was refused */
    private boolean begin(final long header, final int opcode, final long length) {
        message.begin(header);
        takesReceive = Frame.consumes(opcode);
        if (opcode == Frame.WRITE || opcode == Frame.WRITE_IMM) {
            if ((qp.access & MemoryRegions.REMOTE_WRITE) == 0) {
                fail(Frame.INVALID_REQUEST, QueuePair.EVENT_REQ_ERR);
                return false;
            }
            if (length > 0 && writeTo(header) == 0) {
                fail(Frame.ACCESS_ERROR, QueuePair.EVENT_ACCESS_ERR);
                return false;
            }
        }
        if (takesReceive && named != null) {
            qp.receives.from(named);
        }
        if (takesReceive && !qp.receives.presentOrAwaited()) {
            refuse(Frame.RNR);
            return false;
        }
        if (opcode == Frame.SEND_INV && !device.regions.invalidatable(Frame.rkey(header), qp)) {
            fail(Frame.ACCESS_ERROR, QueuePair.EVENT_ACCESS_ERR);
            return false;
        }
        if (Frame.sends(opcode)) {
            if (length > qp.receives.bytes()) {
                failReceive(CompletionQueue.LOC_LEN_ERR, Frame.INVALID_REQUEST);
                return false;
            }
            // Of a message in one frame it is found out when its place is looked up.
            if (Frame.payload(header) < length && !writable()) {
                failReceive(CompletionQueue.LOC_PROT_ERR, Frame.OPERATION_ERROR);
                return false;
            }
        }
        return true;
    }

    private void place(final Inbound inbound, final int opcode) {
        final int bytes = Frame.payload(inbound.header);
        if (Frame.sends(opcode)) {
            if (!scatter(inbound.target, offset, bytes)) {
                inbound.target.clear();
                failReceive(CompletionQueue.LOC_PROT_ERR, Frame.OPERATION_ERROR);
                return;
            }
        } else {
            // At every frame, for a key may be withdrawn in the midst of a message.
            final long to = bytes == 0 ? 0 : writeTo(inbound.header);
            if (bytes != 0 && to == 0) {
                fail(Frame.ACCESS_ERROR, QueuePair.EVENT_ACCESS_ERR);
                return;
            }
            inbound.target.add(to + offset, bytes);
        }
        inbound.accept(qp, true);
    }

    @Override
    public boolean allows(final long header) {
        return Frame.sends(Frame.opcode(header)) ? covers(offset, Frame.payload(header)) : writeTo(header) != 0;
    }

    @Override
    public void cut(final long header) {
        if (Frame.sends(Frame.opcode(header))) {
            failReceive(CompletionQueue.LOC_PROT_ERR, Frame.OPERATION_ERROR);
        } else {
            fail(Frame.ACCESS_ERROR, QueuePair.EVENT_ACCESS_ERR);
        }
    }

    @Override
    public void placed(final long header) {
        offset += Frame.payload(header);
        if (offset < Frame.length(header)) {
            return;
        }
        if (Frame.opcode(header) == Frame.SEND_INV) {
            device.regions.invalidate(Frame.rkey(header), qp);
        }
        if (takesReceive) {
            qp.completeReceive(header, link.peerId);
        }
        seen = expected;
        executed();
        ackDue = true;
        link.schedule(this);
    }

    private void executed() {
        expected++;
        offset = 0;
    }

    private void read(final long header, final int opcode, final long length) {
        final boolean atomic = Frame.atomic(opcode);
        final int needed = atomic ? MemoryRegions.REMOTE_ATOMIC : MemoryRegions.REMOTE_READ;
        if ((qp.access & needed) == 0 || answers.full()
                || atomic && (Frame.address(header) & 7) != 0) {
            fail(Frame.INVALID_REQUEST, QueuePair.EVENT_REQ_ERR);
            return;
        }
        final long from = length == 0 ? 0
                : device.regions.findRemote(qp, Frame.rkey(header), Frame.address(header), length, needed);
        if (length > 0 && from == 0 || atomic && ((from & 7) != 0 || !device.posix.mapped(from, 8))) {
            fail(Frame.ACCESS_ERROR, QueuePair.EVENT_ACCESS_ERR);
            return;
        }
        if (opcode == Frame.COMPARE_SWAP) {
            answers.addAtomic(expected, Memory.compareAndExchange(from, Frame.compareAdd(header), Frame.swap(header)));
        } else if (opcode == Frame.FETCH_ADD) {
            answers.addAtomic(expected, Memory.getAndAdd(from, Frame.compareAdd(header)));
        } else {
            answers.addRead(expected, qp.remoteDomain, header);
        }
        executed();
        link.schedule(this);
    }

    /** What was executed before: an acknowledgement was lost with its link. */
    private void duplicate(final long header, final int opcode, final long length) {
        if (!Frame.reads(opcode)) {
            if (Frame.offset(header) + Frame.payload(header) == length) {
                seen = Frame.sequence(header);
                ackDue = true;
            }
        } else if (Frame.atomic(opcode)) {
            if (!answers.again(Frame.sequence(header))) {
                refuse(Frame.NOT_READY);
            }
        } else {
            final long from = length == 0 ? 0 : device.regions.findRemote(qp, Frame.rkey(header),
                    Frame.address(header), length, MemoryRegions.REMOTE_READ);
            if ((qp.access & MemoryRegions.REMOTE_READ) == 0 || answers.full() || length > 0 && from == 0) {
                fail(Frame.ACCESS_ERROR, QueuePair.EVENT_ACCESS_ERR);
                return;
            }
            answers.addRead(Frame.sequence(header), qp.remoteDomain, header);
        }
        link.schedule(this);
    }

    private void refuse(final int code) {
        refused = true;
        nakDue = true;
        nakCode = code;
        link.schedule(this);
    }

    /** The peer's request is an error, which ends both queue pairs. */
    private void fail(final int code, final int event) {
        fail(code, event, expected);
    }

    private void fail(final int code, final int event, final int sequence) {
        final Link to = link;
        final int number = attempt;
        qp.event(event);
        qp.enter(QueuePair.ERR);
        to.nak(code, qp.peerNumber, qp.number, sequence, number);
    }

    /** The receive at the head cannot take the message. */
    private void failReceive(final int status, final int code) {
        final Link to = link;
        final int number = attempt;
        qp.failReceive(status);
        qp.enter(QueuePair.ERR);
        to.nak(code, qp.peerNumber, qp.number, expected, number);
    }

    @Override
    public void settle() {
        if (ackDue && link != null) {
            ackDue = false;
            link.nak(OrphanAcks.POSITIVE, qp.peerNumber, qp.number, seen, attempt);
        }
    }

    @Override
    public void acknowledgeWith(final Link over, final long header) {
        // Answers that are not sent yet come first.
        if (ackDue && link == over && !answers.unsent() && !nakDue) {
            ackDue = false;
            Frame.acknowledge(header, attempt, seen);
        }
    }

    @Override
    public void receivePosted() {
        if (qp.receives.arrived() && refused && link != null) {
            readyDue = true;
            link.schedule(this);
        }
    }

    @Override
    public void linkLost(final Link gone) {
        if (link == gone) {
            link = null;
            offset = 0;
            answers.forgetUnsent();
            ackDue = false;
            nakDue = false;
            readyDue = false;
        }
    }

    @Override
    public boolean fill(final Batch batch) {
        if (link == null) {
            return false;
        }
        if (answers.unsent() && !answers.allowed(qp)) {
            fail(Frame.ACCESS_ERROR, QueuePair.EVENT_ACCESS_ERR, answers.oldest());
            return false;
        }
        if (answers.unsent()) {
            answers.send(batch, qp, attempt);
        } else if (nakDue) {
            nakDue = false;
            ackDue = false;
            final long header = start(batch, Frame.NAK, nakCode, expected);
            if (nakCode == Frame.RNR) {
                Frame.timer(header, qp.minRnrTimer);
            }
        } else if (ackDue && qp.requester.carries(link)) {
            return true; // after a frame of its
        } else if (ackDue) {
            ackDue = false;
            start(batch, Frame.ACK, 0, seen);
        } else if (readyDue) {
            readyDue = false;
            start(batch, Frame.READY, 0, expected);
        }
        return answers.unsent() || nakDue || ackDue || readyDue;
    }

    private long start(final Batch batch, final int type, final int opcode, final int sequence) {
        final long header = batch.header();
        Frame.start(header, type, opcode, attempt, qp.peerNumber, qp.number, sequence);
        return header;
    }
}
