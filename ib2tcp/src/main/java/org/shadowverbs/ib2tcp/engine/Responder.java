// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.wire.Frame;

/** The half of a queue pair that executes what the peer sends. */
public abstract class Responder extends Sender {
    public final QueuePair qp;
    public final Device device;
    public Link link;

    public Responder(final QueuePair qp) {
        this.qp = qp;
        this.device = qp.device;
    }

    /** Forgets what is under way: the queue pair goes to RESET. */
    public abstract void reset();

    /** The queue pair has come to RTR. */
    public abstract void start();

    /** A request's frame; tells the link where its payload goes. Without, it goes nowhere. */
    public abstract void request(Link from, Inbound inbound);

    /** A datagram to a group, whose payload lies there. Target and route are memory to work with. */
    public void deliver(final long header, final long payload, final Vectors target, final long route, final long fromPrefix,
            final long fromId, final long toPrefix, final long toId) {
        throw new IllegalStateException("this responder takes no datagrams");
    }

    /** The payload of a frame is in place. */
    public abstract void placed(long header);

    /** A key that a frame's payload went by has been withdrawn before all of it was in place. */
    public abstract void cut(long header);

    /** Whether the frame that is being received may still be written to where it belongs. */
    public abstract boolean allows(long header);

    /** The queue pair is about to end: what its owner has seen of the peer's requests is still acknowledged. */
    public void settle() {
        // Only a reliable connection acknowledges.
    }

    /** A request's frame is on its way to the peer: an acknowledgement that is due goes with it. */
    public void acknowledgeWith(final Link over, final long header) {
        // As above.
    }

    /** A receive has been posted that may have been waited for. */
    public void receivePosted() {
        // Only a reliable connection waits.
    }

    public abstract void linkLost(Link gone);

    final boolean uses(final Link other) {
        return link == other;
    }

    @Override
    public boolean fill(final Batch batch) {
        throw new IllegalStateException("this responder has nothing to say");
    }

    /** Where the bytes of a WRITE begin; to be asked for each frame. @return 0: the peer may not write there (any more) */
    public final long writeTo(final long header) {
        return (qp.access & MemoryRegions.REMOTE_WRITE) == 0 ? 0 : device.regions.findRemote(qp, Frame.rkey(header),
                Frame.address(header), Frame.length(header), MemoryRegions.REMOTE_WRITE);
    }

    /** Whether bytes of a message may still be written to the receive at hand. */
    public final boolean covers(final long from, final long bytes) {
        final Receives receives = qp.receives;
        return device.regions.covers(receives.sges(), receives.sgeCount(), receives.domain(), MemoryRegions.LOCAL_WRITE, from,
                bytes);
    }

    /** The memory of the receive at hand that bytes of a message go to. @return false: a key does not allow it */
    public final boolean scatter(final Vectors target, final long from, final long bytes) {
        final Receives receives = qp.receives;
        return device.regions.slice(target, receives.sges(), receives.sgeCount(), receives.domain(),
                MemoryRegions.LOCAL_WRITE, from, bytes);
    }

    /** Whether the keys of the receive at hand allow it to be written to. */
    public final boolean writable() {
        final Receives receives = qp.receives;
        return device.regions.allow(receives.sges(), receives.sgeCount(), receives.domain(), MemoryRegions.LOCAL_WRITE);
    }
}
