// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import org.shadowverbs.ib2tcp.wire.Frame;

/**
 * A way to one peer process: in order and reliable while it lasts, and gone for good when it breaks. What the protocol
 * needs of it is here; sockets are in {@link org.shadowverbs.ib2tcp.sockets.TcpLink}, and tests have a simulated one.
 */
public abstract class Link {
    public final Device device;
    public final Batch batch;
    public final Inbound inbound;
    /** The peer's GID. */
    public long peerPrefix;
    public long peerId;
    public boolean lost;
    /** Something has been sent over it. */
    public boolean carried;
    /** A datagram has waited for it in vain, and nothing has moved since. */
    public boolean stalled;
    private Sender first;
    private Sender last;
    private final OrphanAcks orphanAcks = new OrphanAcks();

    public Link(final Device device) {
        this.device = device;
        this.batch = new Batch(device.posix);
        this.inbound = new Inbound(device, this);
    }

    /** There is something to send. */
    public abstract void wake();

    /** Whether nothing can be written yet: it is being made, or the peer does not read. */
    public abstract boolean waits();

    public final void schedule(final Sender sender) {
        if (sender.queued || lost) {
            return;
        }
        append(sender);
        wake();
    }

    private void append(final Sender sender) {
        sender.queued = true;
        sender.next = null;
        if (last == null) {
            first = sender;
        } else {
            last.next = sender;
        }
        last = sender;
    }

    /** Fills the batch, which must be empty. @return whether there is anything in it */
    public final boolean fill() {
        stalled = false;
        while (first != null && batch.room()) {
            final Sender sender = first;
            first = sender.next;
            if (first == null) {
                last = null;
            }
            sender.queued = false;
            if (sender.fill(batch)) {
                append(sender);
            }
        }
        carried |= !batch.isEmpty();
        return !batch.isEmpty();
    }

    public final boolean idle() {
        return first == null && batch.isEmpty();
    }

    /** A negative acknowledgement from no queue pair, or from one that may be gone before it is sent. */
    final void nak(final int code, final long request) {
        orphanAcks.add(code, Frame.source(request), Frame.destination(request), Frame.sequence(request),
                Frame.attempt(request));
        schedule(orphanAcks);
    }

    public final void nak(final int code, final int to, final int from, final int sequence, final int attempt) {
        orphanAcks.add(code, to, from, sequence, attempt);
        schedule(orphanAcks);
    }

    /** It has nothing to send over this link any more. */
    public final void remove(final Sender sender) {
        if (!sender.queued) {
            return;
        }
        Sender before = null;
        for (Sender s = first; s != null; before = s, s = s.next) {
            if (s != sender) {
                continue;
            }
            if (before == null) {
                first = s.next;
            } else {
                before.next = s.next;
            }
            if (last == s) {
                last = before;
            }
            s.queued = false;
            return;
        }
    }

    /** The way is gone: nobody is in its queue any more. */
    final void empty() {
        while (first != null) {
            first.queued = false;
            first = first.next;
        }
        last = null;
    }

    public final void free() {
        batch.free();
        inbound.free();
    }
}
