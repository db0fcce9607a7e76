// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Answer;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;

/**
 * What goes on in the job now: a checkpoint, the way back from one, or, between them, nothing. It knows who takes part, what
 * they have contributed and the agents have answered, and why it is to stop. {@link CheckpointRun} and {@link Reattachment}
 * act and wait; what {@link Job} hears of agents and ranks changes what they wait for.
 *
 * <p>Everything is guarded by the job's lock. Methods of the first part take it; those of the second, which only {@link Job}
 * calls, are called with it held.
 */
final class Epoch {
    private final ReentrantLock lock;
    private final Condition changed;
    private final Members members;
    private final Published published;
    private final int deadlineSeconds;

    /** Those that are not answered yet: a drain may have thousands of rounds, each with the keys of all queue pairs. */
    private final Map<String, Exchange> exchanges = new HashMap<>();
    /** The ranks of the epoch that goes on; empty between checkpoints. */
    private final Set<Rank> participants = new LinkedHashSet<>();
    /** Who began it and is no more; also the last rank of the job, if that had left before: of others a gap tells. */
    private final Set<Integer> departed = new TreeSet<>();
    private final List<String> deaths = new ArrayList<>();

    private long number;
    private int attempt;
    /** Why what goes on is to stop; null while nothing is in its way. */
    private Stopped stop;
    /** Up to the commit a rank that leaves stops the checkpoint; in a reattachment the others go on without it. */
    private boolean leavingStops;
    /** In a restart a host that is lost stops it: half a job is not what was asked for. */
    private boolean restarting;
    private String stage = "running";

    /**
     * @param lock the job's
     * @param number of the last epoch; 0: there was none
     * @param deadlineSeconds of each phase
     */
    Epoch(final ReentrantLock lock, final Members members, final Published published, final long number,
            final int deadlineSeconds) {
        this.lock = lock;
        changed = lock.newCondition();
        this.members = members;
        this.published = published;
        this.number = number;
        this.deadlineSeconds = deadlineSeconds;
    }

    // ---- from its begin to its end ----

    /** Begins a checkpoint with all ranks, and returns how many they are. */
    int begin() throws Stopped {
        lock.lock();
        try {
            if (!participants.isEmpty()) {
                throw new Stopped("epoch " + number + " is not over: " + first(participants) + " is " + stage, false);
            }
            if (!members.adrift().isEmpty()) {
                throw new Stopped(withoutAgent(members.adrift().iterator().next()), false);
            }
            published.forgetEpochs();
            number++;
            attempt = 0;
            clearExchanges();
            departed.clear();
            deaths.clear();
            stop = null;
            leavingStops = true;
            for (final Rank rank : members.ranks()) {
                participants.add(rank);
                rank.state = MemberState.IN_CHECKPOINT;
                rank.waitingFor = "";
            }
            members.lastIfGone().ifPresent(departed::add);
            stage = Phase.ANNOUNCE.name();
            return participants.size();
        } finally {
            lock.unlock();
        }
    }

    /**
     * Takes over an epoch that agents told of.
     *
     * @param restart after a restart; else after a coordinator that was lost, with a new attempt
     */
    void takeOver(final boolean restart) {
        lock.lock();
        try {
            restarting = restart;
            if (!restart) {
                attempt++;
            }
            clearExchanges();
            departed.clear();
            stop = null;
            leavingStops = false;
            participants.clear();
            for (final Rank rank : members.ranks()) {
                if (rank.state != MemberState.RUNNING) {
                    participants.add(rank);
                }
            }
        } finally {
            lock.unlock();
        }
    }

    private void clearExchanges() {
        exchanges.clear();
        published.begin(members.agents());
    }

    /** From here on the checkpoint is safe, or given up: who leaves now is only missed. */
    void nothingStopsFromHere() {
        lock.lock();
        try {
            leavingStops = false;
            stop = null;
        } finally {
            lock.unlock();
        }
    }

