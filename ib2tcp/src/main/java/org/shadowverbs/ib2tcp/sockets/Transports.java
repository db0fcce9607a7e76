// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.Requester;
import org.shadowverbs.ib2tcp.engine.Responder;
import org.shadowverbs.ib2tcp.reliable.ReliableRequester;
import org.shadowverbs.ib2tcp.reliable.ReliableResponder;
import org.shadowverbs.ib2tcp.unreliable.DatagramResponder;
import org.shadowverbs.ib2tcp.unreliable.UnreliableRequester;
import org.shadowverbs.ib2tcp.unreliable.UnreliableResponder;

/** Which halves a queue pair has: those of its transport. */
final class Transports {
    private Transports() {
    }

    static Requester requester(final QueuePair qp) {
        return qp.reliable() ? new ReliableRequester(qp) : new UnreliableRequester(qp);
    }

    static Responder responder(final QueuePair qp) {
        if (qp.reliable()) {
            return new ReliableResponder(qp);
        }
        return qp.type == QueuePair.UC ? new UnreliableResponder(qp) : new DatagramResponder(qp);
    }
}
