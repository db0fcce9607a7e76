// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/** Takes datagrams from anybody who knows the Q_Key. One that cannot be taken is dropped, and nobody is told. */
final class DatagramResponder extends Responder {
    DatagramResponder(final QueuePair qp) {
        super(qp);
    }

    @Override
    void reset() {
        link = null;
    }

    @Override
    void start() {
        reset();
    }

    @Override
    void request(final Link from, final Inbound inbound) {
        if (takes(inbound.header, inbound.target, inbound.route, from.peerPrefix, from.peerId, device.gidPrefix(),
                device.gidInterface())) {
            link = from;
            inbound.accept(qp, true);
        }
    }

    /** A datagram to a group, whose payload lies there. Target and route are memory to work with. */
    void deliver(final long header, final long payload, final Vectors target, final long route, final long fromPrefix,
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
    void placed(final long header) {
        qp.completeReceive(header, link.peerId);
    }

    @Override
    void linkLost(final Link gone) {
        if (link == gone) {
            reset();
        }
    }
}
