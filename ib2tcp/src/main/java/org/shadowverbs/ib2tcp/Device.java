// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import java.util.ArrayList;

/** The protocol engine of one process: its queue pairs, memory regions and links. All of it belongs to one thread at a time. */
abstract class Device {
    /** Of the number of a queue pair: its bit in the doorbell. */
    private static final int BELL_BITS = 16;

    final Posix posix;
    final MemoryRegions regions;
    final Multicast multicast;
    final Timers timers = new Timers();
    final ArrayList<Link> links = new ArrayList<Link>();
    private Rung[] byBell = new Rung[64];
    private int nextBell;
    private int numberBase;

    Device(final Posix posix, final String secret) {
        this.posix = posix;
        this.multicast = new Multicast(this, secret);
        this.regions = new MemoryRegions(posix);
    }

    /** The uppermost 7 bits of all queue pair numbers, so that those of two processes are seldom equal. */
    final void numbersFrom(final int random) {
        numberBase = (random & 0x7f) << BELL_BITS;
    }

    abstract long gidPrefix();

    abstract long gidInterface();

    /** Nanoseconds. */
    abstract long now();

    /** Begins a connection to a process. @return null: there is none to be had now */
    abstract Link connect(long prefix, long id);

    /** To all processes; made once. */
    abstract MulticastWay multicastWay();

    /** One line for the user. */
    abstract void say(String line);

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

    /** Bells go round, so that the number of a queue pair which has just ended is not soon used again; 0 and 1 are special. */
    final int newBell() {
        for (int tries = 0; tries < byBell.length; tries++) {
            final int bell = nextBell++ & byBell.length - 1;
            if (bell > 1 && byBell[bell] == null) {
                return bell;
            }
        }
        if (byBell.length >= Limits.BELLS) {
            throw new DeviceException(Posix.ENOMEM, "create more queue pairs and shared receive queues");
        }
        nextBell = byBell.length;
        byBell = java.util.Arrays.copyOf(byBell, byBell.length * 2);
        return newBell();
    }

    final void add(final int bell, final Rung object) {
        byBell[bell] = object;
    }

    final void remove(final int bell) {
        byBell[bell] = null;
    }

    final void remove(final QueuePair qp) {
        qp.enter(QueuePair.RESET);
        remove(qp.bell);
    }

    /** The number of the queue pair, or of the shared receive queue of XRC, with that bell. */
    final int number(final int bell) {
        return numberBase | bell;
    }

    /** The queue pair of that number, or null. */
    final QueuePair queuePair(final int number) {
        return (number & -1 << BELL_BITS) == numberBase ? queuePairAt(number - numberBase) : null;
    }

    /** The queue pair with that bell, or null. */
    final QueuePair queuePairAt(final int bell) {
        return bell < byBell.length && byBell[bell] instanceof QueuePair ? (QueuePair) byBell[bell] : null;
    }

    /** The shared receive queue of that number in a domain of XRC, or null. */
    final SharedQueue sharedQueue(final int number, final int xrcDomain) {
        final int bell = number - numberBase;
        return bell >= 0 && bell < byBell.length && byBell[bell] instanceof SharedQueue
                && ((SharedQueue) byBell[bell]).xrcDomain == xrcDomain ? (SharedQueue) byBell[bell] : null;
    }

    /** One past the highest bell in use so far. */
    final int bells() {
        return byBell.length;
    }

    /** A bit of the doorbell was set. */
    final void rung(final int bell) {
        if (bell < byBell.length && byBell[bell] != null) {
            byBell[bell].rung();
        }
    }

    /** Gives a frame that has come to whom it concerns. */
    final void dispatch(final Link link, final Inbound inbound) throws ProtocolException {
        final long header = inbound.header;
        final QueuePair qp = queuePair(Frame.destination(header));
        final boolean known = qp != null && qp.peerNumber == Frame.source(header) && qp.peerId == link.peerId
                && qp.peerPrefix == link.peerPrefix;
        switch (Frame.type(header)) {
            case Frame.REQUEST:
                if (Frame.acknowledges(header) && known && qp.type == QueuePair.RC && qp.requester.sends()) {
                    qp.requester.acknowledged(link, header);
                }
                if (known && (qp.type == QueuePair.RC || qp.type == QueuePair.XRC_RECV) && qp.receives()) {
                    qp.responder.request(link, inbound);
                } else {
                    link.nak(Frame.NOT_READY, header);
                }
                break;
            case Frame.UNACKNOWLEDGED:
                if (known && qp.type == QueuePair.UC && qp.receives()) {
                    qp.responder.request(link, inbound);
                }
                break;
            case Frame.DATAGRAM:
                if (qp != null && qp.type == QueuePair.UD && qp.receives()) {
                    qp.responder.request(link, inbound);
                }
                break;
            default:
                if (known && (qp.type == QueuePair.RC || qp.type == QueuePair.XRC_SEND) && qp.requester.sends()) {
                    qp.requester.answer(link, inbound);
                }
                break;
        }
    }

    /** A queue pair ends: its memory is out of every link after this. */
    final void forget(final QueuePair qp) {
        qp.responder.settle();
        for (int i = 0; i < links.size(); i++) {
            final Link link = links.get(i);
            link.inbound.forget(qp);
            link.remove(qp.responder);
            if (qp.responder.uses(link)) {
                link.batch.detach();
            }
        }
        forgetSends(qp);
    }

    /** A shared receive queue of XRC ends. A queue pair in the midst of a message for it ends in the error state. */
    final void forget(final SharedQueue queue) {
        for (int i = 0; i < byBell.length; i++) {
            final QueuePair qp = queuePairAt(i);
            if (qp != null && qp.xrcDomain == queue.xrcDomain && qp.receives.leave(queue)) {
                qp.enter(QueuePair.ERR);
            }
        }
    }

    /** As {@link #forget(QueuePair)}, of its send requests. */
    final void forgetSends(final QueuePair qp) {
        for (int i = 0; i < links.size(); i++) {
            final Link link = links.get(i);
            link.remove(qp.requester);
            if (qp.requester.uses(link)) {
                link.batch.detach();
                qp.requester.detached(link.batch);
            }
        }
    }

    /** A link is gone: who used it finds another way or fails. */
    final void lost(final Link link) {
        link.lost = true;
        links.remove(link);
        link.empty();
        link.batch.clear();
        for (int i = 0; i < byBell.length; i++) {
            final QueuePair qp = queuePairAt(i);
            if (qp != null) {
                qp.responder.linkLost(link);
                qp.requester.linkLost(link);
            }
        }
    }
}
