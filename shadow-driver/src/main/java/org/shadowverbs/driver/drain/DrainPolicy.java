// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

/**
 * Decides what one end of a reliable connection does next in the drain: from what it knows of itself and what the peer
 * said last, without effects. Both gates are closed, so what the applications have posted does not change any more.
 *
 * <p>What is settled: each request in the send log either is retired, because it is known to have taken effect, or
 * cannot take effect, because it is, or stands behind, a consumer for which the peer has no receive. Reliable connections
 * execute in order (IBTA volume 1, 9.7), so a consumer that the peer has counted proves everything before it executed
 * there; of READs and atomics the answer must have come back, too, which only a completion proves.
 *
 * <p>A shared receive queue. Which of its senders gets a receive that is left nobody can know, but each knows a bound:
 * with {@code f} receives left and {@code r} messages of its own counted, its consumers beyond {@code r + f} cannot take
 * effect, whoever gets what. That is all that is needed:
 * <ul>
 * <li>A sender with a consumer below its bound waits. It does not wait for ever: either all senders together have no more
 * consumers than there are receives, then all are executed; or the receives run out, and the bound becomes {@code r}.
 * Bounds only sink but for landings, so what was blocked once stays so.
 * <li>A marker must not stand behind a consumer whose receive another sender may get: it is posted only when all
 * consumers before it have been counted.
 * <li>A landing may be taken by a sender that had settled. So it raises the bound of all, they wait again, and nobody is
 * done before all have heard of the last one ({@link Pool}).
 * </ul>
 * XRC. Each consumer names one of the peer's shared receive queues. The bound is then found by counting: the first of its
 * consumers beyond {@code r} for which its own queue has no receive left cannot take effect, nor can what is behind it.
 */
public final class DrainPolicy {
    /** {@code enum ibv_wc_status}. */
    static final int RETRY_EXC_ERR = 12;
    static final int RNR_RETRY_EXC_ERR = 13;
    /** {@code enum ibv_wr_opcode}. */
    static final int RDMA_WRITE = 0;
    static final int RDMA_WRITE_WITH_IMM = 1;
    public static final int SEND = 2;
    static final int SEND_WITH_IMM = 3;
    static final int RDMA_READ = 4;
    static final int LOCAL_INV = 7;
    static final int BIND_MW = 8;
    static final int SEND_WITH_INV = 9;
    /** {@code enum ibv_qp_state}. */
    private static final int INIT = 1;
    private static final int SQD = 4;
    private static final int ERR = 6;

    public enum Action {
        /** Nothing can be done now; the next round brings news. */
        WAIT,
        /** Nothing that was posted here can still take effect without being known to. */
        SETTLED,
        /** All requests before {@link Decision#position} have taken effect. */
        RETIRE,
        /** Ask the peer to allow remote writes. */
        ASK_MARKER,
        /** Post the marker. */
        MARKER,
        /** Ask the peer for a landing. */
        ASK_LANDING,
        /** Put the queue pair into the error state: what it still holds comes back. */
        FLUSH,
        /** Kept errors were caused by the checkpoint: take them back. */
        WITHDRAW,
        /** Kept errors are the application's own, and the queue pair has failed. */
        DELIVER,
        /** The connection failed through the checkpoint with an atomic in doubt: the application gets an error. */
        FAIL_AFTERWARDS,
        /** The checkpoint cannot go on. */
        REFUSE
    }


    /** What to do, and for messages why. */
    public static final class Decision {
        public final Action action;
        final long position;
        final long ordinal;
        final long length;
        final String why;

        private Decision(final Action action, final long position, final long ordinal, final long length,
                final String why) {
            this.action = action;
            this.position = position;
            this.ordinal = ordinal;
            this.length = length;
            this.why = why;
        }

        static Decision of(final Action action, final String why) {
            return new Decision(action, 0, 0, 0, why);
        }
    }

    /** The send log between retired and posted. */
    public interface SendLog {
        int opcode(long position);

        boolean signaled(long position);

        /** Among the posted consumers, from 1; 0: consumes no receive. */
        long ordinal(long position);

