// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import java.util.ArrayList;

/** The protocol engine of one process: its queue pairs, memory regions and links. All of it belongs to one thread. */
abstract class Device {
    final Posix posix;
    final MemoryRegions regions = new MemoryRegions();
    final Timers timers = new Timers();
    final ArrayList<Link> links = new ArrayList<Link>();
    private QueuePair[] byNumber = new QueuePair[64];
    private int numbers;

    Device(final Posix posix) {
        this.posix = posix;
    }

    /** Nanoseconds. */
    abstract long now();

    /** Begins a connection to a process. @return null: there is none to be had now */
    abstract Link connect(long prefix, long id);

    /** The link to a process, made when there is none. */
    final Link link(final long prefix, final long id) {
        for (int i = 0; i < links.size(); i++) {
            final Link link = links.get(i);
            if (link.peerId == id && link.peerPrefix == prefix && !link.lost) {
                return link;
            }
        }
        return connect(prefix, id);
    }

    /** Queue pair numbers go round, so that one which has just ended is not soon used again; 0 and 1 are special. */
    final int newNumber() {
        for (int tries = 0; tries < byNumber.length; tries++) {
            final int number = numbers++ & byNumber.length - 1;
            if (number > 1 && byNumber[number] == null) {
                return number;
            }
        }
        if (byNumber.length >= TcpVerbs.MAX_QP) {
            throw new DeviceException(Posix.ENOMEM, "create more than " + TcpVerbs.MAX_QP + " queue pairs");
        }
        numbers = byNumber.length;
        byNumber = java.util.Arrays.copyOf(byNumber, byNumber.length * 2);
        return newNumber();
    }

    final void add(final QueuePair qp) {
        byNumber[qp.number] = qp;
    }

    final void remove(final QueuePair qp) {
        qp.enter(QueuePair.RESET);
        byNumber[qp.number] = null;
    }

    /** The queue pair of that number, or null. */
    final QueuePair queuePair(final int number) {
        return number < byNumber.length ? byNumber[number] : null;
    }

    /** One past the highest number in use so far. */
    final int numbersInUse() {
        return byNumber.length;
    }

    /** Gives a frame that has come to whom it concerns. */
    final void dispatch(final Link link, final Inbound inbound) throws ProtocolException {
        final long header = inbound.header;
        final QueuePair qp = queuePair(Frame.destination(header));
        final boolean known = qp != null && qp.peerNumber == Frame.source(header) && qp.peerId == link.peerId
                && qp.peerPrefix == link.peerPrefix;
        if (Frame.type(header) == Frame.REQUEST) {
            if (known && qp.receives()) {
                qp.responder.request(link, inbound);
            } else {
                link.nak(Frame.NOT_READY, header);
            }
        } else if (known && (qp.state == QueuePair.RTS || qp.state == QueuePair.SQD)) {
            qp.requester.answer(link, inbound);
        }
    }

    /** A queue pair ends: its memory is out of every link after this. */
    final void forget(final QueuePair qp) {
        for (int i = 0; i < links.size(); i++) {
            final Link link = links.get(i);
            link.inbound.forget(qp);
            link.remove(qp.requester);
            link.remove(qp.responder);
            if (qp.requester.uses(link) || qp.responder.uses(link)) {
                link.batch.detach();
            }
        }
    }

    /** A link is gone: who used it finds another way or fails. */
    final void lost(final Link link) {
        link.lost = true;
        links.remove(link);
        link.empty();
        for (int i = 0; i < byNumber.length; i++) {
            final QueuePair qp = byNumber[i];
            if (qp != null) {
                qp.responder.linkLost(link);
                qp.requester.linkLost(link);
            }
        }
    }
}
