// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.unreliable;

import java.util.HashMap;
import org.shadowverbs.ib2tcp.engine.Batch;
import org.shadowverbs.ib2tcp.engine.Link;
import org.shadowverbs.ib2tcp.engine.Multicast;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.Requester;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.wire.Frame;

/**
 * The requester of an unreliable connection, or of datagrams. A request is complete when it is written to the connection, or
 * when there is no connection; nobody answers. A datagram for a multicast group goes at once, without a connection.
 *
 * <p>A datagram waits for its connection no longer than {@link #PATIENCE}, and those to the same process behind it do not
 * wait at all until something moves there again: otherwise a process that stands still would hold up datagrams to others.
 * Those that wait are copied at once. Their memory is the engine's until they are completed, but an HCA would have read it by
 * then, and programs rely on that: UCX writes to it when the peer's next message tells that the datagram is not needed.
 */
public final class UnreliableRequester extends Requester implements Batch.Owner {
    public static final long PATIENCE = 1_000_000_000L;

    /** What becomes of a request, in its ring entry: */
    private static final int UNSENT = 0;
    private static final int DONE = 1;

    private final boolean datagrams;
    /** Sequence number of ring index 0. */
    private int sequenceBase;
    /** Payloads of datagrams that wait, by the ring index of each; and up to which of them that has been seen to. */
    private final HashMap<Integer, Long> copies = new HashMap<Integer, Long>();
    private int copied;

    public UnreliableRequester(final QueuePair qp) {
        super(qp);
        datagrams = qp.type == QueuePair.UD;
    }

    @Override
    public void reset() {
        link = null;
        device.timers.remove(this);
        at = qp.send.head();
        offset = 0;
        for (final long copy : copies.values()) {
            device.posix.free(copy);
        }
        copies.clear();
        copied = at;
    }

    @Override
    public void start() {
        reset();
        sequenceBase = qp.sendSequence - at;
    }

    @Override
    public boolean uses(final Link other) {
        return link == other || other.batch.tells(this);
    }

    @Override
    public void detached(final Batch batch) {
        batch.dismiss(this);
    }

    @Override
    public void proceed() {
        sayDrained();
        while (sends() && !queued && mayGoOn()) {
            if (offset > 0 || begin()) {
                link.schedule(this);
                break;
            }
        }
        if (datagrams && queued && link.waits()) {
            copyWaiting();
        }
    }

    private void copyWaiting() {
        copied = Math.max(copied - at, 0) + at;
        for (final int end = qp.send.tail(); copied != end; copied++) {
            final long request = qp.send.entry(copied);
            final int flags = Memory.i32(request + Layouts.SEND_FLAGS);
            final long bytes = Memory.i64(request + Layouts.SEND_LENGTH);
            // What is wrong with one is said when it is its turn.
            if ((flags & FLAG_INLINE) == 0 && bytes != 0 && check(request) == CompletionQueue.SUCCESS) {
                copies.put(copied, copy(request, (int) bytes));
            }
        }
    }

    private long copy(final long request, final int bytes) {
        final long copy = device.posix.allocate(bytes);
        super.copyPayload(copy, request, bytes);
        return copy;
    }

    /** @return 0: there is none */
    private long copyOf(final int index) {
        final Long copy = copies.isEmpty() ? null : copies.get(index);
        return copy == null ? 0 : copy;
    }

    /** Datagrams are one frame each. */
    @Override
    public void payload(final Vectors to, final long request, final int bytes) {
        if (copyOf(at) == 0) {
            super.payload(to, request, bytes);
        } else {
            to.add(copyOf(at), bytes);
        }
    }

    @Override
    public void copyPayload(final long to, final long request, final int bytes) {
        if (copyOf(at) == 0) {
            super.copyPayload(to, request, bytes);
        } else {
            Memory.copy(copyOf(at), to, bytes);
        }
    }

    private boolean mayGoOn() {
        return offset > 0 || at != qp.send.tail() && mayBegin();
    }

