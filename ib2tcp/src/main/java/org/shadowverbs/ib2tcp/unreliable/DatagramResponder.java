// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.unreliable;

import org.shadowverbs.ib2tcp.engine.Inbound;
import org.shadowverbs.ib2tcp.engine.Link;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.Responder;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.GlobalRoute;

/** Takes datagrams from anybody who knows the Q_Key. One that cannot be taken is dropped, and nobody is told. */
public final class DatagramResponder extends Responder {
    public DatagramResponder(final QueuePair qp) {
        super(qp);
    }

    @Override
    public void reset() {
        link = null;
    }

    @Override
    public void start() {
        reset();
    }

    @Override
    public void request(final Link from, final Inbound inbound) {
        if (takes(inbound.header, inbound.target, inbound.route, from.peerPrefix, from.peerId, device.gidPrefix(),
                device.gidInterface())) {
            link = from;
            inbound.accept(qp, true);
        }
    }

    @Override
    public void deliver(final long header, final long payload, final Vectors target, final long route, final long fromPrefix,
            final long fromId, final long toPrefix, final long toId) {
        if (takes(header, target, route, fromPrefix, fromId, toPrefix, toId)) {
            target.fill(payload, Frame.payload(header));
            qp.completeReceive(header, fromId);
        }
    }

    /** Writes the route header, and says where the payload goes. @return false: it is dropped */
    private boolean takes(final long header, final Vectors target, final long route, final long fromPrefix,
            final long fromId, final long toPrefix, final long toId) {
        final int bytes = Frame.payload(header);
        if (Frame.rkey(header) != qp.qkey || !qp.receives.present()) {
            return false;
        }
        if (bytes + GlobalRoute.SIZE > qp.receives.bytes()) {
            qp.receives.reset(); // who shares the queue may have a use for it
            return false;
        }
        if (!writable() || !scatter(target, 0, GlobalRoute.SIZE)) {
            return fail(target);
        }
        GlobalRoute.write(route, Frame.opcode(header), bytes, fromPrefix, fromId, toPrefix, toId);
        target.fill(route, GlobalRoute.SIZE);
        return scatter(target, GlobalRoute.SIZE, bytes) || fail(target);
    }

    private boolean fail(final Vectors target) {
        target.clear();
        qp.failReceive(CompletionQueue.LOC_PROT_ERR);
        qp.enter(QueuePair.ERR);
        return false;
    }

    @Override
    public void placed(final long header) {
        qp.completeReceive(header, link.peerId);
    }

    // All of a datagram is there before it is begun, so nothing comes in between.

    @Override
    public void cut(final long header) {
        throw new IllegalStateException("a datagram is in place at once");
    }

    @Override
    public boolean allows(final long header) {
        return true;
    }

    @Override
    public void linkLost(final Link gone) {
        if (link == gone) {
            reset();
        }
    }
}
