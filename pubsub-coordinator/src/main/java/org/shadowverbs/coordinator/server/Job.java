// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.Codec;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.protocol.HostMessages.FromRank;
import org.shadowverbs.coordinator.protocol.HostMessages.Frozen;
import org.shadowverbs.coordinator.protocol.HostMessages.Member;
import org.shadowverbs.coordinator.protocol.HostMessages.RankGone;
import org.shadowverbs.coordinator.protocol.HostMessages.RankJoined;
import org.shadowverbs.coordinator.protocol.HostMessages.RankNumber;
import org.shadowverbs.coordinator.protocol.HostMessages.Saved;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.HostMessages.TreeState;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;
import org.shadowverbs.coordinator.protocol.RankMessages.Detached;
import org.shadowverbs.coordinator.protocol.RankMessages.Done;
import org.shadowverbs.coordinator.protocol.RankMessages.Fail;
import org.shadowverbs.coordinator.protocol.RankMessages.Found;
import org.shadowverbs.coordinator.protocol.RankMessages.LastWill;
import org.shadowverbs.coordinator.protocol.RankMessages.Lookup;
import org.shadowverbs.coordinator.protocol.RankMessages.Progress;
import org.shadowverbs.coordinator.protocol.RankMessages.Publish;
import org.shadowverbs.coordinator.protocol.RankMessages.Tell;
import org.shadowverbs.coordinator.store.PublishedStore;

/**
 * The job as the coordinator knows it: messages of agents come here and change {@link Members}, {@link Epoch} and what is
 * {@link Published}. One lock guards all of these. Nobody waits for another process while holding it, nor for a store, but for
 * that of a coordinator started anew, which has to be opened before it can be asked.
 */
final class Job {
    private final ReentrantLock lock = new ReentrantLock();
    private final EventLog log;
    private final Runnable whenEmpty;
    private final Members members = new Members();
    private final Published published;
    private final Tells tells;
    private final Epoch epoch;

    private final Map<String, String> settings = new LinkedHashMap<>();
    private String name;
    private String restartProblem = "";
    private Consequence consequence = hello -> { };

    /** What the coordinator does about an agent that brings members in the middle of an epoch. */
    interface Consequence {
        void membersArrived(AgentHello hello);
    }

    Job(final String name, final long epoch, final int deadlineSeconds, final PublishedStore store, final EventLog log,
            final Runnable whenEmpty) {
        this.name = name;
        this.log = log;
        this.whenEmpty = whenEmpty;
        published = new Published(store);
        tells = new Tells(members, published, log);
        this.epoch = new Epoch(lock, members, published, epoch, deadlineSeconds);
    }

    void onMembersArrived(final Consequence c) {
        consequence = c;
    }

    // ---- agents ----

    AgentSession agentJoined(final AgentHello hello, final FrameChannel channel)
            throws ProtocolException {
        final AgentSession session;
        final boolean inEpoch;
        lock.lock();
        try {
            if (!hello.job().isEmpty() && !hello.job().equals(name)) {
                if (!members.ranks().isEmpty() || !members.agents().isEmpty()) {
                    throw new ProtocolException("this coordinator serves job " + name + ", the agent on host "
                            + hello.host() + " belongs to job " + hello.job());
                }
                name = hello.job();
            }
            session = new AgentSession(hello, channel);
            epoch.atLeast(hello.epoch(), hello.attempt());
            settings.putAll(hello.settings());
            members.joined(session, hello);
            // What is left of them on its host it has found.
            endAdrift(rank -> rank.agent.host().equals(session.host()) && !session.trees.containsKey(rank.tree));
            inEpoch = hello.restored()
                    || hello.members().stream().anyMatch(m -> m.state() != MemberState.RUNNING.ordinal());
            session.send(new AgentWelcome(name, epoch.number(), epoch.deadlineSeconds()));
            log.add("agent on host " + session.host() + " (pid " + session.pid() + ") joined with "
                    + hello.members().size() + " ranks, " + hello.trees().size() + " launched programs");
            epoch.changed();
        } finally {
            lock.unlock();
        }
        if (inEpoch) {
            consequence.membersArrived(hello);
        }
        return session;
    }

    /**
     * An agent is gone. Its processes may live: its ranks stay members until {@link #giveUpAgent}, so that another
     * agent can bring them back.
     *
     * @return whether it may come back
     */
    boolean agentLost(final AgentSession session, final String why) {
        lock.lock();
        try {
            session.close();
            session.lost = true;
            if (!members.lost(session)) {
                return false; // it has joined again already
            }
            log.add("agent on host " + session.host() + " lost: " + why);
            epoch.agentLost(session, why);
            epoch.changed();
            if (members.mayReturn(session)) {
                return true;
            }
        } finally {
            lock.unlock();
        }
        giveUpAgent(session);
        return false;
    }

    /** The ranks that the lost agent had, and that no other agent has brought back, are no longer waited for. */
    void giveUpAgent(final AgentSession session) {
        lock.lock();
        try {
            members.giveUp(session).forEach(epoch::lostWithAgent);
            epoch.changed();
        } finally {
            lock.unlock();
        }
        checkEmpty();
    }