        long length(long position);

        /** Of XRC: the number of the shared receive queue that it is for. */
        int srq(long position);
    }

    /** One end, as it knows itself. */
    public static final class End {
        boolean reliable;
        /** {@code enum ibv_qp_state}: as the application set it, or ERR once the error is the application's. */
        int state;
        public Bookmark bookmark;
        /** The hardware has the queue pair in the error state. */
        boolean hardwareError;
        /** In SQD, no request that the device has begun was under way any more, the last time and the time before. */
        private boolean sqDrained;
        private boolean sqDrainedBefore;
        public boolean withdrawn;
        public boolean failAfterwards;
        /** The queue pair was put into the error state, so that what it holds comes back. */
        public boolean flushing;
        /** For how many rounds a kept error has been known: the peer's word on why comes up to two rounds later. */
        int roundsInError;

        /** Failed for another reason than that the peer does not answer, and it is not settled whose doing it is. */
        boolean undecided() {
            return (bookmark.inError() || hardwareError) && bookmark.sendError != RETRY_EXC_ERR && !withdrawn
                    && !failAfterwards && state != ERR;
        }

        /** @param draining in SQD, the device still executes a request that it had begun */
        void lookedAtSendQueue(final boolean draining) {
            sqDrainedBefore = sqDrained;
            sqDrained = state == SQD && !draining;
        }

        /**
         * In SQD with nothing under way: the device begins no request. What it had executed has completed before the
         * completion queues of both ends were emptied last.
         */
        boolean held() {
            return sqDrained && sqDrainedBefore;
        }
    }

    private DrainPolicy() {
    }

    /** @param peer what the other end said last; null when it said nothing, or does not exist */
    static Decision decide(final End own, final Pairing pairing, final DrainRecord peer, final SendLog log) {
        final Bookmark b = own.bookmark;
        if (own.flushing && (!own.withdrawn || b.inError())) {
            return decideFlush(own);
        }
        if (own.state == ERR) {
            return decideInError(b);
        }
        if (own.state <= INIT) {
            return Decision.of(Action.SETTLED, "");
        }
        if (own.failAfterwards) {
            return b.inError() ? Decision.of(Action.WITHDRAW, "") : Decision.of(Action.SETTLED, "");
        }
        if (b.inError() || own.hardwareError && !own.withdrawn) {
            return decideAboutErrors(own, pairing, peer);
        }
        if (pairing == Pairing.GONE || pairing == Pairing.UNREADY) {
            return Decision.of(Action.SETTLED, "");
        }
        if (peer == null) {
            return Decision.of(Action.WAIT, "the peer's bookmark");
        }
        if (own.held()) {
            return own.withdrawn ? decideWithdrawn(b, peer, log) : decideHeld(b, peer, log);
        }
        if (peer.dead || peer.withdrawn) {
            return decideTowardsDeadPeer(own, peer, log);
        }
        if (own.withdrawn) {
            return decideWithdrawn(b, peer, log);
        }
        final Decision decision = decideHealthy(b, peer, log);
        return own.state == SQD && (decision.action == Action.MARKER || decision.action == Action.ASK_MARKER)
                ? Decision.of(Action.WAIT, "the send queue to be drained (SQD)") : decision;
    }

    /**
     * Decides for an unreliable connection. Nothing is waited for at the peer, so every request completes by itself, and is
     * then done, arrived or not. A marker behind an unsignaled tail needs no permission of the peer, and does nothing there.
     */
    static Decision decideUnacknowledged(final End own, final SendLog log) {
        final Bookmark b = own.bookmark;
        if (own.flushing) {
            return decideFlush(own);
        }
        if (own.state == ERR) {
            return decideInError(b);
        }
        if (own.state <= INIT) {
            return Decision.of(Action.SETTLED, "");
        }
        if (b.inError() || own.hardwareError) {
            return b.sendError == 0 && b.posted > b.retired ? Decision.of(Action.WAIT, "the cause of an error")
                    : Decision.of(Action.DELIVER, "");
        }
        if (b.marker == Bookmark.MARKER_POSTED) {
            return Decision.of(Action.WAIT, "the marker");
        }
        if (b.marker == Bookmark.MARKER_FAILED) {
            return Decision.of(Action.REFUSE, "the marker failed");
        }
        if (b.retired == b.posted || own.held()) {
            return Decision.of(Action.SETTLED, ""); // but for the flush that follows
        }
        if (own.state == SQD) {
            return Decision.of(Action.WAIT, "the send queue to be drained (SQD)");
        }
        for (long p = b.retired; p < b.posted; p++) {
            if (log.signaled(p)) {
                return Decision.of(Action.WAIT, "completions");
            }
        }
        return Decision.of(Action.MARKER, "");
    }

