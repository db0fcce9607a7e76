// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.client.NumberedKeys;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.Codec;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.HostMessages.Accepted;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.protocol.HostMessages.FromRank;
import org.shadowverbs.coordinator.protocol.HostMessages.Frozen;
import org.shadowverbs.coordinator.protocol.HostMessages.HostContribution;
import org.shadowverbs.coordinator.protocol.HostMessages.HostRanks;
import org.shadowverbs.coordinator.protocol.HostMessages.Inspected;
import org.shadowverbs.coordinator.protocol.HostMessages.Member;
import org.shadowverbs.coordinator.protocol.HostMessages.RankGone;
import org.shadowverbs.coordinator.protocol.HostMessages.RankJoined;
import org.shadowverbs.coordinator.protocol.HostMessages.RankNumber;
import org.shadowverbs.coordinator.protocol.HostMessages.Released;
import org.shadowverbs.coordinator.protocol.HostMessages.PreCopied;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepared;
import org.shadowverbs.coordinator.protocol.HostMessages.Saved;
import org.shadowverbs.coordinator.protocol.HostMessages.Sealed;
import org.shadowverbs.coordinator.protocol.HostMessages.Say;
import org.shadowverbs.coordinator.protocol.HostMessages.SocketsHeld;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.StepProgress;
import org.shadowverbs.coordinator.protocol.HostMessages.Terminate;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.HostMessages.TreeState;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiState;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.AskCheckpoint;
import org.shadowverbs.coordinator.protocol.RankMessages.AskWork;
import org.shadowverbs.coordinator.protocol.RankMessages.Checked;
import org.shadowverbs.coordinator.protocol.RankMessages.ExitMessages;
import org.shadowverbs.coordinator.protocol.RankMessages.Fail;
import org.shadowverbs.coordinator.protocol.RankMessages.Found;
import org.shadowverbs.coordinator.protocol.RankMessages.Lookup;
import org.shadowverbs.coordinator.protocol.RankMessages.Notify;
import org.shadowverbs.coordinator.protocol.RankMessages.Progress;
import org.shadowverbs.coordinator.protocol.RankMessages.Publish;
import org.shadowverbs.coordinator.protocol.RankMessages.Work;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Alive;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.EndProcesses;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Launchers;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Output;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.OutputTaken;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.ProcessesEnded;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.ProgramEnded;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Recovering;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.UserAsks;
import org.shadowverbs.coordinator.protocol.ShellMessages.ShellFailed;
import org.shadowverbs.coordinator.protocol.ShellMessages.StartShell;
import org.shadowverbs.coordinator.store.JobStore;

/**
 * The job as the coordinator knows it: messages of agents come here and change {@link Members}, {@link Epoch} and what is
 * {@link Published}. One lock guards all of these. Nobody waits for another process while holding it, nor for a store, but for
 * that of a coordinator started anew, which has to be opened before it can be asked.
 */
final class Job {
    private static final int SIGKILL = 9;
    private static final int KILLED_BY = 128;

    private final ReentrantLock lock = new ReentrantLock();
    private final EventLog log;
    private final Runnable whenEmpty;
    private final Members members = new Members();
    private final Published published;
    private final Notifications notifications;
    private final PmiSpaces pmi = new PmiSpaces();
    private final Epoch epoch;
    private final Lineage lineage;
    private final FailureHistory history;

    private final Map<String, String> settings = new LinkedHashMap<>();
    private String name;
    private String restartProblem = "";
    private Consequence consequence = hello -> { };
    private Runnable whenJoined = () -> { };
    private Shells shells = new Shells(address -> "");
    private Recovery recovery;
    private final HangWatch hangs = new HangWatch(System::nanoTime);
    private Wishes wishes = (what, signal) -> { };
    private ProgramCheckpoints programs;
    private LevelCopies copies;
    private final JobStore store;
    private Keeper keeper;
    /** The last that was asked. */
    private Inspection inspection;

    /** What the coordinator does about an agent that brings members in the middle of an epoch. */
    interface Consequence {
        void membersArrived(AgentHello hello);
    }

    /** What is done about signals to launching commands. */
    interface Wishes {
        void asked(byte what, int signal);
    }

    Job(final String name, final long epoch, final Lineage lineage, final FailureHistory history, final int deadlineSeconds,
            final LongSupplier clock, final JobStore store, final EventLog log, final Runnable whenEmpty) {
        this.name = name;
        this.lineage = lineage;
        this.history = history;
        this.log = log;
        this.whenEmpty = whenEmpty;
        this.store = store;
        published = new Published(store.published());
        notifications = new Notifications(members, published, log);
        this.epoch = new Epoch(lock, members, published, epoch, deadlineSeconds, clock, store::problem);
    }

