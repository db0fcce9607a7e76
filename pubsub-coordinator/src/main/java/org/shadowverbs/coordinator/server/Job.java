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
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.client.OwnKey;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.RankLink;
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
import org.shadowverbs.coordinator.protocol.RankMessages.Answer;
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
import org.shadowverbs.coordinator.protocol.RankMessages.Told;
import org.shadowverbs.coordinator.store.PublishedStore;

/**
 * Who is in the job and where each is. Messages of agents change it, {@link CheckpointRun} and {@link Reattachment}
 * wait for the changes. Everything is guarded by one lock; nothing blocks while holding it.
 */
final class Job {
    private static final String JOB_SCOPE = "job/";
    private static final String EPOCH_SCOPE = "epoch-";

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final PublishedStore store;
    private final EventLog log;
    private final Runnable whenEmpty;

    private final Map<String, Rank> ranks = new LinkedHashMap<>();
    /** A process keeps its number also when its link broke and it came back. */
    private final Map<String, Integer> numbers = new HashMap<>();
    private final Map<String, AgentSession> agents = new LinkedHashMap<>();
    private final Set<AgentSession> lostAgents = new LinkedHashSet<>();
    /** Ranks that ran when their agent was lost for good, by uid: they may be connected to the others. */
    private final Map<String, Rank> adrift = new LinkedHashMap<>();
    private final Map<String, Integer> versions = new HashMap<>();
    /** Those that are not answered yet: a drain may have thousands of rounds, each with the keys of all queue pairs. */
    private final Map<String, Exchange> exchanges = new HashMap<>();
    /** The ranks of the epoch that goes on; empty between checkpoints. */
    private final Set<Rank> participants = new LinkedHashSet<>();
    private final Set<Integer> departed = new TreeSet<>();
    private final List<String> deaths = new ArrayList<>();

    private String name;
    private long epoch;
    private int attempt;
    private int deadlineSeconds;
    private int nextNumber;
    private boolean hadTrees;
    private Map<String, String> settings = new LinkedHashMap<>();
    /** Why what goes on is to stop; null while nothing is in its way. */
    private Stopped stop;
    /** Up to the commit a rank that leaves stops the checkpoint; in a reattachment the others go on without it. */
    private boolean leavingStops;
    /** In a restart a host that is lost stops it: half a job is not what was asked for. */
    private boolean restarting;
    private String stage = "running";
    private String restartProblem = "";
    private Consequence consequence = hello -> { };

    /** What the coordinator does about an agent that brings members in the middle of an epoch. */
    interface Consequence {
        void membersArrived(AgentHello hello);
    }

    Job(final String name, final long epoch, final int deadlineSeconds, final PublishedStore store, final EventLog log,
            final Runnable whenEmpty) {
        this.name = name;
        this.epoch = epoch;
        this.deadlineSeconds = deadlineSeconds;
        this.store = store;
        this.log = log;
        this.whenEmpty = whenEmpty;
    }

    void onMembersArrived(final Consequence c) {
        consequence = c;
    }

    // ---- agents ----

