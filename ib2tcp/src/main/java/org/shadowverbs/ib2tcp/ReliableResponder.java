// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/**
 * Of a reliable connection or of XRC: executes each request once, in order of their sequence numbers, whatever is sent again. Answers
 * go over the link that the request came by.
 */
final class ReliableResponder extends Responder {
    private static final int FIRST_ATTEMPT = -1;

    private int attempt = FIRST_ATTEMPT;
    /** The next request, how much of it is in place, and the memory that a WRITE goes to. */
    private int expected;
    private long offset;
    private long writeTo;
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

    ReliableResponder(final QueuePair qp) {
        super(qp);
    }

    @Override
    void reset() {
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
    void start() {
        reset();
        expected = qp.recvSequence;
        answers = new Answers(qp.maxPeerReads);
    }

    @Override
    void request(final Link from, final Inbound inbound) {
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
        } else if (ahead > 0 || !Frame.reads(opcode) && Frame.offset(header) != offset) {
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
        takesReceive = Frame.consumes(opcode);
        if (opcode == Frame.WRITE || opcode == Frame.WRITE_IMM) {
            if ((qp.access & MemoryRegions.REMOTE_WRITE) == 0) {
                fail(Frame.INVALID_REQUEST, QueuePair.EVENT_REQ_ERR);
                return false;
            }
            writeTo = 0;
            if (length > 0) {
                writeTo = device.regions.findRemote(qp, Frame.rkey(header), Frame.address(header), length,
                        MemoryRegions.REMOTE_WRITE);
                if (writeTo == 0) {
                    fail(Frame.ACCESS_ERROR, QueuePair.EVENT_ACCESS_ERR);
                    return false;
                }
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
            inbound.target.add(writeTo + offset, bytes);
        }
        inbound.accept(qp, true);
    }

    @Override
    void placed(final long header) {
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
        long from = 0;
        if (length > 0) {
            from = device.regions.findRemote(qp, Frame.rkey(header), Frame.address(header), length, needed);
            if (from == 0 || atomic && ((from & 7) != 0 || !device.posix.mapped(from, 8))) {
                fail(Frame.ACCESS_ERROR, QueuePair.EVENT_ACCESS_ERR);
                return;
            }
        }
        if (opcode == Frame.COMPARE_SWAP) {
            from = Memory.compareAndExchange(from, Frame.compareAdd(header), Frame.swap(header));
        } else if (opcode == Frame.FETCH_ADD) {
            from = Memory.getAndAdd(from, Frame.compareAdd(header));
        }
        answers.add(expected, atomic, from, length);
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
            if (answers.full() || length > 0 && from == 0) {
                fail(Frame.ACCESS_ERROR, QueuePair.EVENT_ACCESS_ERR);
                return;
            }
            answers.add(Frame.sequence(header), false, from, length);
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
        final Link to = link;
        final int number = attempt;
        qp.event(event);
        qp.enter(QueuePair.ERR);
        to.nak(code, qp.peerNumber, qp.number, expected, number);
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
    void settle() {
        if (ackDue && link != null) {
            ackDue = false;
            link.nak(Strays.POSITIVE, qp.peerNumber, qp.number, seen, attempt);
        }
    }

    @Override
    void acknowledgeWith(final Link over, final long header) {
        // Answers that are not sent yet come first.
        if (ackDue && link == over && !answers.unsent() && !nakDue) {
            ackDue = false;
            Frame.acknowledge(header, attempt, seen);
        }
    }

    @Override
    void receivePosted() {
        if (qp.receives.arrived() && refused && link != null) {
            readyDue = true;
            link.schedule(this);
        }
    }

    @Override
    void linkLost(final Link gone) {
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
    boolean fill(final Batch batch) {
        if (link == null) {
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
