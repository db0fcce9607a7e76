// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.GlobalRoute;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/**
 * The receiving end of a link: takes bytes as they come, in any pieces, makes frames of them, and puts payloads where the
 * queue pair says. A small payload goes through the staging buffer, of a large one the rest is read into place.
 *
 * <p>Programs that are written to look at words in memory while an RDMA WRITE is under way, at the last one above all, and
 * expect an old value or the new one. So of a small payload, and of a large one's last bytes, each aligned word of 8 bytes is
 * put in place at once, when all of it has come.
 */
public final class Inbound {
    public static final int STAGING = 128 << 10;
    /** A payload of which so much is missing is read into place. */
    private static final int DIRECT = 4 << 10;
    /** What is read behind such a payload: the next header, and no more of its payload than is cheap to copy. */
    private static final int BEHIND = 4 << 10;
    /** So much of such a payload, and up to 7 bytes more, goes through the staging buffer. */
    private static final int TAIL = 64;
    /** Frames of so much are mostly followed by others. */
    private static final int BULK = 16 << 10;
    /** What is read to the staging buffer then: what is left of such a frame, and the next header. Or a whole datagram. */
    private static final int LITTLE = 8 << 10;

    /** Where the payload of the frame goes. */
    public final Vectors target;
    /** The header of the frame whose payload is under way: in the staging buffer while all of the frame is there. */
    public long header;
    /** Memory for the global route header of a datagram. */
    public final long route;
    private final Device device;
    private final Link link;
    private final long staging;
    /** For the header of a frame that is not all there yet. */
    private final long kept;
    private int start;
    private int end;
    private int payload;
    private int held;
    private QueuePair owner;
    private boolean request;
    /** A key of the target has been withdrawn: what still comes of the frame goes nowhere. */
    private boolean cut;
    private boolean bulk;

    Inbound(final Device device, final Link link) {
        this.device = device;
        this.link = link;
        kept = device.posix.allocate(Frame.SIZE + GlobalRoute.SIZE);
        route = kept + Frame.SIZE;
        staging = device.posix.allocate(STAGING);
        target = new Vectors(device.posix, Limits.MAX_SGE + 2);
    }

    void free() {
        device.posix.free(kept);
        device.posix.free(staging);
        target.free(device.posix);
    }

    /** The payload of this frame belongs to that queue pair, which has filled {@link #target}. */
    public void accept(final QueuePair qp, final boolean isRequest) {
        owner = qp;
        request = isRequest;
        cut = false;
    }

    /** A queue pair ends: what still comes for it goes nowhere. */
    void forget(final QueuePair qp) {
        if (owner == qp) {
            owner = null;
            target.clear();
        }
    }

    /** Keys have been withdrawn, perhaps one that the target was found by. */
    void withdrawn() {
        if (owner != null && !cut && !(request ? owner.responder.allows(header) : owner.requester.allows(header))) {
            cut = true;
            target.clear();
        }
    }

    /** What is still to come of a request for that queue pair goes nowhere: it has come again over another link. */
    public void abandon(final QueuePair qp) {
        if (request) {
            forget(qp);
        }
    }

    /** Whether the next bytes are best read into {@link #target}, followed by the staging buffer. */
    public boolean direct() {
        return start == end && owner != null && !cut && payload >= DIRECT && target.lastLength() >= 2 * TAIL;
    }

    /** Adds some of the staging buffer to the target for one readv; to be followed by {@link #readDirectly}. */
    public void openTarget() {
        held = target.holdBack(TAIL);
        target.add(staging, BEHIND);
    }

    /** @param bytes that readv gave, 0 when none */
    public void readDirectly(final long bytes) throws ProtocolException {
        target.dropLast(BEHIND);
        final int placed = (int) Math.min(bytes, payload - held);
        target.advance(placed);
        target.giveBack(held);
        payload -= placed;
        start = 0;
        end = (int) (bytes - placed);
        consume();
    }

    /** Where to read to. */
    public long space() {
        if (start == end) {
            start = 0;
            end = 0;
        } else if (start > 0) {
            Memory.copy(staging + start, staging, end - start);
            end -= start;
            start = 0;
        }
        return staging + end;
    }

    public int room() {
        return (bulk ? LITTLE : STAGING) - end;
    }

    /** That many bytes have come to {@link #space}. */
    public void read(final int bytes) throws ProtocolException {
        end += bytes;
        consume();
    }

    private void consume() throws ProtocolException {
        for (;;) {
            if (payload > 0) {
                int part = Math.min(payload, end - start);
                final boolean wanted = owner != null && !cut;
                if (wanted && part < payload && payload - part < DIRECT) {
                    part = (int) target.wholeWords(part);
                }
                if (part == 0) {
                    return;
                }
                if (wanted) {
                    target.fill(staging + start, part);
                }
                start += part;
                payload -= part;
                if (payload == 0) {
                    finish();
                }
            } else {
                if (end - start < Frame.SIZE) {
                    return;
                }
                header = staging + start;
                Frame.check(header);
                if (end - start < Frame.SIZE + Frame.payload(header)) {
                    // Anybody may send to such a queue pair: one datagram at a time goes to the current receive.
                    if (Frame.type(header) == Frame.DATAGRAM) {
                        return;
                    }
                    Memory.copy(header, kept, Frame.SIZE);
                    header = kept;
                }
                start += Frame.SIZE;
                begin();
            }
        }
    }

    private void begin() throws ProtocolException {
        payload = Frame.payload(header);
        bulk = payload >= BULK;
        owner = null;
        target.clear();
        device.dispatch(link, this);
        if (payload == 0) {
            finish();
        }
    }

    private void finish() throws ProtocolException {
        final QueuePair qp = owner;
        owner = null;
        if (qp == null) {
            return;
        }
        if (request && cut) {
            qp.responder.cut(header);
        } else if (request) {
            qp.responder.placed(header);
        } else if (cut) {
            qp.requester.cut(header);
        } else {
            qp.requester.placed(header);
        }
    }
}