    /**
     * Decides for datagrams, which wait for nobody either. Signaled ones complete. An unsignaled tail is left to the flush,
     * because a marker would need a receiver.
     */
    public static Decision decideDatagrams(final End own, final SendLog log) {
        final Bookmark b = own.bookmark;
        if (own.flushing) {
            return decideFlush(own);
        }
        if (own.state <= INIT || own.state == SQD || own.state == ERR || b.inError() || own.hardwareError) {
            return decideUnacknowledged(own, log);
        }
        for (long p = b.retired; p < b.posted; p++) {
            if (log.signaled(p)) {
                return Decision.of(Action.WAIT, "completions");
            }
        }
        return Decision.of(Action.SETTLED, "");
    }

    /**
     * In SQD, with nothing under way: what the application has posted is held back. How much of requests without a completion
     * had been executed only their flush tells, which the peer's own requests must not meet.
     */
    private static Decision decideHeld(final Bookmark b, final DrainRecord peer, final SendLog log) {
        final long proven = provenByCount(b, peer.received, log);
        if (proven > b.retired) {
            return new Decision(Action.RETIRE, proven, 0, 0, "");
        }
        if (isTailUnknown(b, log)) {
            return peer.settled || peer.held || peer.dead ? Decision.of(Action.FLUSH, "")
                    : Decision.of(Action.WAIT, "the peer to have nothing under way");
        }
        return peer.received < consumersRetired(b, log) ? Decision.of(Action.WAIT, "the peer's count of messages")
                : Decision.of(Action.SETTLED, "");
    }

    /**
     * Whether only a flush tells which requests of a settled queue pair without acknowledgements were sent. That is so for
     * datagrams, and for a connection in SQD whose last requests are unsignaled.
     */
    static boolean needsFlush(final End own, final boolean datagrams, final SendLog log) {
        return !own.flushing && own.state > INIT && own.state <= SQD
                && (datagrams || own.held() && isTailUnknown(own.bookmark, log));
    }

    /** Whether the first unknown request of a send queue that begins no request any more is unsignaled. */
    private static boolean isTailUnknown(final Bookmark b, final SendLog log) {
        return b.retired < b.posted && !log.signaled(b.retired);
    }

    /**
     * The queue pair is in the error state by our doing. A marker is flushed behind all that was posted. What has completed
     * before, and what stands before the first flushed request, has been sent; the rest has not.
     */
    private static Decision decideFlush(final End own) {
        final Bookmark b = own.bookmark;
        if (own.withdrawn) {
            return b.inError() ? Decision.of(Action.WITHDRAW, "") : Decision.of(Action.SETTLED, "");
        }
        if (b.retired < b.posted && b.marker == Bookmark.NO_MARKER) {
            return Decision.of(Action.MARKER, "");
        }
        if (b.marker == Bookmark.MARKER_POSTED) {
            return Decision.of(Action.WAIT, "the flush of the send queue");
        }
        if (b.flushed < b.receives || own.reliable && b.shared && !b.lastReceive) {
            return Decision.of(Action.WAIT, "the flush of the receive queue");
        }
        return b.sendError == 0 && b.retired < b.posted
                ? new Decision(Action.RETIRE, b.posted, 0, 0, "") : Decision.of(Action.WITHDRAW, "");
    }

