// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.unreliable;

import org.shadowverbs.ib2tcp.engine.Inbound;
import org.shadowverbs.ib2tcp.engine.Link;
import org.shadowverbs.ib2tcp.engine.MemoryRegions;
import org.shadowverbs.ib2tcp.engine.Message;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.Responder;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.wire.Frame;

/**
 * The responder of an unreliable connection. It drops a message that it cannot take (no receive, one that is too short, a bad
 * key), and one whose rest is lost, and tells nobody (IBTA volume 1, 9.8.3 and 9.9.3).
 */
public final class UnreliableResponder extends Responder {
    /** The message at hand, and how much of it is in place. */
    private int sequence;
    private long offset;
    private final Message message = new Message();
    private boolean dropping = true;

    public UnreliableResponder(final QueuePair qp) {
        super(qp);
    }

    @Override
    public void reset() {
        link = null;
        dropping = true;
    }

    @Override
    public void start() {
        reset();
    }

    @Override
    public void request(final Link from, final Inbound inbound) {
        final long header = inbound.header;
        if (Frame.offset(header) == 0) {
            // Whatever was under way will not be complete any more.
            if (link != null && link != from) {
                link.inbound.abandon(qp);
            }
            link = from;
            sequence = Frame.sequence(header);
            offset = 0;
            message.begin(header);
            dropping = !accepts(header);
        } else if (from != link || Frame.sequence(header) != sequence || Frame.offset(header) != offset
                || !message.continuedBy(header)) {
            dropping = true;
        }
        if (!dropping) {
            place(inbound);
        }
    }

    private boolean accepts(final long header) {
        final int opcode = Frame.opcode(header);
        final long length = Frame.length(header);
        if (!Frame.sends(opcode) && ((qp.access & MemoryRegions.REMOTE_WRITE) == 0 || length != 0 && writeTo(header) == 0)) {
            return false;
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
            final long to = bytes == 0 ? 0 : writeTo(inbound.header);
            if (bytes != 0 && to == 0) {
                dropping = true;
                return;
            }
            inbound.target.add(to + offset, bytes);
        } else if (!writable() || !scatter(inbound.target, offset, bytes)) {
            inbound.target.clear();
            failReceive();
            return;
        }
        inbound.accept(qp, true);
    }

    private void failReceive() {
        qp.failReceive(CompletionQueue.LOC_PROT_ERR);
        qp.enter(QueuePair.ERR);
    }

    @Override
    public boolean allows(final long header) {
        return Frame.sends(Frame.opcode(header)) ? covers(offset, Frame.payload(header)) : writeTo(header) != 0;
    }

    @Override
    public void cut(final long header) {
        if (Frame.sends(Frame.opcode(header))) {
            failReceive();
        } else {
            dropping = true;
        }
    }

    @Override
    public void placed(final long header) {
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
    public void linkLost(final Link gone) {
        if (link == gone) {
            reset();
        }
    }
}
