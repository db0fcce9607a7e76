// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/** The half of a queue pair that executes what the peer sends. */
abstract class Responder extends Sender {
    final QueuePair qp;
    final Device device;
    Link link;

    Responder(final QueuePair qp) {
        this.qp = qp;
        this.device = qp.device;
    }

    /** Forgets what is under way: the queue pair goes to RESET. */
    abstract void reset();

    /** The queue pair has come to RTR. */
    abstract void start();

    /** A request's frame; tells the link where its payload goes. Without, it goes nowhere. */
    abstract void request(Link from, Inbound inbound);

    /** The payload of a frame is in place. */
    abstract void placed(long header);

    /** The queue pair is about to end: what its owner has seen of the peer's requests is still acknowledged. */
    void settle() {
        // Only a reliable connection acknowledges.
    }

    /** A request's frame is on its way to the peer: an acknowledgement that is due goes with it. */
    void acknowledgeWith(final Link over, final long header) {
        // As above.
    }

    /** A receive has been posted that may have been waited for. */
    void receivePosted() {
        // Only a reliable connection waits.
    }

    abstract void linkLost(Link gone);

    final boolean uses(final Link other) {
        return link == other;
    }

    @Override
    boolean fill(final Batch batch) {
        throw new IllegalStateException("this responder has nothing to say");
    }

    /** The memory of the receive at hand that bytes of a message go to. @return false: a key does not allow it */
    final boolean scatter(final Vectors target, final long from, final long bytes) {
        final Receives receives = qp.receives;
        return device.regions.slice(target, receives.sges(), receives.sgeCount(), receives.domain(),
                MemoryRegions.LOCAL_WRITE, from, bytes);
    }

    /** Whether the keys of the receive at hand allow it to be written to. */
    final boolean writable() {
        final Receives receives = qp.receives;
        return device.regions.allow(receives.sges(), receives.sgeCount(), receives.domain(), MemoryRegions.LOCAL_WRITE);
    }
}