    /** Finds the way for the request. @return false: it is over already, or the queue is in error */
    private boolean begin() {
        final long request = qp.send.entry(at);
        Memory.i32(request + Layouts.SEND_SEQUENCE, UNSENT);
        final int opcode = Memory.i32(request + Layouts.SEND_OPCODE);
        final int status = Frame.local(opcode) ? executeLocal(request) : copyOf(at) != 0 ? CompletionQueue.SUCCESS : check(request);
        if (status != CompletionQueue.SUCCESS) {
            fail(status);
            return false;
        }
        final boolean toGroup = datagrams && Multicast.names(Memory.i64(request + Layouts.SEND_REMOTE));
        if (toGroup) {
            device.multicast.send(qp, request);
        }
        if (toGroup || Frame.local(opcode)) {
            pass();
            return false;
        }
        if (datagrams) {
            link = device.link(Memory.i64(request + Layouts.SEND_REMOTE), Memory.i64(request + Layouts.SEND_COMPARE));
        } else if (link == null) {
            link = device.link(qp.peerPrefix, qp.peerId);
        }
        if (link == null || datagrams && link.stalled) {
            pass();
            return false;
        }
        if (datagrams) {
            resumeAt = device.now() + PATIENCE;
            device.timers.add(this);
        }
        return true;
    }

    /** What is wrong with a request on this side; {@code enum ibv_wc_status}. */
    private int check(final long request) {
        if (Memory.i64(request + Layouts.SEND_LENGTH) > (datagrams ? Frame.MAX_DATAGRAM : Frame.MAX_MESSAGE)) {
            return CompletionQueue.LOC_LEN_ERR;
        }
        return allowed(request) ? CompletionQueue.SUCCESS : CompletionQueue.LOC_PROT_ERR;
    }

    /** The request cannot be executed. Those before it have been, though they may not be completed yet. */
    private void fail(final int status) {
        device.forgetSends(qp);
        qp.fail(status);
    }

    @Override
    public boolean fill(final Batch batch) {
        device.timers.remove(this);
        if (!sends() || !mayGoOn()) {
            return false;
        }
        final long request = qp.send.entry(at);
        if (copyOf(at) == 0 && !allowed(request)) {
            fail(CompletionQueue.LOC_PROT_ERR); // a key was withdrawn while it waited
            return false;
        }
        final long length = Memory.i64(request + Layouts.SEND_LENGTH);
        final int part = (int) Math.min(length - offset, Frame.MAX_PAYLOAD);
        if (datagrams) {
            datagram(batch, request, part);
        } else {
            final int opcode = Memory.i32(request + Layouts.SEND_OPCODE);
            final long header = frame(batch, request, Frame.UNACKNOWLEDGED, part, 0, qp.peerNumber, sequenceBase + at);
            if (!Frame.sends(opcode)) {
                Frame.address(header, Memory.i64(request + Layouts.SEND_REMOTE));
                Frame.rkey(header, Memory.i32(request + Layouts.SEND_RKEY));
            }
            Frame.offset(header, offset);
        }
        offset += part;
        if (offset < length) {
            return true;
        }
        batch.tell(this, at);
        at++;
        offset = 0;
        proceed();
        return false;
    }

    /** All of it is in one frame. */
    private void datagram(final Batch batch, final long request, final int part) {
        datagram(batch.header(), request, Memory.i32(request + Layouts.SEND_RKEY));
        if (part > 0) {
            payload(batch, request, part);
        }
    }

    /** The request at hand is over and done with, without having gone anywhere. */
    private void pass() {
        final int index = at++;
        offset = 0;
        written(index);
    }

    @Override
    public void written(final int index) {
        if (qp.state == QueuePair.RESET) {
            return;
        }
        if (copyOf(index) != 0) {
            device.posix.free(copies.remove(index));
        }
        Memory.i32(qp.send.entry(index) + Layouts.SEND_SEQUENCE, DONE);
        while (qp.send.head() != at && Memory.i32(qp.send.first() + Layouts.SEND_SEQUENCE) == DONE) {
            qp.completeSend(CompletionQueue.SUCCESS);
        }
        sayDrained();
    }

    /** A datagram has waited long enough. */
    @Override
    public void resume() {
        device.timers.remove(this);
        link.stalled = true;
        link.remove(this);
        pass();
        proceed();
    }

    @Override
    public void linkLost(final Link gone) {
        if (link != gone) {
            return;
        }
        device.timers.remove(this);
        link = null;
        // What was begun is lost, and what no connection can be had for; else there will be another.
        if (sends() && (offset > 0 || mayGoOn() && !gone.carried)) {
            pass();
        }
        proceed();
    }
}