    AgentSession agentJoined(final AgentHello hello, final FrameChannel channel)
            throws ProtocolException {
        final AgentSession session;
        boolean inEpoch = hello.restored();
        lock.lock();
        try {
            if (!hello.job().isEmpty() && !hello.job().equals(name)) {
                if (!ranks.isEmpty() || !agents.isEmpty()) {
                    throw new ProtocolException("this coordinator serves job " + name + ", the agent on host "
                            + hello.host() + " belongs to job " + hello.job());
                }
                name = hello.job();
            }
            session = new AgentSession(hello, channel);
            final AgentSession before = agents.put(session.id(), session);
            if (before != null) {
                before.close();
            }
            epoch = Math.max(epoch, hello.epoch());
            attempt = Math.max(attempt, hello.attempt());
            hadTrees |= !hello.trees().isEmpty() || hello.restored();
            adopt(hello.settings());
            for (final Member member : hello.members()) {
                final Rank rank = adopt(member, session);
                rank.state = MemberState.of(member.state());
                inEpoch |= rank.state != MemberState.RUNNING;
            }
            lostAgents.removeIf(lost -> lost.host().equals(session.host()));
            // What is left of them on its host it has found.
            endAdrift(rank -> rank.agent.host().equals(session.host()) && !session.trees.containsKey(rank.tree));
            session.send(new AgentWelcome(name, epoch, deadlineSeconds));
            log.add("agent on host " + session.host() + " (pid " + session.pid() + ") joined with "
                    + hello.members().size() + " ranks, " + hello.trees().size() + " launched programs");
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        if (inEpoch) {
            consequence.membersArrived(hello);
        }
        return session;
    }

    private Rank adopt(final Member member, final AgentSession session) {
        adrift.remove(member.uid());
        Rank rank = ranks.get(member.uid());
        if (rank == null) {
            final int number = numbers.computeIfAbsent(member.uid(),
                    uid -> member.rank() >= 0 && !numbers.containsValue(member.rank()) ? member.rank() : nextNumber);
            nextNumber = Math.max(nextNumber, number + 1);
            rank = new Rank(member, number, session);
            ranks.put(rank.uid, rank);
        } else {
            rank.update(member, session);
        }
        return rank;
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
            if (!agents.remove(session.id(), session)) {
                return false; // it has joined again already
            }
            log.add("agent on host " + session.host() + " lost: " + why);
            ranks.values().stream().filter(r -> r.agent == session && r.state == MemberState.RUNNING)
                    .forEach(r -> session.leftRunning.add(r.uid));
            if (leavingStops) {
                stopWith("the agent on host " + session.host() + " was lost during " + stage + ": " + why, false);
            } else if (restarting) {
                stopWith("host " + session.host() + ": its restart was lost: " + why, false);
            }
            changed.signalAll();
            final boolean mayReturn = !session.command().isEmpty()
                    && (!session.trees.isEmpty() || ranks.values().stream().anyMatch(r -> r.agent == session));
            if (mayReturn) {
                lostAgents.add(session);
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
            lostAgents.remove(session);
            for (final Rank rank : ranks.values().stream().filter(r -> r.agent == session).toList()) {
                ranks.remove(rank.uid);
                if (session.leftRunning.contains(rank.uid) && !session.command().isEmpty()) {
                    adrift.put(rank.uid, rank);
                }
                if (participants.remove(rank)) {
                    departed.add(rank.number);
                    deaths.add(rank + " was lost with its agent");
                    if (leavingStops) {
                        stopWith(withoutAgent(rank), false);
                    }
                }
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        checkEmpty();
    }

    /** It may live, and half a job is none: its peers' queue pairs would come back in error. */
    private static String withoutAgent(final Rank rank) {
        return rank + " has no agent; start one on its host: shadowverbs agent --daemon -h HOST -p PORT";
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
                case Frozen m -> stepAnswered(from, "FREEZE", m.epoch(), m);
                case Saved m -> stepAnswered(from, "SAVE", m.epoch(), m);
                case Thawed m -> stepAnswered(from, "THAW", m.epoch(), m);
                case StepFailed m -> {
                    log.add(m.step() + " failed on host " + from.host() + ": " + m.reason());
                    stepAnswered(from, m.step(), m.epoch(), m);
                    if (leavingStops && m.epoch() == epoch) {
                        stopWith(m.step() + " failed on host " + from.host() + ": " + m.reason(), false);
                    } else if (restarting) {
                        stopWith("host " + from.host() + ": " + m.reason(), false);
                    }
                }
                default -> throw new ProtocolException("message of type " + message.type() + " from an agent");
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        if (mayBeEmpty) {
            checkEmpty();
        }
    }

    private void stepAnswered(final AgentSession from, final String step, final long ofEpoch, final Message answer) {
        if (from.step != null && from.step.name.equals(step) && from.step.epoch == ofEpoch) {
            from.step.answer = answer;
        }
    }

    private void treeState(final AgentSession from, final TreeState m) {
        if (m.alive()) {
            from.trees.put(m.tree().hostPid(), m.tree());
            hadTrees = true;
            adopt(m.settings());
            log.add("launched on host " + from.host() + ": pid " + m.tree().hostPid() + " "
                    + String.join(" ", m.tree().argv()));
        } else if (from.trees.remove(m.tree().hostPid()) != null) {
            endAdrift(rank -> rank.agent.host().equals(from.host()) && rank.tree == m.tree().hostPid());
            log.add("ended on host " + from.host() + ": pid " + m.tree().hostPid());
        }
    }

    private void endAdrift(final Predicate<Rank> which) {
        for (final Rank rank : adrift.values().stream().filter(which).toList()) {
            adrift.remove(rank.uid);
            forget(rank);
        }
    }

    private void adopt(final Map<String, String> more) {
        settings.putAll(more);
    }

    /** Whether its last program has ended. */
    boolean isEmpty() {
        lock.lock();
        try {
            return hadTrees && ranks.isEmpty() && lostAgents.isEmpty()
                    && agents.values().stream().allMatch(a -> a.trees.isEmpty());
        } finally {
            lock.unlock();
        }
    }

    private void checkEmpty() {
        if (isEmpty()) {
            whenEmpty.run();
        }
    }

    // ---- ranks ----

    private void rankJoined(final AgentSession from, final Member member) throws ProtocolException {
        final boolean known = ranks.containsKey(member.uid());
        final Rank rank = adopt(member, from);
        final boolean reattaching = MemberState.of(member.state()) == MemberState.REATTACHING;
        if (reattaching) {
            if (!participants.contains(rank)) {
                // Its agent was lost meanwhile and the others went on without it.
                ranks.remove(rank.uid);
                from.send(new RankNumber(member.uid(), -1, epoch, attempt, deadlineSeconds,
                        "epoch " + member.epoch() + " is over and this process is no longer part of it"));
                return;
            }
            rank.state = MemberState.REATTACHING;
        } else {
            rank.state = MemberState.RUNNING;
            if (participants.remove(rank)) {
                // Its link broke in mid-checkpoint; with open gates it is no part of the epoch any more.
                departed.add(rank.number);
            }
            if (leavingStops) {
                stopWith(rank + " joined during " + stage, true);
            }
        }
        from.send(new RankNumber(rank.uid, rank.number, epoch, attempt, deadlineSeconds, ""));
        if (!known || !reattaching) {
            log.add(rank + " joined: " + rank.program);
        }
    }

    private void rankGone(final RankGone m) {
        final Rank rank = ranks.remove(m.uid());
        if (rank == null) {
            return;
        }
        final boolean normal = m.how() == 0;
        final String what = rank + (normal ? " ended with status " + m.status()
                : m.how() == 1 ? " died" : " lost its link to the agent")
                + (m.text().isEmpty() ? "" : ": " + m.text());
        log.add(what);
        if (!normal) {
            deaths.add(what);
        }
        if (m.how() <= 1) {
            carryOutWill(rank);
            forget(rank);
        }
        if (participants.remove(rank)) {
            departed.add(rank.number);
            if (leavingStops) {
                stopWith(what + " (during " + stage + ")", normal);
            }
        }
    }

    private void fromRank(final AgentSession from, final FromRank m) throws ProtocolException {
        final Rank rank = ranks.get(m.uid());
        if (rank == null) {
            return; // it has been declared gone meanwhile
        }
        final Message message = Codec.decode(m.frame());
        switch (message) {
            case Contribute c -> contribute(rank, c);
            case Detached d -> {
                if (d.epoch() == epoch && participants.contains(rank)) {
                    rank.state = MemberState.DETACHED;
                }
            }
            case Done d -> {
                if (d.epoch() == epoch) {
                    rank.state = MemberState.RUNNING;
                    rank.waitingFor = "";
                }
            }
            case Fail f -> failed(rank, f);
            case Progress p -> {
                rank.waitingFor = p.waitingFor();
                rank.done = p.done();
                rank.total = p.total();
            }
            case Publish p -> p.values().forEach((key, value) ->
                    store.put((key.startsWith(RankLink.OF_EPOCH) ? scope() : JOB_SCOPE) + key, value));
            case Lookup l -> from.toRanks(List.of(rank.uid), new Found(l.id(), lookup(l.keys())));
            case Tell t -> tell(rank, t);
            case LastWill w -> store.put(willOf(rank), m.frame());
            default -> throw new ProtocolException("message of type " + message.type() + " from a rank");
        }
    }

    private void tell(final Rank from, final Tell tell) {
        for (final Rank rank : ranks.values()) {
            if (rank.number == tell.to()) {
                rank.agent.toRanks(List.of(rank.uid), new Told(from.number, tell.what()));
            }
        }
    }

    private static String willOf(final Rank rank) {
        return JOB_SCOPE + "will/" + rank.number;
    }

    private void carryOutWill(final Rank rank) {
        final byte[] will = store.get(willOf(rank));
        try {
            if (will != null && Codec.decode(will) instanceof LastWill w) {
                w.tells().forEach(tell -> tell(rank, tell));
            }
        } catch (ProtocolException e) {
            log.add("the last will of " + rank + ": " + e.getMessage());
        }
    }

    /** Its process has ended: of what it has said of itself nothing is of use any more. */
    private void forget(final Rank rank) {
        store.remove(willOf(rank));
        for (final OwnKey key : OwnKey.values()) {
            store.remove(JOB_SCOPE + key.of(rank.number));
        }
    }

    private Map<String, byte[]> lookup(final Set<String> keys) {
        final Map<String, byte[]> found = new LinkedHashMap<>();
        for (final String key : keys) {
            byte[] value = store.get(JOB_SCOPE + key);
            if (value == null) {
                value = store.get(scope() + key);
            }
            if (value != null) {
                found.put(key, value);
            }
        }
        return found;
    }

    private void failed(final Rank rank, final Fail f) {
        final Phase phase = Phase.of(f.phase());
        final String what = rank + " failed in " + phase + ": " + f.message();
        log.add(what);
        if (f.epoch() != epoch || !participants.contains(rank)) {
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

    private void contribute(final Rank rank, final Contribute c) throws ProtocolException {
        final Phase phase = Phase.of(c.phase());
        if (phase == null) {
            throw new ProtocolException("no phase " + c.phase());
        }
        if (c.epoch() != epoch || c.attempt() != attempt || !participants.contains(rank)) {
            return; // of an attempt that has been given up: its abort is on the way
        }
        c.publish().forEach((key, value) -> {
            versions.merge(key, 1, Integer::sum);
            store.put(scope() + key, value);
        });
        rank.waitingFor = c.note();
        exchange(phase, c.round()).add(rank, c);
    }

    private String scope() {
        return EPOCH_SCOPE + epoch + "/";
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

    // ---- what CheckpointRun and Reattachment use ----

    /** Begins an epoch with all ranks. */
    List<Rank> beginEpoch() throws Stopped {
        lock.lock();
        try {
            if (!participants.isEmpty()) {
                throw new Stopped("epoch " + epoch + " is not over: " + first(participants) + " is " + stage, false);
            }
            if (!adrift.isEmpty()) {
                throw new Stopped(withoutAgent(adrift.values().iterator().next()), false);
            }
            store.removeAll(EPOCH_SCOPE);
            epoch++;
            attempt = 0;
            clearExchanges();
            departed.clear();
            deaths.clear();
            stop = null;
            leavingStops = true;
            for (final Rank rank : ranks.values()) {
                participants.add(rank);
                rank.state = MemberState.IN_CHECKPOINT;
                rank.waitingFor = "";
            }
            stage = Phase.ANNOUNCE.name();
            return List.copyOf(participants);
        } finally {
            lock.unlock();
        }
    }

    /**
     * Takes over an epoch that agents told of.
     *
     * @param restart after a restart; else after a coordinator that was lost, with a new attempt
     */
    void takeOverEpoch(final boolean restart) {
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
            for (final Rank rank : ranks.values()) {
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
        versions.clear();
        agents.values().forEach(a -> a.holds.clear());
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

    void endEpoch() {
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
        checkEmpty();
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
                final Map<String, byte[]> values = new LinkedHashMap<>();
                for (final String key : keys) {
                    final int version = versions.getOrDefault(key, 0);
                    if (version == 0 || agent.holds.getOrDefault(key, 0) == version) {
                        continue;
                    }
                    final byte[] value = store.get(scope() + key);
                    if (value != null) {
                        values.put(key, value);
                        agent.holds.put(key, version);
                    }
                }
                final List<String> uids = participants.stream().filter(r -> r.agent == agent).map(r -> r.uid).toList();
                agent.toRanks(uids, new Answer(epoch, attempt, (byte) phase.ordinal(), round, values, unanimous,
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

    /** Tells every agent to do a step. */
    void tellAgents(final String step, final Message message) {
        lock.lock();
        try {
            stage = step;
            for (final AgentSession agent : agents.values()) {
                agent.step = new AgentSession.Step(step, epoch);
                agent.send(message);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Waits until every agent has answered that step, and returns the answers. */
    Map<AgentSession, Message> awaitAgents(final String step, final Duration deadline) throws Stopped {
        await(() -> waitingAgents(step).isEmpty(), deadline, () -> "the agent on host "
                + waitingAgents(step).getFirst().host() + " did not finish " + step + " within " + seconds(deadline));
        lock.lock();
        try {
            final Map<AgentSession, Message> answers = new LinkedHashMap<>();
            for (final AgentSession agent : agents.values()) {
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
        return agents.values().stream()
                .filter(a -> a.step != null && a.step.name.equals(step) && a.step.answer == null).toList();
    }

    /** Waits under the lock for a condition; ends early when something has to stop. */
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
        return named(late, r -> r.waitingFor) + " did not finish " + doing + " within " + seconds(deadline);
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

    static String seconds(final Duration d) {
        return d.toMillis() % 1000 == 0 ? d.toSeconds() + " s" : d.toMillis() + " ms";
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

    // ---- facts ----

    <T> T locked(final Supplier<T> look) {
        lock.lock();
        try {
            return look.get();
        } finally {
            lock.unlock();
        }
    }

    /** Guarded: use inside {@link #locked}. */
    int unanswered() {
        return exchanges.size();
    }

    /** Guarded: use inside {@link #locked}. */
    Collection<Rank> ranks() {
        return ranks.values();
    }

    /** Guarded: use inside {@link #locked}. */
    Collection<AgentSession> agents() {
        return agents.values();
    }

    String name() {
        return locked(() -> name);
    }

    long epoch() {
        return locked(() -> epoch);
    }

    int attempt() {
        return locked(() -> attempt);
    }

    String stage() {
        return locked(() -> stage);
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

    int participants() {
        return locked(participants::size);
    }

    /** Whether some rank may have acted on its connections, or let go of them: then all must make theirs anew. */
    boolean drainBegun() {
        return locked(() -> participants.stream().anyMatch(r -> r.state.compareTo(MemberState.CLOSED) >= 0));
    }

    List<String> deaths() {
        return locked(() -> List.copyOf(deaths));
    }

    String setting(final String key, final String otherwise) {
        return locked(() -> settings.getOrDefault(key, otherwise));
    }

    void setting(final String key, final String value, final boolean onlyIfAbsent) {
        lock.lock();
        try {
            if (onlyIfAbsent) {
                settings.putIfAbsent(key, value);
            } else {
                settings.put(key, value);
            }
        } finally {
            lock.unlock();
        }
    }

    Duration phaseDeadline() {
        return locked(() -> Duration.ofSeconds(deadlineSeconds));
    }

    int deadlineSeconds() {
        return locked(() -> deadlineSeconds);
    }

    EventLog log() {
        return log;
    }
}