    /** What it must not lose is kept by that. */
    void keeper(final Keeper its) {
        keeper = its;
    }

    /** By which what it must not lose is kept. */
    Keeper keeper() {
        return keeper;
    }

    /** @param listener is told when a program or a rank has come */
    void onJoined(final Runnable listener) {
        whenJoined = listener;
    }

    /** @param reachable is asked when an agent is to come from another host */
    void onOtherHosts(final Shells.Reachable reachable) {
        shells = new Shells(reachable);
    }

    /** Deaths are told to it, from the first agent on. */
    void recovery(final Recovery its) {
        recovery = its;
    }

    /** @param listener is told, with the lock held, of what users want by signals */
    void onWishes(final Wishes listener) {
        wishes = listener;
    }

    /** @param asked hears of programs that want a checkpoint, and of ranks that have gone */
    void onAsked(final ProgramCheckpoints asked) {
        locked(() -> programs = asked);
    }

    /** Answers about copies of images are for it, from the first agent on. */
    void copies(final LevelCopies its) {
        copies = its;
    }

    /** Where images are kept besides the checkpoint's folder. */
    LevelCopies copies() {
        return copies;
    }

    /** Answers are for this one from now on. */
    void inspection(final Inspection asked) {
        locked(() -> inspection = asked);
    }

    void onMembersArrived(final Consequence c) {
        consequence = c;
    }

    // ---- agents ----

    AgentSession agentJoined(final AgentHello said, final FrameChannel channel)
            throws ProtocolException {
        final AgentHello hello;
        final AgentSession session;
        final boolean inEpoch;
        lock.lock();
        try {
            final boolean writtenOff = !said.restored() && members.wasWrittenOff(said.host());
            final boolean stale = !said.restored() && (writtenOff || recovery.isRestoring())
                    && !(said.members().isEmpty() && said.trees().isEmpty());
            hello = stale ? said.withoutProcesses() : said;
            if (!hello.job().isEmpty() && !hello.job().equals(name)) {
                if (!members.ranks().isEmpty() || !members.agents().isEmpty()) {
                    throw new ProtocolException("this coordinator serves job " + name + ", the agent on host "
                            + hello.host() + " belongs to job " + hello.job());
                }
                name = hello.job();
                history.forget();
            }
            session = new AgentSession(hello, channel);
            if (!hello.restored()) {
                epoch.atLeast(hello.epoch(), hello.attempt());
            } else {
                epoch.broughtBack(hello.epoch(), hello.attempt());
                lineage.restarted(hello.epoch());
                pmi.clear();
            }
            settings.putAll(hello.settings());
            final boolean withNothing = !said.restored() && !stale && members.comesBackWithNothing(session, hello);
            members.joined(session, hello);
            if (withNothing) {
                recovery.hostLost("the agent of host " + session.host() + " is back, and its processes are not");
            }
            if (!hello.restored() && !(hello.trees().isEmpty() && hello.members().isEmpty())) {
                history.runs();
            }
            // What is left of them on its host it has found.
            endWithoutAgent(rank -> rank.agent.host().equals(session.host()) && !session.trees.containsKey(rank.tree));
            inEpoch = hello.restored()
                    || hello.members().stream().anyMatch(m -> m.state() != MemberState.RUNNING.ordinal());
            if (inEpoch && !hello.restored()) {
                epoch.found();
            }
            session.bound = hello.restored();
            session.send(new AgentWelcome(name, epoch.number(), epoch.deadlineSeconds(),
                    settings.getOrDefault(AgentHello.BACKEND, ""), store.number(), store.key(), store.place()));
            log.add("agent on host " + session.host() + " (pid " + session.pid() + ") joined with "
                    + hello.members().size() + " ranks, " + hello.trees().size() + " launched programs");
            if (recovery.options().asked()) {
                session.watch(recovery.options().lostAfterMillis());
            }
            if (stale) {
                log.add("host " + session.host() + " has processes that the job has gone on without: they are ended");
                session.stale = true;
                session.send(new EndProcesses(0));
            }
            copies.agentCame(session);
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
            copies.agentLost(session);
            if (inspection != null) {
                inspection.gone(session);
            }
            if (!recovery.isUnderWay() || session.bound) {
                epoch.agentLost(session, why); // else it has nothing that is waited for
            }
            epoch.changed();
            final boolean watched = recovery.options().asked();
            if (!(watched && FrameChannel.isOtherHostLost(why)) && members.mayReturn(session)) {
                return true;
            }
            if (watched && members.hadProcesses(session)) {
                members.writeOff(session.host());
                recovery.hostLost("host " + session.host() + " is lost: " + why);
            }
        } finally {
            lock.unlock();
        }
        giveUpAgent(session);
        return false;
    }