    /** The queue pair is in ERR: everything is flushed. */
    private static Decision decideInError(final Bookmark b) {
        if (b.inError()) {
            return Decision.of(Action.DELIVER, "");
        }
        if (b.retired == b.posted && b.receives == 0) {
            return Decision.of(Action.SETTLED, "");
        }
        return Decision.of(Action.WAIT, "the flush of a queue pair in the error state");
    }

    private static Decision decideAboutErrors(final End own, final Pairing pairing, final DrainRecord peer) {
        final Bookmark b = own.bookmark;
        if (own.withdrawn) {
            return Decision.of(Action.WITHDRAW, ""); // what is flushed behind
        }
        if (b.sendError == 0 && b.posted > b.retired) {
            // Receives are flushed and the state has changed, but the cause is not in the completion queue yet.
            return Decision.of(Action.WAIT, "the cause of an error");
        }
        if (b.sendError == RNR_RETRY_EXC_ERR || b.sendError == RETRY_EXC_ERR && (pairing == Pairing.UNREADY
                || pairing == Pairing.CONNECTED && peer != null && peer.withdrawn)) {
            // The messages received before are all counted only when the receives behind them are flushed.
            return (b.shared ? !b.lastReceive : b.recvError == 0 && b.receives + b.landings > 0)
                    ? Decision.of(Action.WAIT, "the flush of the receive queue") : Decision.of(Action.WITHDRAW, "");
        }
        if (b.sendError == RETRY_EXC_ERR && pairing == Pairing.CONNECTED) {
            if (own.roundsInError < 3 || peer != null && peer.undecided) {
                return Decision.of(Action.WAIT, "whether the peer failed through the checkpoint");
            }
        }
        return Decision.of(Action.DELIVER, "");
    }

    /** Its first withdrawn request, at {@code retired}, took no effect, and all before did. */
    private static Decision decideWithdrawn(final Bookmark b, final DrainRecord peer, final SendLog log) {
        return peer.received < consumersRetired(b, log) ? Decision.of(Action.WAIT, "the peer's count of messages")
                : Decision.of(Action.SETTLED, "");
    }

    private static long consumersRetired(final Bookmark b, final SendLog log) {
        for (long p = b.retired; p < b.posted; p++) {
            if (log.ordinal(p) != 0) {
                return log.ordinal(p) - 1;
            }
        }
        return b.consumers;
    }

    /**
     * Nobody answers any more. What the peer has counted took effect, and what is behind a message that it has not
     * counted did not. The requests in between are unknown: WRITEs and READs can be done again. An atomic must not be,
     * nor a message that the peer has counted and that stands behind a READ without its answer.
     */
    private static Decision decideTowardsDeadPeer(final End own, final DrainRecord peer, final SendLog log) {
        final Bookmark b = own.bookmark;
        final long proven = provenByCount(b, peer.received, log);
        if (proven > b.retired) {
            return new Decision(Action.RETIRE, proven, 0, 0, "");
        }
        if (!peer.dead) {
            for (long p = b.retired; p < b.posted && log.ordinal(p) <= peer.received; p++) {
                if (isAtomic(log.opcode(p)) || log.ordinal(p) != 0) {
                    return Decision.of(Action.FAIL_AFTERWARDS,
                            "a request is in doubt, because the connection failed while the checkpoint began");
                }
            }
        }
        return Decision.of(Action.SETTLED, "");
    }

