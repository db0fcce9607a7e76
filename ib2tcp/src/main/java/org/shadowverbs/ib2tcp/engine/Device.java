// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import java.util.ArrayList;
import org.shadowverbs.ib2tcp.queue.DoorbellListener;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** The protocol engine of one process: its queue pairs, memory regions and links. All of it belongs to one thread at a time. */
public abstract class Device {
    /** The low bits of a queue pair's number: its bit in the doorbell. */
    private static final int BELL_BITS = 16;

    public final Posix posix;
    public final MemoryRegions regions;
    public final Multicast multicast;
    public final Timers timers = new Timers();
    public final ArrayList<Link> links = new ArrayList<Link>();
    /** The lid of the port, which datagrams carry; 0: it has none. */
    public volatile int lid;
    private DoorbellListener[] byBell = new DoorbellListener[64];
    private int nextBell;
    private int numberBase;

    public Device(final Posix posix, final String secret) {
        this.posix = posix;
        this.multicast = new Multicast(this, secret);
        this.regions = new MemoryRegions(this);
    }

    /**
     * The uppermost 8 bits of all queue pair numbers; before the first is made.
     *
     * @param range from 0 to 254: the last one has the number that stands for multicast
     */
    public final void numbersFrom(final int range) {
        numberBase = range << BELL_BITS;
    }

    /** All numbers are this one and the bit in the doorbell. */
    public final int numberBase() {
        return numberBase;
    }

    /** The half of a new queue pair that executes its send requests: by its transport. */
    public abstract Requester requester(QueuePair qp);

    /** The half of a new queue pair that executes what the peer sends: by its transport. */
    public abstract Responder responder(QueuePair qp);

    public abstract long gidPrefix();

    public abstract long gidInterface();

    /** Nanoseconds. */
    public abstract long now();

    /** Begins a connection to a process. @return null: there is none to be had now */
    public abstract Link connect(long prefix, long id);

    /** To all processes; made once. */
    public abstract MulticastWay multicastWay();

    /** One line for the user. */
    public abstract void say(String line);

    /** The link to a process, made when there is none. */
    public final Link link(final long prefix, final long id) {
        for (int i = 0; i < links.size(); i++) {
            final Link link = links.get(i);
            if (link.peerId == id && link.peerPrefix == prefix && !link.lost) {
                return link;
            }
        }
        return connect(prefix, id);
    }

    /** Bells go round, so that the number of a queue pair which has just ended is not soon used again; 0 and 1 are special. */
    public final int newBell() {
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

    public final void add(final int bell, final DoorbellListener object) {
        byBell[bell] = object;
    }

    public final void remove(final int bell) {
        byBell[bell] = null;
    }

    public final void remove(final QueuePair qp) {
        qp.enter(QueuePair.RESET);
        remove(qp.bell);
    }

    /** The number of the queue pair, or of the shared receive queue of XRC, with that bell. */
    public final int number(final int bell) {
        return numberBase | bell;
    }

    /** The queue pair of that number, or null. */
    public final QueuePair queuePair(final int number) {
        return (number & -1 << BELL_BITS) == numberBase ? queuePairAt(number - numberBase) : null;
    }

    /** The queue pair with that bell, or null. */
    public final QueuePair queuePairAt(final int bell) {
        return bell < byBell.length && byBell[bell] instanceof QueuePair ? (QueuePair) byBell[bell] : null;
    }

    /** The shared receive queue of that number in a domain of XRC, or null. */
    public final SharedQueue sharedQueue(final int number, final int xrcDomain) {
        final int bell = number - numberBase;
        return bell >= 0 && bell < byBell.length && byBell[bell] instanceof SharedQueue
                && ((SharedQueue) byBell[bell]).xrcDomain == xrcDomain ? (SharedQueue) byBell[bell] : null;
    }

    /** One past the highest bell in use so far. */
    public final int bells() {
        return byBell.length;
    }

    /** A bit of the doorbell was set. */
    public final void onDoorbell(final int bell) {
        if (bell < byBell.length && byBell[bell] != null) {
            byBell[bell].onDoorbell();
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

    /**
     * A key of that memory is good for nothing any more, and its owner may do with it what he likes from now on. A frame that is
     * being received by that key goes nowhere, and is refused when all of it has come. What is on its way out is sent as it is now.
     */
    final void withdrawn(final long address, final long bytes) {
        for (int i = 0; i < links.size(); i++) {
            final Link link = links.get(i);
            link.inbound.withdrawn();
            if (link.batch.holds(address, bytes)) {
                link.batch.detach();
            }
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

    /** An XRC shared receive queue ends. A queue pair with an unfinished message for it goes into the error state. */
    public final void forget(final SharedQueue queue) {
        for (int i = 0; i < byBell.length; i++) {
            final QueuePair qp = queuePairAt(i);
            if (qp != null && qp.xrcDomain == queue.xrcDomain && qp.receives.leave(queue)) {
                qp.enter(QueuePair.ERR);
            }
        }
    }

    /** As {@link #forget(QueuePair)}, of its send requests. */
    public final void forgetSends(final QueuePair qp) {
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
    public final void lost(final Link link) {
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
