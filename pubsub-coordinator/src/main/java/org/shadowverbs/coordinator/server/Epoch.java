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
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.client.Attachment;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.coordinator.client.NumberedKeys;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.HostMessages.HostContribution;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.StepProgress;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Answer;
import org.shadowverbs.coordinator.protocol.RankMessages.Checkpoint;

/**
 * What goes on in the job now: its {@link Course}, the {@link Stage} that it is in, who takes part, what they have contributed
 * and the agents have answered. {@link CheckpointRun} and {@link Reattachment} act and wait; what {@link Job} hears of agents
 * and ranks is an {@link Course.Event}, and the course says what comes of it.
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
    private final LongSupplier clock;
    private final Supplier<String> storeProblem;

    /** Those that are not answered yet: a drain may have thousands of rounds, each with the keys of all queue pairs. */
    private final Map<Long, Exchange> exchanges = new HashMap<>();
    /** Those of this attempt's way back that are answered: a rank whose link broke asks again. */
    private final Map<Long, Exchange> answered = new HashMap<>();
    /** The ranks of the epoch that goes on; empty between checkpoints. */
    private final Set<Rank> participants = new LinkedHashSet<>();
    /** Who began it and is no more; also the last rank of the job, if that had left before: of others a gap tells. */
    private final Set<Integer> departed = new TreeSet<>();
    /** Of those who began it and did not come through it, by number: what has become of each. */
    private final Map<Integer, String> lost = new LinkedHashMap<>();

    /** Until when each of those waits who wait now. */
    private final List<LongSupplier> waiting = new ArrayList<>();

    private Course course = Course.IDLE;
    /** Agents have told of an epoch that a coordinator before this one had begun: {@link #takeOver} is to come. */
    private boolean found;
    private Stage stage = Stage.RUNNING;
    private long stageBegan;
    private long number;
    /** Of an epoch that a coordinator before this one may have begun. */
    private long floor;
    private int attempt;
    /** Why what goes on is to stop; null while nothing is in its way. */
    private Stopped stop;
    /** Why nothing that goes on now is to go on, before {@link #beginEnding}; null: it is. */
    private Stopped abandoned;
    /** When the last gate opened on the way back, by System.nanoTime; 0: none has. */
    private long lastOpened;

    /**
     * @param lock the job's
     * @param number of the last epoch; 0: there was none
     * @param deadlineSeconds of each phase
     * @param clock tells the time of the deadlines: System.nanoTime, but for tests
     * @param storeProblem says why no checkpoint can be decided, or an empty string
     */
    Epoch(final ReentrantLock lock, final Members members, final Published published, final long number,
            final int deadlineSeconds, final LongSupplier clock, final Supplier<String> storeProblem) {
        this.storeProblem = storeProblem;
        this.lock = lock;
        changed = lock.newCondition();
        this.members = members;
        this.published = published;
        this.number = number;
        this.deadlineSeconds = deadlineSeconds;
        this.clock = clock;
    }

    // ---- from its begin to its end ----

    /** The next one gets a higher number than this. */
    void countFrom(final long highest) {
        lock.lock();
        try {
            number = Math.max(number, highest);
        } finally {
            lock.unlock();
        }
    }

    /** What no checkpoint begins with. Guarded. */
    List<String> obstacles() {
        final List<String> obstacles = new ArrayList<>();
        final String store = storeProblem.get();
        if (!store.isEmpty()) {
            obstacles.add(store);
        }
        members.withoutAgent().forEach(rank -> obstacles.add(withoutAgent(rank)));
        for (final Rank rank : members.ranks()) {
            // It was given up on its way back from the last one: what it says next is of that one, and turns it away.
            if (rank.state != MemberState.RUNNING) {
                obstacles.add(rank + " has not come back yet from epoch " + number);
            }
        }
        return obstacles;
    }

    /** Begins a checkpoint with all ranks, and returns how many they are. */
    int begin() throws Stopped {
        lock.lock();
        try {
            if (abandoned != null) {
                throw abandoned;
            }
            if (course != Course.IDLE || found) {
                throw new Stopped("epoch " + number + " is not over: it is in " + stage, false);
            }
            final List<String> obstacles = obstacles();
            if (!obstacles.isEmpty()) {
                throw new Stopped(obstacles.getFirst(), false);
            }
            published.forgetEpochs();
            number = Math.max(number, floor) + 1;
            attempt = 0;
            startAnew(Course.CHECKPOINT);
            for (final Rank rank : members.ranks()) {
                participants.add(rank);
                rank.waitingFor = "";
            }
            members.lastIfGone().ifPresent(departed::add);
            goTo(Stage.ANNOUNCE);
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
            if (!restart) {
                attempt++;
            }
            startAnew(restart ? Course.RESTART : Course.BACK);
            for (final Rank rank : members.ranks()) {
                if (rank.state != MemberState.RUNNING) {
                    participants.add(rank);
                }
            }
            goTo(restart ? Stage.RESTORE : Stage.THAW);
        } finally {
            lock.unlock();
        }
    }

    /** The job's processes are to end, in whatever they are. */
    void beginEnding() {
        lock.lock();
        try {
            startAnew(Course.ENDING);
            abandoned = null;
        } finally {
            lock.unlock();
        }
    }

    /** Ranks of that checkpoint are about to come: a restart, but with agents that have been there. {@link #takePart} is to follow. */
    void beginRecovery(final long ofCheckpoint) {
        lock.lock();
        try {
            startAnew(Course.RESTART);
            goBackTo(ofCheckpoint, 0);
        } finally {
            lock.unlock();
        }
    }

    /** Those that have come take part. */
    void takePart() {
        lock.lock();
        try {
            participants.addAll(members.ranks());
        } finally {
            lock.unlock();
        }
    }

    private void startAnew(final Course now) {
        clearExchanges();
        participants.clear();
        departed.clear();
        lost.clear();
        stop = null;
        found = false;
        course = now;
    }

    private void clearExchanges() {
        exchanges.clear();
        answered.clear();
        published.begin();
        members.agents().forEach(agent -> agent.wanted.clear());
    }

    private void goTo(final Stage next) {
        if (stage != next) {
            stage = next;
            stageBegan = clock.getAsLong();
            changed.signalAll();
        }
    }

    /** From here on the checkpoint is safe, or given up: who leaves now is only missed. */
    void turnBack() {
        lock.lock();
        try {
            course = Course.BACK;
            stop = null;
            lastOpened = 0;
        } finally {
            lock.unlock();
        }
    }

    /** The ranks are back at work, and what was written of them is made safe: from here on only agents take part. */
    void ranksRun() {
        lock.lock();
        try {
            participants.clear();
            clearExchanges();
            course = Course.SEALING;
            stop = null;
        } finally {
            lock.unlock();
        }
    }

    /** Whether no rank has anything to do with what goes on. */
    boolean disturbsNobody() {
        return locked(() -> course == Course.IDLE && stage == Stage.RUNNING || course == Course.SEALING);
    }

    /** What goes on is a restart, and it can't. */
    void stopRestart(final String why) {
        lock.lock();
        try {
            if (course == Course.RESTART) {
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
            stop = null;
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
            exchanges.clear();
            answered.clear();
            course = Course.IDLE;
            stop = null;
            goTo(Stage.RUNNING);
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** What goes on now. */
    void enter(final Stage now) {
        lock.lock();
        try {
            goTo(now);
        } finally {
            lock.unlock();
        }
    }

    /** The next one gets a higher number than this, whatever the one is that goes on. */
    void nextAbove(final long highest) {
        lock.lock();
        try {
            floor = Math.max(floor, highest);
        } finally {
            lock.unlock();
        }
    }

    // ---- exchanges with the ranks ----

    /**
     * Waits for the exchange, answers it, and returns it.
     *
     * @throws Stopped when a rank is late (the message names who is missing and what for), or something stops
     */
    Exchange complete(final Phase phase, final int round) throws Stopped {
        enter(Stage.of(phase));
        if (phase == Phase.PUBLISHED) {
            missThoseThatRun();
        }
        awaitRanks(rank -> exchange(phase, round).lacks(rank));
        lock.lock();
        try {
            if (stop != null) {
                throw stop; // Who was told so meanwhile must not be told otherwise by the answer.
            }
            final Exchange x = exchange(phase, round);
            exchanges.remove(key(phase, round));
            if (phase.reattaches()) {
                answered.put(key(phase, round), x);
            }
            final boolean unanimous = x.unanimous(participants);
            if (keepsDevices(x, unanimous)) {
                final String problem = published.keep(number, Attachment.AGREED, new byte[0]);
                if (!problem.isEmpty()) {
                    throw new Stopped(problem, false); // nobody has been told
                }
            }
            answerAll(x, unanimous);
            published.answered(phase);
            // The ranks go on with what is next at once.
            if (phase == Phase.REPLAYED) {
                goTo(Stage.OPENING);
            } else if (phase.pairs(round, unanimous)) {
                goTo(Stage.DRAIN);
            } else if (phase != Phase.DETACH && (phase != Phase.DRAIN && phase != Phase.ANNOUNCE || unanimous)) {
                goTo(Stage.of(Phase.of(phase.ordinal() + 1)));
            }
            if (phase.pairs(round, unanimous)) {
                participants.forEach(r -> r.state = MemberState.CLOSED);
            }
            return x;
        } finally {
            lock.unlock();
        }
    }

    /** By this answer all ranks keep their devices open: at once, or in the round in which all have made that possible. */
    static boolean keepsDevices(final Exchange x, final boolean unanimous) {
        return x.phase == Phase.DETACH && unanimous && x.round != 1;
    }

    /** Whether it has come to that: each rank then goes on by itself, whatever becomes of the checkpoint. */
    boolean attached() {
        lock.lock();
        try {
            return published.get(number, Attachment.AGREED) != null;
        } finally {
            lock.unlock();
        }
    }

    /** What the participants have said of their devices, as far as they had something to say. By rank. */
    Map<Integer, Attachment> attachments() {
        lock.lock();
        try {
            final Map<Integer, Attachment> all = new LinkedHashMap<>();
            for (final Rank rank : participants) {
                final byte[] value = published.get(number, Attachment.key(rank.number));
                if (value != null) {
                    all.put(rank.number, Attachment.decode(value));
                }
            }
            return all;
        } finally {
            lock.unlock();
        }
    }

    /** A way back begins, of ranks with closed gates. */
    private void missThoseThatRun() {
        lock.lock();
        try {
            List.copyOf(participants).stream().filter(r -> r.state == MemberState.RUNNING).forEach(this::missRunning);
        } finally {
            lock.unlock();
        }
    }

    private void missRunning(final Rank rank) {
        miss(rank, rank + " has gone on before the others, by itself");
    }

    /** Each host once; hosts that want the same get the same bytes. */
    private void answerAll(final Exchange x, final boolean unanimous) {
        final List<Integer> runs = NumberedKeys.runs(participants.stream().map(r -> r.number).toList());
        final Map<Set<String>, byte[]> answers = new HashMap<>();
        uidsByAgent().forEach((agent, uids) -> {
            final Set<String> wishes = x.wanted(agent);
            if (x.phase != Phase.DRAIN) {
                agent.toRanks(uids, answers.computeIfAbsent(wishes, w -> AgentSession.bare(answer(x, unanimous,
                        published.all(w), runs))));
                return;
            }
            if (!Phase.continues(x.phase.ordinal(), x.round)) {
                agent.wanted.clear();
            }
            final Set<String> more = new LinkedHashSet<>();
            wishes.forEach(wish -> NumberedKeys.each(wish, key -> {
                if (agent.wanted.add(key)) {
                    more.add(key);
                }
            }));
            agent.toRanks(uids, answer(x, unanimous, published.news(agent.wanted, more), runs));
        });
    }

    private Map<AgentSession, List<String>> uidsByAgent() {
        final Map<AgentSession, List<String>> byAgent = new LinkedHashMap<>();
        for (final Rank rank : participants) {
            byAgent.computeIfAbsent(rank.agent, a -> new ArrayList<>()).add(rank.uid);
        }
        return byAgent;
    }

    private Answer answer(final Exchange x, final boolean unanimous, final Map<String, byte[]> values,
            final List<Integer> runs) {
        return new Answer(number, attempt, (byte) x.phase.ordinal(), x.round, values, unanimous, participants.size(),
                runs, List.copyOf(departed));
    }

    boolean unanimous(final Exchange x) {
        lock.lock();
        try {
            return x.unanimous(participants);
        } finally {
            lock.unlock();
        }
    }

    /** Of a drain: stops it when its time is over and this round has not ended it. The message names who does not agree. */
    void requireTime(final Exchange x) throws Stopped {
        lock.lock();
        try {
            if (clock.getAsLong() - stageBegan > phaseDeadline().toNanos()) {
                throw new Stopped(named(x.disagreeing(participants), x::note) + " did not finish " + stage + " within "
                        + Sizes.deadline(phaseDeadline()) + " (" + (x.round + 1) + " rounds)", false);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Waits until all participants are in the state. */
    void awaitState(final Stage doing, final MemberState state) throws Stopped {
        lock.lock();
        try {
            goTo(doing);
            stageBegan = clock.getAsLong(); // who waits again waits as long again
        } finally {
            lock.unlock();
        }
        awaitRanks(rank -> rank.state != state);
    }

    /** Tells all participants, by way of their agents, that it has begun. */
    void tellBegun(final Checkpoint message) {
        lock.lock();
        try {
            participants.forEach(rank -> rank.state = MemberState.IN_CHECKPOINT);
            uidsByAgent().forEach((agent, uids) -> agent.toRanks(uids, message));
        } finally {
            lock.unlock();
        }
    }

    // ---- steps of the agents ----

    /** Tells every agent to do a step. */
    void tellAgents(final Stage step, final Message message) {
        tellAgents(step, agent -> message);
    }

    /** Tells every agent to do a step, each in its own words; one for which there are none has nothing to do. */
    void tellAgents(final Stage step, final Function<AgentSession, Message> message) {
        lock.lock();
        try {
            goTo(step);
            for (final AgentSession agent : members.agents()) {
                final Message its = message.apply(agent);
                agent.step = its == null ? null : new AgentSession.Step(step.step(), number, agent.host(), clock.getAsLong());
                if (its != null) {
                    agent.send(its);
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /** Waits until every agent has answered the step that it was told last, and returns the answers. */
    Map<AgentSession, Message> awaitAgents() throws Stopped {
        final Stage step = stage();
        return awaitAgents(step, step.limit.time().plus(
                step.limit.kind() == Stage.Limit.Kind.STEP_SILENCE ? phaseDeadline() : Duration.ZERO));
    }

    /** @param deadline how long an agent may say nothing of how the step goes on */
    Map<AgentSession, Message> awaitAgents(final Stage step, final Duration deadline) throws Stopped {
        final Awaited<AgentSession> awaited;
        lock.lock();
        try {
            awaited = new Awaited<>(members.agents(), agent -> !agent.lost && agent.step != null
                    && agent.step.name.equals(step.step())
                    && agent.step.answer == null, agent -> agent.step.heard + deadline.toNanos());
        } finally {
            lock.unlock();
        }
        await(() -> awaited.none() ? HOLDS : awaited.lateAt(clock.getAsLong()), () -> {
            final AgentSession.Step s = awaited.missing().stream().map(agent -> agent.step)
                    .min((a, b) -> Long.compare(a.heard - b.heard, 0)).orElseThrow();
            return new Stopped("the agent on host " + s.host + " did not finish " + step + (s.done == 0 ? " within "
                    + Sizes.deadline(deadline) : ": " + Sizes.bytes(s.done) + " were done when it stopped going on, "
                    + Sizes.deadline(deadline) + " ago"), false);
        });
        lock.lock();
        try {
            final Map<AgentSession, Message> answers = new LinkedHashMap<>();
            for (final AgentSession agent : members.agents()) {
                if (agent.step != null && agent.step.name.equals(step.step())) {
                    answers.put(agent, agent.step.answer);
                }
            }
            return answers;
        } finally {
            lock.unlock();
        }
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
        final long end = clock.getAsLong() + deadline.toNanos();
        await(() -> condition.getAsBoolean() ? HOLDS : end, () -> new Stopped(late.get(), false));
    }

    /** Waits until no participant is missing, as long as the stage's limit allows. */
    private void awaitRanks(final Predicate<Rank> missing) throws Stopped {
        final Awaited<Rank> awaited;
        lock.lock();
        try {
            awaited = new Awaited<>(participants, rank -> participants.contains(rank) && missing.test(rank),
                    this::lateAt);
        } finally {
            lock.unlock();
        }
        await(() -> awaited.none() ? HOLDS : awaited.lateAt(clock.getAsLong()), () -> {
            final List<Rank> late = awaited.missing().stream().filter(r -> lateAt(r) - clock.getAsLong() <= 0).toList();
            return new Stopped(named(late, r -> r.waitingFor) + " did not finish " + stage + " within "
                    + Sizes.deadline(phaseDeadline()), course.of(Course.Event.LATE) == Course.Effect.AGAIN, late);
        });
    }

    private long lateAt(final Rank rank) {
        final boolean heard = stage.limit.kind() == Stage.Limit.Kind.SILENCE && rank.lastSign - stageBegan > 0;
        return (heard ? rank.lastSign : stageBegan) + phaseDeadline().toNanos();
    }

    private static final long HOLDS = Long.MAX_VALUE;

    /** @param end when it is too late, or {@link #HOLDS} */
    private void await(final LongSupplier end, final Supplier<Stopped> late) throws Stopped {
        lock.lock();
        try {
            while (true) {
                if (abandoned != null) {
                    throw abandoned;
                }
                if (stop != null) {
                    throw stop;
                }
                final long until = end.getAsLong();
                if (until == HOLDS) {
                    return;
                }
                final long left = until - clock.getAsLong();
                if (left <= 0) {
                    throw late.get();
                }
                waiting.add(end);
                try {
                    changed.awaitNanos(left);
                } finally {
                    waiting.remove(end);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new Stopped("interrupted during " + stage, false);
        } finally {
            lock.unlock();
        }
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

    // ---- facts ----

    /** Whether the ranks are to be ended, so that nobody need lead them back to work. */
    boolean isAbandoned() {
        return locked(() -> abandoned != null);
    }

    long number() {
        return locked(() -> number);
    }

    /** How often the exchanges of this epoch have begun again; messages of an earlier attempt do not count. */
    int attempt() {
        return locked(() -> attempt);
    }

    Stage stage() {
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

    /** What has become of those who began it and did not come through it, by number. */
    Map<Integer, String> lost() {
        return locked(() -> new LinkedHashMap<>(lost));
    }

    /** Those ranks have been waited for often enough: the others go on without them. */
    void miss(final List<Rank> late, final String why) {
        lock.lock();
        try {
            late.forEach(rank -> miss(rank, rank + why));
            changed.signalAll();
        } finally {
            lock.unlock();
        }
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

    /** Whatever goes on, or is about to, stops at once and leaves the ranks as they are: they are to be ended. */
    void abandon(final String why) {
        abandoned = new Stopped(why, false);
        changed.signalAll();
    }

    /** Something has changed that somebody may wait for. He is woken when he need not wait any more. */
    void changed() {
        if (stop != null || abandoned != null) {
            changed.signalAll();
            return;
        }
        for (final LongSupplier end : waiting) {
            final long until = end.getAsLong();
            if (until == HOLDS || until - clock.getAsLong() <= 0) {
                changed.signalAll();
                return;
            }
        }
    }

    /** An agent has come whose ranks are in the midst of an epoch. */
    void found() {
        found = course == Course.IDLE;
    }

    /**
     * An agent has come with processes of that checkpoint. Before the first of a restart there are none: what goes on is the epoch of
     * the checkpoint, also where this coordinator has made later ones, and nothing counts that the processes of before have published.
     */
    void broughtBack(final long ofCheckpoint, final int itsAttempt) {
        if (course == Course.IDLE && members.ranks().isEmpty()) {
            goBackTo(ofCheckpoint, itsAttempt);
        } else {
            atLeast(ofCheckpoint, itsAttempt);
        }
    }

    /** The processes that there were are no more, and those that come are in that epoch, which may be an older one. */
    private void goBackTo(final long ofCheckpoint, final int itsAttempt) {
        published.forgetAll();
        number = ofCheckpoint;
        attempt = itsAttempt;
    }

    /** An agent knows of an epoch that this coordinator has not seen. */
    void atLeast(final long seen, final int seenAttempt) {
        if (course == Course.ENDING || course == Course.RESTART) {
            return; // what is brought back is of an older one, and nobody else is of any
        }
        number = Math.max(number, seen);
        attempt = Math.max(attempt, seenAttempt);
    }

    /** Its connection is gone, and its ranks may still come back with another agent. */
    void agentLost(final AgentSession session, final String why) {
        happened(Course.Event.AGENT_LOST, course == Course.RESTART
                ? "host " + session.host() + ": its restart was lost: " + why
                : "the agent on host " + session.host() + " was lost during " + stage + ": " + why);
    }

    /** No agent has brought the rank back. */
    void lostWithAgent(final Rank rank) {
        if (miss(rank, rank + " was lost with its agent")) {
            happened(Course.Event.AGENT_STAYS_AWAY, withoutAgent(rank));
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

    void stepGoesOn(final AgentSession from, final StepProgress m) {
        if (from.step != null && from.step.name.equals(m.step()) && from.step.epoch == m.epoch()) {
            from.step.heard = clock.getAsLong();
            from.step.done = m.done();
        }
    }

    void stepFailed(final AgentSession from, final StepFailed m) {
        stepAnswered(from, m.step(), m.epoch(), m);
        final String what = (course == Course.RESTART ? "host " + from.host() + ": "
                : m.step() + " failed on host " + from.host() + ": ") + m.reason();
        if (m.epoch() == number) {
            happened(m.passes() ? Course.Event.STEP_FAILED_FOR_NOW : Course.Event.STEP_FAILED, what);
        }
    }

    boolean takesPart(final Rank rank) {
        return found || participants.contains(rank);
    }

    /**
     * The rank has joined with open gates.
     *
     * @param itsEpoch the last that it knows of: one that began this one may never have heard so, from an agent that was lost
     * @return whether it is one that takes part in a way back: then it says next what has become of that
     */
    boolean joined(final Rank rank, final long itsEpoch) {
        rank.lastSign = clock.getAsLong();
        if (course == Course.CHECKPOINT && participants.remove(rank)) {
            departed.add(rank.number); // its link broke in mid-checkpoint; with open gates it is no part of it any more
        }
        happened(Course.Event.JOINED, rank + " joined during " + stage);
        return itsEpoch >= number && participants.contains(rank);
    }

    /** The rank, which takes part, has come back behind closed gates: by its verdict, or as its link broke. */
    void returned(final Rank rank) {
        rank.lastSign = clock.getAsLong();
        if (course == Course.CHECKPOINT) {
            happened(Course.Event.FAILED, rank + " lost its link during " + stage);
        }
    }

    /**
     * The rank has left the job.
     *
     * @param what for messages: which rank, and how it went
     * @param normal whether it ended by itself; else it counts among those that are lost
     */
    void gone(final Rank rank, final String what, final boolean normal) {
        if (!normal) {
            lost.put(rank.number, what);
        }
        if (leave(rank)) {
            happened(normal ? Course.Event.ENDED : Course.Event.DIED, what + " (during " + stage + ")");
        }
    }

    void detached(final Rank rank, final long ofEpoch) {
        if (ofEpoch == number && participants.contains(rank)) {
            rank.state = MemberState.DETACHED;
            rank.lastSign = clock.getAsLong();
            rank.waitingFor = "";
        }
    }

    /** When the last gate opened that is known of, by System.nanoTime; 0: none has on the way back. */
    long lastOpened() {
        lock.lock();
        try {
            return lastOpened;
        } finally {
            lock.unlock();
        }
    }

    /** Its gate is open, for so long already. */
    void done(final Rank rank, final long ofEpoch, final long openNanos) {
        if (ofEpoch != number) {
            return;
        }
        final long at = System.nanoTime() - Math.max(0, openNanos);
        lastOpened = lastOpened == 0 || at - lastOpened > 0 ? at : lastOpened;
        rank.state = MemberState.RUNNING;
        rank.waitingFor = "";
        if (course == Course.CHECKPOINT && participants.contains(rank)) {
            happened(Course.Event.FAILED, rank + " has gone on by itself during " + stage);
        }
        if (course != Course.CHECKPOINT && stage.compareTo(Stage.PUBLISHED) >= 0 && stage != Stage.OPENING) {
            missRunning(rank);
        }
    }

    /** What the participants have used of their devices, as they have published it. */
    List<Needs> needs() {
        lock.lock();
        try {
            final List<Needs> needs = new ArrayList<>();
            for (final Rank rank : participants) {
                final byte[] value = published.get(number, Needs.key(rank.number));
                needs.addAll(value == null ? List.of() : Needs.decode(rank.number, value));
            }
            return needs;
        } finally {
            lock.unlock();
        }
    }

    /**
     * The rank can't go on with the epoch.
     *
     * @return whether it has not said so before
     */
    boolean failed(final Rank rank, final long ofEpoch, final String what) {
        if (ofEpoch != number) {
            return false;
        }
        if (course.of(Course.Event.FAILED) == Course.Effect.MISSED) {
            leave(rank); // the others can't wait for it: to them it is gone
        } else if (participants.contains(rank)) {
            happened(Course.Event.FAILED, what);
        }
        return !what.equals(lost.put(rank.number, what));
    }

    /** It works, and this is what it waits for. */
    void progress(final Rank rank, final String waitingFor) {
        rank.waitingFor = waitingFor;
        rank.lastSign = clock.getAsLong();
    }

    private boolean leave(final Rank rank) {
        if (!participants.remove(rank)) {
            return false;
        }
        departed.add(rank.number);
        return true;
    }

    /** @return whether it took part */
    private boolean miss(final Rank rank, final String what) {
        final boolean left = leave(rank);
        if (left) {
            lost.put(rank.number, what);
        }
        return left;
    }

    private void happened(final Course.Event event, final String what) {
        switch (course.of(event)) {
            case STOPS -> stopWith(what, false);
            case AGAIN -> stopWith(what, true);
            default -> { }
        }
    }

    /**
     * Ranks of a host contribute to an exchange.
     *
     * @return those of them that want to go on with what the others have gone on without them
     */
    List<Rank> contribute(final AgentSession from, final Collection<Rank> ranks, final HostContribution c)
            throws ProtocolException {
        final Phase phase = Phase.of(c.phase());
        if (phase == null) {
            throw new ProtocolException("no phase " + c.phase());
        }
        try {
            c.want().forEach(NumberedKeys::check);
        } catch (IllegalArgumentException e) {
            throw new ProtocolException(e.getMessage());
        }
        final List<Rank> apart = ranks.stream().filter(rank -> found || !participants.contains(rank)).toList();
        if (apart.size() == ranks.size()) {
            return found || !phase.reattaches() ? List.of() : apart;
        }
        final List<Rank> own = apart.isEmpty() ? List.copyOf(ranks) : ranks.stream().filter(participants::contains)
                .toList();
        final long now = clock.getAsLong();
        own.forEach(rank -> rank.lastSign = now);
        final List<Rank> turnedAway = phase.reattaches() ? apart : List.of();
        if (c.epoch() != number || c.attempt() != attempt) {
            return turnedAway; // of an attempt that has been given up: its abort is on the way
        }
        final Exchange before = answered.get(key(phase, c.round()));
        if (before != null) {
            from.toRanks(own.stream().map(rank -> rank.uid).toList(), answer(before, before.unanimous(participants),
                    published.all(c.want()), NumberedKeys.runs(participants.stream().map(r -> r.number).toList())));
            return turnedAway;
        }
        published.exchanged(phase, c.publish());
        final Exchange x = exchange(phase, c.round());
        for (final Rank rank : own) {
            rank.waitingFor = c.notes().getOrDefault(rank.uid, "");
            x.add(rank, !c.against().contains(rank.uid), rank.waitingFor);
        }
        x.want(from, c.want());
        return turnedAway;
    }

    private Exchange exchange(final Phase phase, final int round) {
        return exchanges.computeIfAbsent(key(phase, round), k -> new Exchange(phase, round));
    }

    private static long key(final Phase phase, final int round) {
        return (long) phase.ordinal() << 32 | round;
    }

    private void stopWith(final String why, final boolean again) {
        // What really went wrong counts more than a change of members.
        if (stop == null || stop.again() && !again) {
            stop = new Stopped(why, again);
        }
    }
}