    /** What goes on is a restart, and it can't. */
    void stopRestart(final String why) {
        lock.lock();
        try {
            if (restarting) {
                stopWith(why, false);
                changed.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Gives up what the exchanges of this epoch have come to: a reattachment begins with clean ones. */
    int nextAttempt() {
        lock.lock();
        try {
            clearExchanges();
            return ++attempt;
        } finally {
            lock.unlock();
        }
    }

    /** Nothing goes on any more. */
    void end() {
        lock.lock();
        try {
            participants.clear();
            leavingStops = false;
            restarting = false;
            stop = null;
            stage = "running";
            exchanges.clear();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** For messages: what goes on now. */
    void stage(final String now) {
        lock.lock();
        try {
            stage = now;
        } finally {
            lock.unlock();
        }
    }

    // ---- exchanges with the ranks ----

    /**
     * Waits for the exchange, answers it, and returns it.
     *
     * @throws Stopped when the deadline passes (the message names who is missing and what for), or something stops
     */
    Exchange complete(final Phase phase, final int round, final Duration deadline) throws Stopped {
        return complete(phase, round, deadline, deadline);
    }

    /** The same, where {@code left} is what is left of the phase's deadline. */
    Exchange complete(final Phase phase, final int round, final Duration left, final Duration deadline)
            throws Stopped {
        stage(phase.name());
        await(() -> exchange(phase, round).missing(participants).isEmpty(), left,
                () -> waitingFor(exchange(phase, round).missing(participants), phase.name(), deadline));
        lock.lock();
        try {
            final Exchange x = exchange(phase, round);
            exchanges.remove(key(phase, round));
            final boolean unanimous = x.unanimous(participants);
            final List<Integer> gone = List.copyOf(departed);
            x.wanted(participants).forEach((agent, keys) -> {
                final Set<String> wanted = agent.wants(keys, Phase.continues(phase.ordinal(), round));
                final Map<String, byte[]> values = published.newTo(agent, wanted, number);
                final List<String> uids = participants.stream().filter(r -> r.agent == agent).map(r -> r.uid).toList();
                agent.toRanks(uids, new Answer(number, attempt, (byte) phase.ordinal(), round, values, unanimous,
                        participants.size(), gone));
            });
            if (phase.compareTo(Phase.DETACH) < 0 && (phase != Phase.DRAIN || unanimous)) {
                stage = Phase.of(phase.ordinal() + 1).name(); // the ranks go on with it at once
            }
            if (phase == Phase.PAIRED) {
                participants.forEach(r -> r.state = MemberState.CLOSED);
            }
            return x;
        } finally {
            lock.unlock();
        }
    }

    boolean unanimous(final Exchange x) {
        lock.lock();
        try {
            return x.unanimous(participants);
        } finally {
            lock.unlock();
        }
    }

    /** For a drain that does not end: the first that does not agree, and why. */
    String disagreement(final Exchange x) {
        lock.lock();
        try {
            final List<Rank> no = x.disagreeing(participants);
            return no.isEmpty() ? "" : named(no, x::note);
        } finally {
            lock.unlock();
        }
    }

    /** Waits until all participants are in the state. */
    void awaitState(final MemberState state, final String doing, final Duration deadline) throws Stopped {
        stage(doing);
        await(() -> participants.stream().allMatch(r -> r.state == state), deadline,
                () -> waitingFor(participants.stream().filter(r -> r.state != state).toList(), doing, deadline));
    }

    /** Sends to all participants, by way of their agents. */
    void toParticipants(final Message message) {
        lock.lock();
        try {
            final Map<AgentSession, List<String>> byAgent = new LinkedHashMap<>();
            for (final Rank rank : participants) {
                byAgent.computeIfAbsent(rank.agent, a -> new ArrayList<>()).add(rank.uid);
            }
            byAgent.forEach((agent, uids) -> agent.toRanks(uids, message));
        } finally {
            lock.unlock();
        }
    }

    // ---- steps of the agents ----

    /** Tells every agent to do a step. */
    void tellAgents(final String step, final Message message) {
        lock.lock();
        try {
            stage = step;
            for (final AgentSession agent : members.agents()) {
                agent.step = new AgentSession.Step(step, number);
                agent.send(message);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Waits until every agent has answered that step, and returns the answers. */
    Map<AgentSession, Message> awaitAgents(final String step, final Duration deadline) throws Stopped {
        await(() -> waitingAgents(step).isEmpty(), deadline, () -> "the agent on host "
                + waitingAgents(step).getFirst().host() + " did not finish " + step + " within " + Sizes.deadline(deadline));
        lock.lock();
        try {
            final Map<AgentSession, Message> answers = new LinkedHashMap<>();
            for (final AgentSession agent : members.agents()) {
                if (agent.step != null && agent.step.name.equals(step)) {
                    answers.put(agent, agent.step.answer);
                }
            }
            return answers;
        } finally {
            lock.unlock();
        }
    }

    private List<AgentSession> waitingAgents(final String step) {
        return members.agents().stream()
                .filter(a -> a.step != null && a.step.name.equals(step) && a.step.answer == null).toList();
    }

    // ---- waits ----

    /**
     * Waits until the condition holds.
     *
     * @param condition looked at with the lock held, whenever something has changed
     * @param late what to say when the deadline passes
     * @throws Stopped at the deadline, or as soon as something has to stop
     */
    void await(final BooleanSupplier condition, final Duration deadline, final Supplier<String> late) throws Stopped {
        long left = deadline.toNanos();
        lock.lock();
        try {
            while (true) {
                if (stop != null) {
                    throw stop;
                }
                if (condition.getAsBoolean()) {
                    return;
                }
                if (left <= 0) {
                    throw new Stopped(late.get(), false);
                }
                left = changed.awaitNanos(left);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new Stopped("interrupted during " + stage, false);
        } finally {
            lock.unlock();
        }
    }

    private String waitingFor(final List<Rank> late, final String doing, final Duration deadline) {
        return named(late, r -> r.waitingFor) + " did not finish " + doing + " within " + Sizes.deadline(deadline);
    }

    /** The first that says what it waits for tells more than the first. */
    private static String named(final List<Rank> late, final Function<Rank, String> note) {
        if (late.isEmpty()) {
            return "nobody";
        }
        final Rank first = late.stream().filter(r -> !note.apply(r).isEmpty()).findFirst().orElse(late.getFirst());
        final String waitingFor = note.apply(first);
        return first + (waitingFor.isEmpty() ? "" : ", waiting for " + waitingFor + ",")
                + (late.size() > 1 ? " and " + (late.size() - 1) + " more" : "");
    }

    private static String first(final Collection<Rank> ranks) {
        return ranks.iterator().next().toString();
    }

    // ---- facts ----

    long number() {
        return locked(() -> number);
    }

    /** How often the exchanges of this epoch have begun again; messages of an earlier attempt do not count. */
    int attempt() {
        return locked(() -> attempt);
    }

    String stage() {
        return locked(() -> stage);
    }

    int participants() {
        return locked(participants::size);
    }

    /** How many exchanges have begun and are not answered. */
    int unanswered() {
        return locked(exchanges::size);
    }

    /** Whether some rank may have acted on its connections, or let go of them: then all must make theirs anew. */
    boolean drainBegun() {
        return locked(() -> participants.stream().anyMatch(r -> r.state.compareTo(MemberState.CLOSED) >= 0));
    }

    List<String> deaths() {
        return locked(() -> List.copyOf(deaths));
    }

    Duration phaseDeadline() {
        return Duration.ofSeconds(deadlineSeconds);
    }

    int deadlineSeconds() {
        return deadlineSeconds;
    }

    private <T> T locked(final Supplier<T> look) {
        lock.lock();
        try {
            return look.get();
        } finally {
            lock.unlock();
        }
    }

    // ---- what Job hears, called with the lock held ----

    /** Something has changed that somebody may wait for. */
    void changed() {
        changed.signalAll();
    }

    /** An agent knows of an epoch that this coordinator has not seen. */
    void atLeast(final long seen, final int seenAttempt) {
        number = Math.max(number, seen);
        attempt = Math.max(attempt, seenAttempt);
    }

    /** Its connection is gone, and its ranks may still come back with another agent. */
    void agentLost(final AgentSession session, final String why) {
        if (leavingStops) {
            stopWith("the agent on host " + session.host() + " was lost during " + stage + ": " + why, false);
        } else if (restarting) {
            stopWith("host " + session.host() + ": its restart was lost: " + why, false);
        }
    }

    /** No agent has brought the rank back. */
    void lostWithAgent(final Rank rank) {
        if (participants.remove(rank)) {
            departed.add(rank.number);
            deaths.add(rank + " was lost with its agent");
            if (leavingStops) {
                stopWith(withoutAgent(rank), false);
            }
        }
    }

    /** It may live, and half a job is none: its peers' queue pairs would come back in error. */
    private static String withoutAgent(final Rank rank) {
        return rank + " has no agent; start one on its host: shadowverbs agent --daemon -h HOST -p PORT";
    }

    /** An agent has done a step, or has not: then the answer is a {@link StepFailed}. */
    void stepAnswered(final AgentSession from, final String step, final long ofEpoch, final Message answer) {
        if (from.step != null && from.step.name.equals(step) && from.step.epoch == ofEpoch) {
            from.step.answer = answer;
        }
    }

    void stepFailed(final AgentSession from, final StepFailed m) {
        stepAnswered(from, m.step(), m.epoch(), m);
        if (leavingStops && m.epoch() == number) {
            stopWith(m.step() + " failed on host " + from.host() + ": " + m.reason(), false);
        } else if (restarting) {
            stopWith("host " + from.host() + ": " + m.reason(), false);
        }
    }

    boolean takesPart(final Rank rank) {
        return participants.contains(rank);
    }

    /** The rank has joined with open gates. */
    void joined(final Rank rank) {
        if (participants.remove(rank)) {
            // Its link broke in mid-checkpoint; with open gates it is no part of the epoch any more.
            departed.add(rank.number);
        }
        if (leavingStops) {
            stopWith(rank + " joined during " + stage, true);
        }
    }

    /**
     * The rank has left the job.
     *
     * @param what for messages: which rank, and how it went
     * @param normal whether it ended by itself; else it counts among the deaths
     */
    void gone(final Rank rank, final String what, final boolean normal) {
        if (!normal) {
            deaths.add(what);
        }
        if (participants.remove(rank)) {
            departed.add(rank.number);
            if (leavingStops) {
                stopWith(what + " (during " + stage + ")", normal);
            }
        }
    }

    void detached(final Rank rank, final long ofEpoch) {
        if (ofEpoch == number && participants.contains(rank)) {
            rank.state = MemberState.DETACHED;
        }
    }

    void done(final Rank rank, final long ofEpoch) {
        if (ofEpoch == number) {
            rank.state = MemberState.RUNNING;
            rank.waitingFor = "";
        }
    }

    /** The rank can't go on with the epoch. */
    void failed(final Rank rank, final long ofEpoch, final String what) {
        if (ofEpoch != number || !participants.contains(rank)) {
            return;
        }
        if (leavingStops) {
            stopWith(what, false);
        } else {
            // The others can't wait for it: to them it is gone, and the command says so.
            participants.remove(rank);
            departed.add(rank.number);
            deaths.add(what);
        }
    }

    void contribute(final Rank rank, final Contribute c) throws ProtocolException {
        final Phase phase = Phase.of(c.phase());
        if (phase == null) {
            throw new ProtocolException("no phase " + c.phase());
        }
        if (c.epoch() != number || c.attempt() != attempt || !participants.contains(rank)) {
            return; // of an attempt that has been given up: its abort is on the way
        }
        published.put(number, c.publish());
        rank.waitingFor = c.note();
        exchange(phase, c.round()).add(rank, c);
    }

    private Exchange exchange(final Phase phase, final int round) {
        return exchanges.computeIfAbsent(key(phase, round), k -> new Exchange(phase, round));
    }

    private static String key(final Phase phase, final int round) {
        return phase + "/" + round;
    }

    private void stopWith(final String why, final boolean again) {
        // What really went wrong counts more than a change of members.
        if (stop == null || stop.again() && !again) {
            stop = new Stopped(why, again);
        }
    }
}
