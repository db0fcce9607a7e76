// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/**
 * Of an unreliable connection: a message that cannot be taken (no receive, one that is too short, a key that is not good) is
 * dropped, and one of which the rest is lost, too. Nobody is told (IBTA volume 1, 9.8.3 and 9.9.3).
 */
final class UnreliableResponder extends Responder {
    /** The message at hand, how much of it is in place, and the memory that a WRITE goes to. */
    private int sequence;
    private long offset;
    private long writeTo;
    private boolean dropping = true;

    UnreliableResponder(final QueuePair qp) {
        super(qp);
    }

    @Override
    void reset() {
        link = null;
        dropping = true;
    }

    @Override
    void start() {
        reset();
    }

    @Override
    void request(final Link from, final Inbound inbound) {
        final long header = inbound.header;
        if (Frame.offset(header) == 0) {
            // Whatever was under way will not be complete any more.
            if (link != null && link != from) {
                link.inbound.abandon(qp);
            }
            link = from;
            sequence = Frame.sequence(header);
            offset = 0;
            dropping = !accepts(header);
        } else if (from != link || Frame.sequence(header) != sequence || Frame.offset(header) != offset) {
            dropping = true;
        }
        if (!dropping) {
            place(inbound);
        }
    }

    private boolean accepts(final long header) {
        final int opcode = Frame.opcode(header);
        final long length = Frame.length(header);
        if (!Frame.sends(opcode)) {
            if ((qp.access & MemoryRegions.REMOTE_WRITE) == 0) {
                return false;
            }
            writeTo = length == 0 ? 0 : device.regions.findRemote(qp, Frame.rkey(header), Frame.address(header), length,
                    MemoryRegions.REMOTE_WRITE);
            if (length != 0 && writeTo == 0) {
                return false;
            }
        }
        if (Frame.consumes(opcode) && !qp.receives.present()) {
            return false;
        }
        return !Frame.sends(opcode) || length <= qp.receives.bytes()
                && (opcode != Frame.SEND_INV || device.regions.invalidatable(Frame.rkey(header), qp));
    }

    private void place(final Inbound inbound) {
        final int bytes = Frame.payload(inbound.header);
        if (!Frame.sends(Frame.opcode(inbound.header))) {
            inbound.target.add(writeTo + offset, bytes);
        } else if (!writable() || !scatter(inbound.target, offset, bytes)) {
            inbound.target.clear();
            qp.failReceive(CompletionQueue.LOC_PROT_ERR);
            qp.enter(QueuePair.ERR);
            return;
        }
        inbound.accept(qp, true);
    }

    @Override
    void placed(final long header) {
        offset += Frame.payload(header);
        if (offset < Frame.length(header)) {
            return;
        }
        dropping = true; // until the next begins
        if (Frame.opcode(header) == Frame.SEND_INV) {
            device.regions.invalidate(Frame.rkey(header), qp);
        }
        if (Frame.consumes(Frame.opcode(header))) {
            qp.completeReceive(header, link.peerId);
        }
    }

    @Override
    void linkLost(final Link gone) {
        if (link == gone) {
            reset();
        }
    }
}
