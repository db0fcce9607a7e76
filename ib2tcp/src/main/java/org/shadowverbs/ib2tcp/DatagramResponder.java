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
        final long header = inbound.header;
        final int bytes = Frame.payload(header);
        if (Frame.rkey(header) != qp.qkey || !qp.receives.present()) {
            return;
        }
        if (bytes + GlobalRoute.SIZE > qp.receives.bytes()) {
            qp.receives.reset(); // who shares the queue may have a use for it
            return;
        }
        link = from;
        if (!writable() || !scatter(inbound, 0, GlobalRoute.SIZE)) {
            fail(inbound);
            return;
        }
        GlobalRoute.write(inbound.route, Frame.opcode(header), bytes, from);
        inbound.target.fill(inbound.route, GlobalRoute.SIZE);
        if (!scatter(inbound, GlobalRoute.SIZE, bytes)) {
            fail(inbound);
            return;
        }
        inbound.accept(qp, true);
    }

    private void fail(final Inbound inbound) {
        inbound.target.clear();
        qp.failReceive(CompletionQueue.LOC_PROT_ERR);
        qp.enter(QueuePair.ERR);
    }

    @Override
    void placed(final long header) {
        qp.completeReceive(header, link);
    }

    @Override
    void linkLost(final Link gone) {
        if (link == gone) {
            reset();
        }
    }
}
