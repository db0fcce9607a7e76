// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.reattach;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.bindings.abi.sv_srq_mark;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.coordinator.client.Attachment;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.drain.Connection;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Srq;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.verbs.QueuePairVerbs;

/**
 * The way through an image with devices that stay open: from a finished drain to open gates. The methods are in their order;
 * docs/PROTOCOL.md has the steps. Of the checkpoint's thread, with the gate closed.
 *
 * <p>All that must be done with others is done before the image is made. So a process that runs on, whatever has become of the
 * checkpoint, opens its gate without asking anybody. A restored one begins with {@link RealObjects#abandon}.
 */
public final class Attached {
    private final Native library;
    private final ChosenBackend backend;
    private final Model model;
    private final QueuePairVerbs queuePairs;
    private final RealObjects realObjects;
    private final List<Connection> connections;
    private final int rank;
    /** Those that are made ready again by a reset. */
    private final Set<Connection> resets = new LinkedHashSet<Connection>();
    private final Set<Connection> broken = new LinkedHashSet<Connection>();
    private Attachment own;

    /** @param connections the queue pairs as the drain left them */
    public Attached(final Native library, final ChosenBackend backend, final Model model, final QueuePairVerbs queuePairs,
            final RealObjects realObjects, final List<Connection> connections, final int rank) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.queuePairs = queuePairs;
        this.realObjects = realObjects;
        this.connections = connections;
        this.rank = rank;
    }

    /** What this process says of itself. @param unwanted why devices are to be closed in any case, or empty */
    public Attachment look(final String unwanted) {
        final List<Attachment.Reset> pairs = new ArrayList<Attachment.Reset>();
        String obstacle = unwanted.isEmpty() ? obstacle() : unwanted;
        int alone = 0;
        for (final Connection c : connections) {
            if (obstacle.isEmpty() && c.fate() != Connection.Fate.STAYS && c.qp.ofXrc()) {
                obstacle = c.name() + " cannot stay as the drain has left it";
            }
            if (c.fate() != Connection.Fate.RESETS) {
                continue;
            }
            resets.add(c);
            if (obstacle.isEmpty()) {
                obstacle = obstacle(c);
            }
            if (c.resetsWithPeer()) {
                pairs.add(new Attachment.Reset(c.qp.sequence, c.peer.rank, c.peer.sequence));
            } else {
                alone++;
            }
        }
        own = new Attachment(obstacle, pairs, alone);
        return own;
    }

    /** Why the process cannot keep its devices; empty: it can. */
    private String obstacle() {
        if (BackendName.overTcp(backend.now().name())) {
            return "its device is one over TCP";
        }
        for (final Context context : model.contexts.inOrder()) {
            if (!library.contextAttachable(context.virtual)) {
                return "device " + context.deviceName + " has no file that CRIU's plugin knows";
            }
        }
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment mark = sv_srq_mark.allocate(arena);
            for (final Srq srq : model.srqs.inOrder()) {
                library.srqBookmark(srq.virtual, mark);
                if (sv_srq_mark.landings(mark) > 0) {
                    return "a shared receive queue has a receive of the drain left";
                }
            }
        }
        return "";
    }

    /** Why a queue pair cannot be made ready again by a reset; empty: it can. */
    private String obstacle(final Connection c) {
        final boolean ready = c.peer != null
                && (c.peer.state == verbs_h.IBV_QPS_RTS() || c.peer.state == verbs_h.IBV_QPS_SQD());
        if (c.resetsWithPeer() && (!c.qp.attributes.sends() || !ready)) {
            return c.name() + " cannot stay as the drain has left it";
        }
        return model.mws.inOrder().isEmpty() ? "" : c.name() + " cannot be reset, for the process has memory windows";
    }

    /** What others say: whose queue pairs are reset their peers reset, too. Not to be called where nobody resets any with a peer. */
    public void hear(final Map<Integer, Attachment> others) {
        final Set<Attachment.Reset> wanted = new LinkedHashSet<Attachment.Reset>();
        others.values().forEach(other -> wanted.addAll(other.resets()));
        for (final Connection c : connections) {
            if (c.resetsWithPeer() && wanted.contains(new Attachment.Reset(c.peer.sequence, rank, c.qp.sequence))) {
                resets.add(c);
            }
        }
    }

    /** Takes those to RESET that are to be reset on both sides: none goes on before all have come so far. */
    public void resetBothSides() throws Refusal {
        for (final Connection c : resets) {
            if (c.resetsWithPeer()) {
                reset(c);
            }
        }
    }

    private void reset(final Connection c) throws Refusal {
        library.qpBind(c.qp.virtual, 0);
        check(c, "be reset", modify(c.qp, verbs_h.IBV_QPS_RESET()));
        // Completions of before are dropped from here on.
        check(c, "be bound again", library.qpBind(c.qp.virtual, c.qp.real));
    }

    private int modify(final Qp qp, final int state) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            ibv_qp_attr.qp_state(attr, state);
            return backend.now().modifyQp(qp.real, attr, verbs_h.IBV_QP_STATE());
        }
    }

    private static void check(final Connection c, final String what, final int err) throws Refusal {
        if (err != 0) {
            throw new Refusal(c.name() + " cannot " + what + ": " + VerbsErrno.name(err));
        }
    }

    /**
     * Makes everything ready for the image, and for going on. From here on nothing arrives that this process has not asked for.
     *
     * @param epoch by which packets of before a reset are told from those after it
     * @return what went wrong first, or null: there is to be no image then, and {@link #goOn} follows in any case
     */
    public String hold(final long epoch) {
        // What has come of a queue pair's events decides how it is brought back.
        String trouble = realObjects.takeEvents();
        for (final Connection c : connections) {
            try {
                settle(c, epoch);
            } catch (Refusal e) {
                trouble = trouble == null ? e.getMessage() : trouble;
                broken.add(c);
            }
        }
        if (!resets.isEmpty()) {
            // What comes of the queues of before takes events along, which is to be known.
            for (final Cq cq : model.cqs.inOrder()) {
                library.cqDrain(cq.virtual);
            }
        }
        final String held = realObjects.hold();
        return trouble == null ? held : trouble;
    }

    private void settle(final Connection c, final long epoch) throws Refusal {
        c.rememberPeer();
        if (resets.contains(c)) {
            if (!c.resetsWithPeer()) {
                reset(c);
            }
            connect(c, epoch);
        } else if (c.fate() == Connection.Fate.FAILS) {
            broken.add(c);
        } else {
            putBack(c);
            library.qpGoOn(c.qp.virtual);
        }
    }

    /** From RESET to where it was, with its receives; its sends wait until the gate opens. */
    private void connect(final Connection c, final long epoch) throws Refusal {
        // Both ends shift by the same, so that a packet of before is none of the connection.
        final int shift = c.resetsWithPeer() ? (int) (epoch * 0x10001) + 0x5555 : 0;
        for (final int state : c.qp.attributes.path()) {
            check(c, "be brought to state " + state + " again", queuePairs.replay(c.qp, state, shift));
        }
        if (c.qp.attributes.sends()) {
            queuePairs.pacing().limit(c.qp);
        }
        try (Arena arena = Arena.ofConfined()) {
            check(c, "have its receives posted again",
                    library.qpReplayReceives(c.qp.virtual, arena.allocate(ValueLayout.JAVA_LONG)));
        }
    }

    /** What the checkpoint has changed of a queue pair that stays. */
    private void putBack(final Connection c) throws Refusal {
        if (!c.qp.attributes.sends() || !c.timerRaised && !c.granted()) {
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_attr.allocate(arena);
            int mask = verbs_h.IBV_QP_STATE();
            ibv_qp_attr.qp_state(attr, c.qp.attributes.stateForChange());
            if (c.timerRaised) {
                ibv_qp_attr.min_rnr_timer(attr, (byte) c.qp.attributes.minRnrTimer());
                mask |= verbs_h.IBV_QP_MIN_RNR_TIMER();
            }
            if (c.granted()) {
                ibv_qp_attr.qp_access_flags(attr, c.qp.attributes.accessFlags());
                mask |= verbs_h.IBV_QP_ACCESS_FLAGS();
            }
            check(c, "get its attributes back", backend.now().modifyQp(c.qp.real, attr, mask));
            c.timerRaised = false;
        }
    }

    /** The process runs on: sends what waits in queue pairs that were reset, and opens the gate. */
    public void goOn() {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment position = arena.allocate(ValueLayout.JAVA_LONG);
            for (final Connection c : resets) {
                if (c.qp.attributes.sends() && !broken.contains(c)
                        && library.qpReplaySends(c.qp.virtual, position) != 0) {
                    library.say(c.qp.name() + ": send request " + position.get(ValueLayout.JAVA_LONG, 0)
                            + " cannot be posted again; the queue pair reports an error");
                    broken.add(c);
                }
            }
            for (final Connection c : broken) {
                fail(c);
            }
            realObjects.release();
            model.forgetTombstones();
        } finally {
            library.gateOpen();
        }
    }

    private void fail(final Connection c) {
        library.qpBind(c.qp.virtual, 0);
        if (c.qp.attributes.state() != verbs_h.IBV_QPS_RESET()) {
            modify(c.qp, verbs_h.IBV_QPS_ERR());
        }
        library.qpBind(c.qp.virtual, c.qp.real);
        c.qp.attributes.failed();
        library.qpFail(c.qp.virtual);
    }
}