    private static Decision decideHealthy(final Bookmark b, final DrainRecord peer, final SendLog log) {
        // The first blocked consumer; nothing from there on can take effect.
        final long end = reach(b, peer, log);
        boolean signaled = false;
        boolean answers = false;
        for (long p = b.retired; p < end; p++) {
            signaled |= log.signaled(p);
            answers |= isAnswered(log.opcode(p));
        }
        if (b.marker == Bookmark.MARKER_POSTED) {
            return Decision.of(Action.WAIT, "the marker");
        }
        if (b.marker == Bookmark.MARKER_FAILED) {
            return Decision.of(Action.REFUSE, "the marker failed");
        }
        if (end == b.retired) {
            // A completion may have come before the word of the landing that made it possible.
            return peer.received < Math.max(consumersRetired(b, log), Math.min(b.consumers, peer.capacity()))
                    ? Decision.of(Action.WAIT, "the peer's count of messages") : Decision.of(Action.SETTLED, "");
        }
        if (signaled) {
            return Decision.of(Action.WAIT, "completions");
        }
        final long proven = provenByCount(b, peer.received, log);
        if (proven > b.retired) {
            return new Decision(Action.RETIRE, proven, 0, 0, "");
        }
        if (!answers && log.ordinal(end - 1) != 0) {
            return Decision.of(Action.WAIT, "the peer's count of messages");
        }
        if (end == b.posted) {
            if (peer.pool.shared && lastOrdinal(b.retired, end, log) > peer.received) {
                return Decision.of(Action.WAIT, "the peer's count of messages");
            }
            return peer.granted ? Decision.of(Action.MARKER, "") : Decision.of(Action.ASK_MARKER, "a marker");
        }
        return new Decision(Action.ASK_LANDING, end, log.ordinal(end), messageLength(log, end), "a landing");
    }

    /** The position of the first consumer for which the peer has no receive, or that behind the last request. */
    private static long reach(final Bookmark b, final DrainRecord peer, final SendLog log) {
        final boolean numbered = peer.pool.numbered();
        final long[] free = peer.pool.free();
        long end = b.retired;
        for (; end < b.posted; end++) {
            final long ordinal = log.ordinal(end);
            if (!numbered) {
                if (ordinal > peer.capacity()) {
                    break;
                }
            } else if (ordinal > peer.received) {
                // The queue of a retired consumer that the peer has not counted yet is unknown: its count lowers the bound.
                final int queue = peer.pool.indexOf(log.srq(end));
                if (queue < 0 || free[queue]-- <= 0) {
                    break;
                }
            }
        }
        return end;
    }

    private static long lastOrdinal(final long from, final long to, final SendLog log) {
        long last = 0;
        for (long p = from; p < to; p++) {
            last = Math.max(last, log.ordinal(p));
        }
        return last;
    }

    /** The first consumer that a peer has not counted: its position, or that behind the last request. */
    static long next(final Bookmark b, final long received, final SendLog log) {
        long p = b.retired;
        while (p < b.posted && log.ordinal(p) <= received) {
            p++;
        }
        return p;
    }

    /** How long a receive must be for the message of a consumer. */
    static long messageLength(final SendLog log, final long position) {
        return log.opcode(position) == RDMA_WRITE_WITH_IMM ? 0 : log.length(position);
    }

    /** The position behind the last request that the peer's count of messages proves to have taken effect. */
    private static long provenByCount(final Bookmark b, final long received, final SendLog log) {
        long proven = b.retired;
        for (long p = b.retired; p < b.posted; p++) {
            if (isAnswered(log.opcode(p)) || log.ordinal(p) > received) {
                break;
            }
            if (log.ordinal(p) != 0) {
                proven = p + 1;
            }
        }
        return proven;
    }

    /**
     * READs, atomics, and whatever else may be: what is not just sent. Binds and invalidations of memory windows are done
     * by the device itself, in order, before anything behind them is sent (IBTA volume 1, 10.8.3.3).
     */
    private static boolean isAnswered(final int opcode) {
        return opcode > SEND_WITH_IMM && opcode != LOCAL_INV && opcode != BIND_MW && opcode != SEND_WITH_INV;
    }

    /** All but the READ among the requests with an answer. Windows are made anew as they were before it. */
    private static boolean isAtomic(final int opcode) {
        return isAnswered(opcode) && opcode != RDMA_READ;
    }

    /** Whether this end is to allow remote writes. */
    static boolean grants(final DrainRecord peer, final boolean granted) {
        return peer != null && peer.wantsMarker && !granted;
    }

    /** Whether this end is to post a landing to a queue of its own: the next message to arrive is the one that was asked for. */
    static boolean lands(final Bookmark own, final DrainRecord peer) {
        return peer != null && peer.landingOrdinal != 0 && !own.shared && own.receives == 0 && own.landings == 0
                && own.received + 1 == peer.landingOrdinal;
    }
}