    void handle(final AgentSession from, final Message message) throws ProtocolException {
        boolean mayBeEmpty = false;
        lock.lock();
        try {
            switch (message) {
                case RankJoined m -> rankJoined(from, m.member());
                case FromRank m -> fromRank(from, m);
                case RankGone m -> {
                    rankGone(m);
                    mayBeEmpty = true;
                }
                case TreeState m -> {
                    treeState(from, m);
                    mayBeEmpty = !m.alive();
                }
                case Frozen m -> epoch.stepAnswered(from, "FREEZE", m.epoch(), m);
                case Saved m -> epoch.stepAnswered(from, "SAVE", m.epoch(), m);
                case Thawed m -> epoch.stepAnswered(from, "THAW", m.epoch(), m);
                case StepFailed m -> {
                    log.add(m.step() + " failed on host " + from.host() + ": " + m.reason());
                    epoch.stepFailed(from, m);
                }
                default -> throw new ProtocolException("message of type " + message.type() + " from an agent");
            }
            epoch.changed();
        } finally {
            lock.unlock();
        }
        if (mayBeEmpty) {
            checkEmpty();
        }
    }

    private void treeState(final AgentSession from, final TreeState m) {
        if (m.alive()) {
            members.launched(from, m.tree());
            settings.putAll(m.settings());
            log.add("launched on host " + from.host() + ": pid " + m.tree().hostPid() + " "
                    + String.join(" ", m.tree().argv()));
        } else if (members.ended(from, m.tree())) {
            endAdrift(rank -> rank.agent.host().equals(from.host()) && rank.tree == m.tree().hostPid());
            log.add("ended on host " + from.host() + ": pid " + m.tree().hostPid());
        }
    }

    private void endAdrift(final Predicate<Rank> which) {
        members.endAdrift(which).forEach(this::forget);
    }

    /** Its process has ended: of what it has said of itself nothing is of use any more. */
    private void forget(final Rank rank) {
        tells.forgetWill(rank);
        published.forget(rank);
    }

    /** Whether its last program has ended. */
    boolean isEmpty() {
        return locked(members::haveAllEnded);
    }

    private void checkEmpty() {
        if (isEmpty()) {
            whenEmpty.run();
        }
    }

    // ---- ranks ----

    private void rankJoined(final AgentSession from, final Member member) throws ProtocolException {
        final boolean known = members.rank(member.uid()) != null;
        final Rank rank = members.adopt(member, from);
        final boolean reattaching = MemberState.of(member.state()) == MemberState.REATTACHING;
        if (reattaching) {
            if (!epoch.takesPart(rank)) {
                // Its agent was lost meanwhile and the others went on without it.
                members.remove(member.uid());
                from.send(new RankNumber(member.uid(), -1, epoch.number(), epoch.attempt(), epoch.deadlineSeconds(),
                        "epoch " + member.epoch() + " is over and this process is no longer part of it"));
                return;
            }
            rank.state = MemberState.REATTACHING;
        } else {
            rank.state = MemberState.RUNNING;
            epoch.joined(rank);
        }
        from.send(new RankNumber(rank.uid, rank.number, epoch.number(), epoch.attempt(), epoch.deadlineSeconds(), ""));
        if (!known || !reattaching) {
            log.add(rank + " joined: " + rank.program);
        }
    }

    private void rankGone(final RankGone m) {
        final Rank rank = members.remove(m.uid());
        if (rank == null) {
            return;
        }
        final boolean normal = m.how() == 0;
        final String what = rank + (normal ? " ended with status " + m.status()
                : m.how() == 1 ? " died" : " lost its link to the agent")
                + (m.text().isEmpty() ? "" : ": " + m.text());
        log.add(what);
        if (m.how() <= 1) {
            tells.carryOutWill(rank);
            forget(rank);
        }
        epoch.gone(rank, what, normal);
    }

    private void fromRank(final AgentSession from, final FromRank m) throws ProtocolException {
        final Rank rank = members.rank(m.uid());
        if (rank == null) {
            return; // it has been declared gone meanwhile
        }
        final Message message = Codec.decode(m.frame());
        switch (message) {
            case Contribute c -> epoch.contribute(rank, c);
            case Detached d -> epoch.detached(rank, d.epoch());
            case Done d -> epoch.done(rank, d.epoch());
            case Fail f -> failed(rank, f);
            case Progress p -> rank.waitingFor = p.waitingFor();
            case Publish p -> p.values().forEach((key, value) -> published.publish(key, value, epoch.number()));
            case Lookup l -> from.toRanks(List.of(rank.uid), new Found(l.id(),
                    published.lookup(l.keys(), epoch.number())));
            case Tell t -> tells.tell(rank, t);
            case LastWill w -> tells.keepWill(rank, m.frame());
            default -> throw new ProtocolException("message of type " + message.type() + " from a rank");
        }
    }

    private void failed(final Rank rank, final Fail f) {
        final String what = rank + " failed in " + Phase.of(f.phase()) + ": " + f.message();
        log.add(what);
        epoch.failed(rank, f.epoch(), what);
    }

    // ---- facts ----

    /** What goes on in it. */
    Epoch epoch() {
        return epoch;
    }

    /** Nothing goes on in it any more. */
    void endEpoch() {
        epoch.end();
        checkEmpty();
    }

    <T> T locked(final Supplier<T> look) {
        lock.lock();
        try {
            return look.get();
        } finally {
            lock.unlock();
        }
    }

    /** Guarded: use inside {@link #locked}. */
    Collection<Rank> ranks() {
        return members.ranks();
    }

    /** Guarded: use inside {@link #locked}. */
    Collection<AgentSession> agents() {
        return members.agents();
    }

    String name() {
        return locked(() -> name);
    }

    /** What went wrong when the restored ranks reattached; for status. */
    void restartProblem(final String problem) {
        lock.lock();
        try {
            restartProblem = problem;
        } finally {
            lock.unlock();
        }
    }

    String restartProblem() {
        return locked(() -> restartProblem);
    }

    String setting(final String key, final String otherwise) {
        return locked(() -> settings.getOrDefault(key, otherwise));
    }

    EventLog log() {
        return log;
    }
}