    /**
     * Those hosts had processes of the job under the coordinator before this one, and have not come with any.
     *
     * @param recovering that one was bringing the job back
     */
    void lostWithCoordinator(final Set<String> hosts, final boolean recovering) {
        lock.lock();
        try {
            hosts.forEach(host -> {
                log.add("what ran on host " + host + " is lost");
                members.lostBefore(host);
            });
            if (recovering || !hosts.isEmpty()) {
                recovery.hostLost("the job's coordinator was lost" + (hosts.isEmpty() ? " while it brought the job back"
                        : ", and what ran on host " + String.join(", ", hosts)));
            }
        } finally {
            lock.unlock();
        }
        checkEmpty();
    }

    /** The ranks that the lost agent had, and that no other agent has brought back, are no longer waited for. */
    void giveUpAgent(final AgentSession session) {
        lock.lock();
        try {
            if (session.lost && recovery.options().asked() && members.mayStillReturn(session)) {
                members.writeOff(session.host());
                recovery.hostLost("the agent of host " + session.host() + " was lost, and has not come back");
            }
            members.giveUp(session).forEach(rank -> {
                programs.gone(rank);
                epoch.lostWithAgent(rank);
            });
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
            if (copies.handles(from, message)) {
                return;
            }
            if (from.stale) {
                from.stale = !(message instanceof ProcessesEnded || message instanceof StepFailed);
                return; // of processes that the job has gone on without
            }
            switch (message) {
                case RankJoined m -> rankJoined(from, m.member());
                case FromRank m -> fromRank(from, m);
                case HostContribution m -> contributed(from, m);
                case HostRanks m -> m.uids().forEach(uid -> ranksAre(uid, m));
                case RankGone m -> {
                    rankGone(m);
                    mayBeEmpty = true;
                }
                case TreeState m -> {
                    treeState(from, m);
                    mayBeEmpty = !m.alive();
                }
                case Inspected m -> {
                    if (inspection != null) {
                        inspection.answered(from, m);
                    }
                }
                case Frozen m -> epoch.stepAnswered(from, "FREEZE", m.epoch(), m);
                case SocketsHeld m -> epoch.stepAnswered(from, "HOLD", m.epoch(), m);
                case Accepted m -> epoch.stepAnswered(from, "ACCEPT", m.epoch(), m);
                case Prepared m -> epoch.stepAnswered(from, "PREPARE", m.epoch(), m);
                case PreCopied m -> epoch.stepAnswered(from, "PRE_COPY", m.epoch(), m);
                case Saved m -> epoch.stepAnswered(from, "SAVE", m.epoch(), m);
                case Sealed m -> epoch.stepAnswered(from, "SEAL", m.epoch(), m);
                case Thawed m -> epoch.stepAnswered(from, "THAW", m.epoch(), m);
                case Released m -> epoch.stepAnswered(from, "RELEASE", m.epoch(), m);
                case Alive m -> { }
                case ProcessesEnded m -> epoch.stepAnswered(from, "END", m.epoch(), m);
                case Recovering m -> recovering(from, m);
                case ProgramEnded m -> {
                    log.add("on host " + from.host() + " ended with status " + m.status() + ": " + m.program());
                    recovery.programEnded(from.host(), m.program(), m.status());
                }
                case Launchers m -> from.launchers = m.number();
                case Output m -> {
                    launching().ifPresent(agent -> agent.send(m));
                    from.send(new OutputTaken());
                }
                case UserAsks m -> {
                    log.add("a launching command on host " + from.host() + " was sent signal " + m.signal());
                    if (m.what() == UserAsks.END) {
                        recovery.endsOnPurpose();
                    }
                    wishes.asked(m.what(), m.signal());
                }
                case PmiState m -> pmi(from, m);
                case StartShell m -> shells.start(from, m, members.agents());
                case ShellFailed m -> Shells.failed(m, members.agents());
                case StepProgress m -> epoch.stepGoesOn(from, m);
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

    private void pmi(final AgentSession from, final PmiState m) {
        from.send(pmi.answer(m));
        if (!m.abort().isEmpty() && !recovery.aborted(m.abort())) {
            log.add("the job ends: " + m.abort());
            members.agents().forEach(agent -> agent.send(new Terminate(SIGKILL)));
        }
    }

    private void recovering(final AgentSession from, final Recovering m) throws ProtocolException {
        for (final Member member : m.members()) {
            members.adopt(member, from).state = MemberState.of(member.state());
        }
        from.bound = true;
        epoch.stepAnswered(from, "RECOVER", m.epoch(), m);
    }

    private void treeState(final AgentSession from, final TreeState m) {
        if (m.alive()) {
            members.launched(from, m.tree());
            settings.putAll(m.settings());
            copies.settingsCame();
            history.runs();
            whenJoined.run();
            log.add("launched on host " + from.host() + ": pid " + m.tree().hostPid() + " "
                    + String.join(" ", m.tree().argv()));
        } else if (members.ended(from, m.tree())) {
            endWithoutAgent(rank -> rank.agent.host().equals(from.host()) && rank.tree == m.tree().hostPid());
            log.add("ended on host " + from.host() + ": pid " + m.tree().hostPid());
        }
    }

    private void endWithoutAgent(final Predicate<Rank> which) {
        members.endWithoutAgent(which).forEach(this::forget);
    }

    /** Its process has ended: of what it has said of itself nothing is of use any more. */
    private void forget(final Rank rank) {
        notifications.forgetExitMessages(rank);
        published.forget(rank);
    }

    /** Whether its last program has ended. */
    boolean isEmpty() {
        return locked(() -> !recovery.isUnderWay() && members.haveAllEnded());
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
                turnAway(from, rank, member.epoch()); // its agent was lost meanwhile, or it was given up
                return;
            }
            rank.state = MemberState.REATTACHING;
            epoch.returned(rank);
        } else if (!epoch.joined(rank, member.epoch())) {
            rank.state = MemberState.RUNNING;
        }
        from.send(new RankNumber(rank.uid, rank.number, epoch.number(), epoch.attempt(), epoch.deadlineSeconds(), ""));
        if (!known || !reattaching) {
            log.add(rank + " joined: " + rank.program);
            whenJoined.run();
        }
    }

    /** The others have gone on without it. It opens its gate, and may join again. */
    private void turnAway(final AgentSession from, final Rank rank, final long itsEpoch) {
        members.remove(rank.uid);
        programs.gone(rank);
        from.send(new RankNumber(rank.uid, -1, epoch.number(), epoch.attempt(), epoch.deadlineSeconds(),
                "the others have gone on from epoch " + itsEpoch + " without this process"));
    }

    private void rankGone(final RankGone m) {
        final Rank rank = members.remove(m.uid());
        if (rank == null) {
            return;
        }
        final boolean normal = m.how() == 0;
        final String what = rank + (normal ? " ended with status " + m.status()
                : m.how() == 1 ? died(m.status()) : " lost its link to the agent")
                + (m.text().isEmpty() ? "" : ": " + m.text());
        log.add(what);
        if (m.how() <= 1) {
            notifications.deliverExitMessages(rank);
            forget(rank);
        }
        if (inspection != null) {
            inspection.gone(rank);
        }
        programs.gone(rank);
        hangs.goesOn();
        epoch.gone(rank, what, normal);
        recovery.rankGone(what, m.how() <= 1, m.status());
    }

    private static String died(final int status) {
        return status < 0 ? " died" : status > KILLED_BY ? " died by signal " + (status - KILLED_BY)
                : " ended with status " + status + " without a word";
    }

    private void fromRank(final AgentSession from, final FromRank m) throws ProtocolException {
        final Rank rank = members.rank(m.uid());
        if (rank == null) {
            return; // it has been declared gone meanwhile
        }
        final Message message = Codec.decode(m.frame());
        switch (message) {
            case Fail f -> failed(rank, f);
            case Checked c -> {
                if (inspection != null) {
                    inspection.answered(rank, c);
                }
            }
            case Work w -> hangs.works(rank.uid, w.work());
            case AskCheckpoint a -> programs.asked(rank, a);
            case Progress p -> epoch.progress(rank, p.waitingFor());
            case Publish p -> p.values().forEach((key, value) -> published.publish(key, value, epoch.number()));
            case Lookup l -> {
                l.keys().forEach(NumberedKeys::check);
                from.toRanks(List.of(rank.uid), new Found(l.id(), published.lookup(l.keys(), epoch.number())));
            }
            case Notify t -> notifications.tell(rank, t);
            case ExitMessages w -> notifications.keepExitMessages(rank, m.frame());
            default -> throw new ProtocolException("message of type " + message.type() + " from a rank");
        }
    }

    /** Ranks that have been declared gone meanwhile are none any more. */
    private void contributed(final AgentSession from, final HostContribution m) throws ProtocolException {
        final List<Rank> ranks = m.uids().stream().map(members::rank).filter(Objects::nonNull).toList();
        for (final Rank rank : epoch.contribute(from, ranks, m)) {
            turnAway(from, rank, m.epoch());
        }
    }

    private void ranksAre(final String uid, final HostRanks m) {
        final Rank rank = members.rank(uid);
        if (rank == null) {
            return;
        }
        if (m.done()) {
            epoch.done(rank, m.epoch(), m.openNanos());
        } else {
            epoch.detached(rank, m.epoch());
        }
    }

    private void failed(final Rank rank, final Fail f) {
        final String what = rank + " failed in " + Phase.of(f.phase()) + ": " + f.message();
        if (epoch.failed(rank, f.epoch(), what)) {
            log.add(what);
        }
    }

    // ---- when it is brought back ----

    /** Whether an agent is there, and none is lost that may come back. */
    boolean hasAgentsBack() {
        return locked(members::haveAgentsBack);
    }

    /** Whether some process of it may live. */
    boolean hasProcesses() {
        return locked(members::haveProcesses);
    }

    /** These agents have ended all processes of it. */
    void forgetProcesses(final Collection<AgentSession> ofAgents) {
        lock.lock();
        try {
            final List<Rank> before = List.copyOf(members.ranks());
            members.forgetProcesses(ofAgents);
            before.stream().filter(rank -> !members.ranks().contains(rank)).forEach(programs::gone);
            pmi.clear();
        } finally {
            lock.unlock();
        }
    }

    /** A checkpoint is safe that was made to end the job. */
    void savedAndEnds() {
        lock.lock();
        try {
            recovery.endsOnPurpose();
            recovery.saved();
        } finally {
            lock.unlock();
        }
    }

    /** Somebody has asked for its end. */
    void endsOnPurpose() {
        lock.lock();
        try {
            recovery.endsOnPurpose();
        } finally {
            lock.unlock();
        }
    }

    /** Its ranks run again, after a restart that may be shorter than the time between two looks; or nobody asks whether they do. */
    void goesOn() {
        locked(() -> {
            hangs.goesOn();
            return null;
        });
    }

    /** Asks all ranks whether they go on; and looks whether any has, since long. */
    void watchForHangs(final Duration time) {
        lock.lock();
        try {
            if (epoch.stage() != Stage.RUNNING || recovery.isUnderWay() || members.ranks().isEmpty()) {
                hangs.goesOn();
            } else if (hangs.hangs(time)) {
                recovery.hangs("no rank has posted or completed a request for " + Sizes.deadline(time));
            } else {
                members.agents().forEach(agent -> agent.toRanks(List.of(), new AskWork(0)));
            }
        } finally {
            lock.unlock();
        }
    }

    /** The first agent that has launching commands. */
    private Optional<AgentSession> launching() {
        return members.agents().stream().filter(agent -> agent.launchers > 0).findFirst();
    }

    /** A line for its user: on the standard error of a launching command, or of a program. */
    void say(final String line) {
        lock.lock();
        try {
            log.add(line);
            launching().or(() -> members.agents().stream().filter(agent -> !agent.trees.isEmpty()).findFirst())
                    .ifPresent(agent -> agent.send(new Say(line)));
        } finally {
            lock.unlock();
        }
    }

    // ---- facts ----

    /** What goes on in it. */
    Epoch epoch() {
        return epoch;
    }

    Lineage lineage() {
        return lineage;
    }

    FailureHistory history() {
        return history;
    }

    /** Whether no program of it runs here. */
    boolean isIdle() {
        return locked(() -> members.ranks().isEmpty() && members.agents().stream().allMatch(a -> a.trees.isEmpty()));
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
    boolean hasAllItsRanks() {
        return members.hasAllItsRanks();
    }

    /** Guarded: use inside {@link #locked}. */
    Collection<AgentSession> agents() {
        return members.agents();
    }

    /** Whether the agents of these ids have all come, though some may be lost again. Guarded. */
    boolean haveJoined(final Set<String> agents) {
        return members.haveJoined(agents);
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

    /** What launches have asked for. Guarded: use inside {@link #locked}. */
    Map<String, String> settings() {
        return settings;
    }

    /** What launches have asked the coordinator before this one for. */
    void settings(final Map<String, String> asked) {
        locked(() -> {
            settings.putAll(asked);
            return null;
        });
    }

    /** Guarded: use inside {@link #locked}. */
    RecoveryOptions recoveryOptions() {
        return recovery.options();
    }

    /** Whether it is being brought back. Guarded: use inside {@link #locked}. */
    boolean isRecovering() {
        return recovery.isUnderWay();
    }

    EventLog log() {
        return log;
    }
}
