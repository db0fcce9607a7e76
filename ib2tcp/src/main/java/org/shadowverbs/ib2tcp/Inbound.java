// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/**
 * The receiving end of a link: takes bytes as they come, in any pieces, makes frames of them, and puts payloads where the
 * queue pair says. A small payload goes through the staging buffer, of a large one the rest is read into place.
 *
 * <p>Programs that are written to look at words in memory while an RDMA WRITE is under way, at the last one above all, and
 * expect an old value or the new one. So of a small payload, and of a large one's last bytes, each aligned word of 8 bytes is
 * put in place at once, when all of it has come.
 */
final class Inbound {
    static final int STAGING = 128 << 10;
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
    final Vectors target;
    /** The header of the frame whose payload is under way: in the staging buffer while all of the frame is there. */
    long header;
    /** Memory for the global route header of a datagram. */
    final long route;
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
    void accept(final QueuePair qp, final boolean isRequest) {
        owner = qp;
        request = isRequest;
    }

    /** A queue pair ends: what still comes for it goes nowhere. */
    void forget(final QueuePair qp) {
        if (owner == qp) {
            owner = null;
            target.clear();
        }
    }

    /** What is still to come of a request for that queue pair goes nowhere: it has come again over another link. */
    void abandon(final QueuePair qp) {
        if (request) {
            forget(qp);
        }
    }

    /** Whether the next bytes are best read into {@link #target}, followed by the staging buffer. */
    boolean direct() {
        return start == end && owner != null && payload >= DIRECT && target.lastLength() >= 2 * TAIL;
    }

    /** Adds some of the staging buffer to the target for one readv; to be followed by {@link #readDirectly}. */
    void openTarget() {
        held = target.holdBack(TAIL);
        target.add(staging, BEHIND);
    }

    /** @param bytes that readv gave, 0 when none */
    void readDirectly(final long bytes) throws ProtocolException {
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
    long space() {
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

    int room() {
        return (bulk ? LITTLE : STAGING) - end;
    }

    /** That many bytes have come to {@link #space}. */
    void read(final int bytes) throws ProtocolException {
        end += bytes;
        consume();
    }

    private void consume() throws ProtocolException {
        for (;;) {
            if (payload > 0) {
                int part = Math.min(payload, end - start);
                if (owner != null && part < payload && payload - part < DIRECT) {
                    part = (int) target.wholeWords(part);
                }
                if (part == 0) {
                    return;
                }
                if (owner != null) {
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
                    // Of a queue pair that anybody sends to, one datagram at a time goes to the receive at hand.
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
        if (qp != null) {
            if (request) {
                qp.responder.placed(header);
            } else {
                qp.requester.placed(header);
            }
        }
    }
}
