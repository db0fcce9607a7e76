// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.EOFException;
import java.io.IOException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.protocol.Codec;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.HostMessages.FromRank;
import org.shadowverbs.coordinator.protocol.HostMessages.RankGone;
import org.shadowverbs.coordinator.protocol.HostMessages.RankJoined;
import org.shadowverbs.coordinator.protocol.HostMessages.RankNumber;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.ToRanks;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.Outbox;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Abort;
import org.shadowverbs.coordinator.protocol.RankMessages.Answer;
import org.shadowverbs.coordinator.protocol.RankMessages.AskCheckpoint;
import org.shadowverbs.coordinator.protocol.RankMessages.Checkpoint;
import org.shadowverbs.coordinator.protocol.RankMessages.Checked;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;
import org.shadowverbs.coordinator.protocol.RankMessages.Detached;
import org.shadowverbs.coordinator.protocol.RankMessages.Done;
import org.shadowverbs.coordinator.protocol.RankMessages.ExitMessages;
import org.shadowverbs.coordinator.protocol.RankMessages.Fail;
import org.shadowverbs.coordinator.protocol.RankMessages.GiveBack;
import org.shadowverbs.coordinator.protocol.RankMessages.Goodbye;
import org.shadowverbs.coordinator.protocol.RankMessages.Held;
import org.shadowverbs.coordinator.protocol.RankMessages.Hello;
import org.shadowverbs.coordinator.protocol.RankMessages.Hold;
import org.shadowverbs.coordinator.protocol.RankMessages.Lookup;
import org.shadowverbs.coordinator.protocol.RankMessages.Notify;
import org.shadowverbs.coordinator.protocol.RankMessages.Progress;
import org.shadowverbs.coordinator.protocol.RankMessages.Publish;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;
import org.shadowverbs.coordinator.protocol.RankMessages.Shutdown;
import org.shadowverbs.coordinator.protocol.RankMessages.Welcome;
import org.shadowverbs.coordinator.protocol.RankMessages.Work;
import org.shadowverbs.coordinator.store.PublishedStore;

/**
 * The ranks of this host: how they come and go, what they say, which is passed on to the coordinator, and what they are
 * told. A rank lives in its process, not in its link: that ends before an image is made, and it comes back by another.
 *
 * <p>Guarded by the agent's lock, which every method takes; reading from a link, and the wait for a link or a process to end,
 * are outside of it. What is sent under the lock only goes into a queue ({@link Outbox}), so a rank that does not read holds
 * nobody up.
 */
final class LocalRanks {
    /** How long a process may take to end after its link has broken, before the link alone counts as lost. */
    private static final int DYING_MILLIS = 2_000;

    private final ReentrantLock lock;
    private final AgentOptions options;
    private final EventLog log;
    private final CoordinatorLink coordinator;
    private final LaunchedPrograms programs;
    private final PublishedStore fetched;
    private final BooleanSupplier agentEnds;
    private final HostVoice voice;

    private final Map<String, LocalRank> ranks = new LinkedHashMap<>();
    private long epoch;
    private int attempt;
    /** As verdicts name it. */
    private String backend;

    /**
     * @param fetched holds what the coordinator sent for all ranks of this host
     * @param agentEnds whether links end because the agent does, so that nobody is missed
     */
    LocalRanks(final ReentrantLock lock, final AgentOptions options, final EventLog log,
            final CoordinatorLink coordinator, final LaunchedPrograms programs, final PublishedStore fetched,
            final BooleanSupplier agentEnds) {
        this.lock = lock;
        this.options = options;
        this.log = log;
        this.coordinator = coordinator;
        this.programs = programs;
        this.fetched = fetched;
        this.agentEnds = agentEnds;
        voice = new HostVoice(coordinator::send, lock);
        backend = options.backend();
    }

    // ---- who is there ----

    /** Those that the coordinator knows. */
    List<LocalRank> welcomed() {
        lock.lock();
        try {
            return ranks.values().stream().filter(r -> r.welcomed).toList();
        } finally {
            lock.unlock();
        }
    }

    /** The pids of those whose application runs, with its devices open. */
    Set<Long> running() {
        lock.lock();
        try {
            return ranks.values().stream().filter(r -> r.state == MemberState.RUNNING).map(r -> r.hostPid)
                    .collect(java.util.stream.Collectors.toSet());
        } finally {
            lock.unlock();
        }
    }

    /** The pids of their processes on this host, also of those that are not welcomed yet; -1 for one that is not restored yet. */
    List<Long> hostPids() {
        lock.lock();
        try {
            return ranks.values().stream().map(r -> r.hostPid).toList();
        } finally {
            lock.unlock();
        }
    }

    boolean isEmpty() {
        lock.lock();
        try {
            return ranks.isEmpty();
        } finally {
            lock.unlock();
        }
    }

    /** The highest epoch that this host has heard of. */
    long epoch() {
        lock.lock();
        try {
            return epoch;
        } finally {
            lock.unlock();
        }
    }

    int attempt() {
        lock.lock();
        try {
            return attempt;
        } finally {
            lock.unlock();
        }
    }

    // ---- a rank's link, from its hello to its end ----

    /** Serves a rank's link until it ends. */
    void serve(final Hello hello, final FrameChannel channel) throws IOException {
        final LocalRank rank;
        final Outbox link = new Outbox(channel, hello.program());
        final CountDownLatch linkDone = new CountDownLatch(1);
        lock.lock();
        try {
            rank = arrived(hello);
            rank.takeWrites(hello.writes());
            if (rank.link != null) {
                rank.link.close();
            }
            rank.link = link;
            rank.greeted = false;
            rank.linkDone = linkDone;
            voice.flush();
            coordinator.send(new RankJoined(rank.member()));
        } finally {
            lock.unlock();
        }
        String why = "";
        try {
            for (;;) {
                fromRank(rank, channel.read());
            }
        } catch (EOFException e) {
            why = "";
        } catch (IOException e) {
            why = e.getMessage() == null ? "closed" : e.getMessage();
            log.add("link of rank " + rank.number + ": " + why);
        } finally {
            link.close();
            linkDone.countDown();
            linkClosed(rank, link, why);
        }
    }

    /** The rank of that hello: a new one, or one that comes back from a verdict or after its link broke. */
    private LocalRank arrived(final Hello hello) throws IOException {
        final boolean reattaching = hello.state() == 1;
        LocalRank rank = ranks.get(hello.uid());
        if (rank == null) {
            final long hostPid = ProcFs.hostPid(hello.pid(), programs.pids());
            rank = new LocalRank(hello.uid(), hello.pid(), hostPid, hello.treeRootPid(), hello.program(),
                    VerdictPipe.make(options.runDirectory(), hello.uid()));
            ranks.put(rank.uid, rank);
            final LocalRank watched = rank;
            rank.watch = ProcessWatch.start(hostPid, () -> processEnded(watched));
        }
        rank.epoch = hello.epoch();
        rank.state = reattaching ? MemberState.REATTACHING : MemberState.RUNNING;
        rank.pendingVerdict = null;
        rank.detached = null;
        return rank;
    }

    private void fromRank(final LocalRank rank, final Message message) throws ProtocolException {
        lock.lock();
        try {
            switch (message) {
                case Contribute c -> {
                    rank.wishes.are(c);
                    voice.contributes(rank.uid, c, inEpoch(c.epoch()));
                }
                case Detached d -> {
                    rank.detached = d;
                    rank.state = MemberState.DETACHED;
                    if (rank.pendingVerdict != null) {
                        write(rank, rank.pendingVerdict);
                    }
                }
                case Done d -> {
                    rank.state = MemberState.RUNNING;
                    rank.pendingVerdict = null;
                    voice.done(rank.uid, d.epoch(), d.openNanos(), inEpoch(d.epoch()) == 0 ? 0 : Integer.MAX_VALUE);
                }
                case Hold h -> rank.send(new Held(problemOf(() -> rank.hold(h.socket()))));
                case GiveBack g -> rank.send(new Held(problemOf(() -> rank.giveBack(g.socket()))));
                case Fail f -> pass(rank, f);
                case Progress p -> pass(rank, p);
                case Publish p -> pass(rank, p);
                case Lookup l -> pass(rank, l);
                case Notify t -> pass(rank, t);
                case ExitMessages w -> pass(rank, w);
                case Checked c -> pass(rank, c);
                case Work w -> pass(rank, w);
                case AskCheckpoint a -> pass(rank, a);
                case Goodbye g -> {
                    rank.saidGoodbye = true;
                    remove(rank, (byte) 0, g.status(), "");
                }
                default -> throw new ProtocolException("message of type " + message.type() + " from a rank");
            }
        } finally {
            lock.unlock();
        }
    }

    /** How many ranks of this host are in the midst of that epoch. */
    private int inEpoch(final long that) {
        int count = 0;
        for (final LocalRank rank : ranks.values()) {
            if (rank.epoch == that && rank.state != MemberState.RUNNING) {
                count++;
            }
        }
        return count;
    }

    private interface Action {
        void run() throws IOException;
    }

    private static String problemOf(final Action action) {
        try {
            action.run();
            return "";
        } catch (IOException | UnsupportedOperationException | LinkageError e) {
            return String.valueOf(e.getMessage());
        }
    }

    private void pass(final LocalRank rank, final Message message) {
        final byte[] frame = Codec.frame(message);
        voice.flush();
        coordinator.send(new FromRank(rank.uid, Arrays.copyOfRange(frame, 4, frame.length)));
    }

    private void linkClosed(final LocalRank rank, final Outbox link, final String why) {
        lock.lock();
        try {
            if (rank.link != link) {
                return; // it has come back by another one
            }
            rank.link = null;
            if (rank.detached != null) {
                // Only now does the process hold nothing that leads out of it.
                voice.detached(rank.uid, rank.detached.epoch(), inEpoch(rank.detached.epoch()));
                rank.detached = null;
            }
            if (rank.saidGoodbye || rank.isAway() || rank.pendingVerdict != null || agentEnds.getAsBoolean()) {
                return;
            }
        } finally {
            lock.unlock();
        }
        if (rank.watch.awaitEnd(DYING_MILLIS)) {
            return; // processEnded says it
        }
        lock.lock();
        try {
            if (rank.link == null && !rank.isAway()) {
                remove(rank, (byte) 2, 0, why);
            }
        } finally {
            lock.unlock();
        }
    }

    private void processEnded(final LocalRank rank) {
        // Its last words may still be in the socket; a child that has inherited that can keep it open.
        await(rank.linkDone);
        lock.lock();
        try {
            remove(rank, (byte) 1, rank.watch == null ? ExitStatus.UNKNOWN : rank.watch.status(), "");
        } finally {
            lock.unlock();
        }
    }

    private static void await(final CountDownLatch done) {
        try {
            done.await(DYING_MILLIS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void remove(final LocalRank rank, final byte how, final int status, final String text) {
        if (!ranks.remove(rank.uid, rank)) {
            return;
        }
        voice.flush();
        coordinator.send(new RankGone(rank.uid, how, status, text));
        try {
            if (how == 0) {
                rank.verdictPipe.close(); // the link stays until the process ends it
                rank.letGo();
            } else {
                rank.close();
            }
        } catch (IOException e) {
            log.add("rank " + rank.number + ": " + e);
        }
    }

    // ---- what they are told ----

    /** A coordinator has come, or come back: it is told of the ranks whose links came while there was none. */
    void coordinatorCame(final long itsEpoch) {
        lock.lock();
        try {
            epoch = Math.max(epoch, itsEpoch);
            for (final LocalRank rank : ranks.values()) {
                if (!rank.welcomed || rank.link != null && !rank.greeted) {
                    coordinator.send(new RankJoined(rank.member()));
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /** The coordinator has given a rank its number, or turned it away. */
    void numbered(final RankNumber m, final String job) {
        lock.lock();
        try {
            final LocalRank rank = ranks.get(m.uid());
            if (rank == null) {
                return;
            }
            if (!m.refusal().isEmpty()) {
                rank.greeted = true;
                rank.send(new Refused(m.refusal()));
                if (rank.link != null) {
                    rank.link.closeAfterSending();
                }
                ranks.remove(rank.uid);
                return;
            }
            rank.number = m.rank();
            rank.welcomed = true;
            if (rank.greeted) {
                return; // a coordinator that has come back says it again
            }
            rank.greeted = true;
            rank.send(new Welcome(m.rank(), job, m.epoch(), m.attempt(), m.deadlineSeconds(),
                    rank.verdictPipe.path().toString()));
        } finally {
            lock.unlock();
        }
    }

    /** Passes on what the coordinator says; of an answer for the host each rank gets what it wants. */
    void toRanks(final ToRanks m) throws ProtocolException {
        final Message message = Codec.decode(m.frame());
        lock.lock();
        try {
            if (message instanceof Answer answer && answer.phase() == Phase.DRAIN.ordinal()) {
                // Later rounds tell only what is new of it.
                answer.found().forEach((key, value) -> fetched.put(answer.epoch() + "/" + key, value));
            }
            final HostAnswer cut = message instanceof Answer answer
                    ? new HostAnswer(answer, key -> fetched.get(answer.epoch() + "/" + key)) : null;
            final List<String> uids = m.uids().isEmpty() ? List.copyOf(ranks.keySet()) : m.uids();
            for (final String uid : uids) {
                final LocalRank rank = ranks.get(uid);
                if (rank != null) {
                    toRank(rank, message, cut);
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /** @param cut of an answer */
    private void toRank(final LocalRank rank, final Message message, final HostAnswer cut) {
        switch (message) {
            case Checkpoint c -> {
                if (c.epoch() > epoch) {
                    epoch = c.epoch();
                    fetched.removeAll("");
                }
                rank.epoch = c.epoch();
                rank.state = MemberState.IN_CHECKPOINT;
                rank.pendingVerdict = null;
                rank.send(c);
            }
            case Answer a -> {
                if (Phase.of(a.phase()).pairs(a.round(), a.unanimous())) {
                    rank.state = MemberState.CLOSED;
                }
                rank.send(cut.of(rank.wishes));
            }
            default -> rank.send(message);
        }
    }

    /** Whether the application of every rank runs, with open gates. */
    boolean allRun() {
        lock.lock();
        try {
            return ranks.values().stream().allMatch(r -> r.state == MemberState.RUNNING);
        } finally {
            lock.unlock();
        }
    }

    /** All whose link is open are told that the agent ends. */
    void shutDown(final String reason) {
        lock.lock();
        try {
            for (final LocalRank rank : ranks.values()) {
                if (rank.link != null) {
                    rank.link.send(new Shutdown(reason));
                    rank.link.closeAfterSending();
                }
            }
        } finally {
            lock.unlock();
        }
    }

    // ---- what becomes of an epoch ----

    /** The ranks of a checkpoint are about to be restored here: each has the pipe already by which its verdict comes. */
    void expect(final Manifest manifest, final String itsBackend) throws IOException {
        lock.lock();
        try {
            backend = itsBackend;
            epoch = manifest.epoch();
            attempt = 0;
            for (final Manifest.HostPart part : manifest.hosts()) {
                for (final Manifest.RankPart r : part.ranks()) {
                    final LocalRank rank = new LocalRank(r.uid(), r.pid(), -1, r.treeRootPid(), r.program(),
                            VerdictPipe.make(options.runDirectory(), r.uid()));
                    rank.number = r.number();
                    rank.epoch = epoch;
                    rank.state = MemberState.DETACHED;
                    rank.welcomed = true;
                    ranks.put(rank.uid, rank);
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /** They are no more, and that is no news to the coordinator. */
    void clear() {
        lock.lock();
        try {
            for (final LocalRank rank : ranks.values()) {
                try {
                    rank.close();
                } catch (IOException e) {
                    log.add("of " + rank.rootName() + ", which has been ended: " + e);
                }
            }
            ranks.clear();
        } finally {
            lock.unlock();
        }
    }

    /** The processes of one source host are restored, and their ranks are told so. */
    void restored(final Manifest.HostPart part, final RestoredJob running) throws IOException {
        lock.lock();
        try {
            for (final Manifest.RankPart r : part.ranks()) {
                final LocalRank rank = ranks.get(r.uid());
                final Long hostPid = running.hostPid(part, r.root());
                if (rank != null && hostPid == null) {
                    remove(rank, (byte) 1, ExitStatus.UNKNOWN, ""); // it has ended already
                } else if (rank != null) {
                    rank.hostPid = hostPid;
                    rank.watch = ProcessWatch.start(hostPid, () -> processEnded(rank));
                    write(rank, new Verdict(Verdict.Outcome.RESTORED, epoch, backend, options.socket(),
                            options.secret(), options.tcpAddress(), ""));
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /** Those that take part learn of the outcome, through their link while that is open, else through their pipe. */
    void tell(final Thaw m) {
        lock.lock();
        try {
            attempt = Math.max(attempt, m.attempt());
            if (m.kill()) {
                return;
            }
            for (final LocalRank rank : ranks.values()) {
                if (rank.state == MemberState.RUNNING || rank.epoch != m.epoch()) {
                    continue;
                }
                if (m.outcome().equals("released")) {
                    rank.send(new Abort(m.epoch(), m.attempt(), false, m.reason()));
                } else {
                    verdict(rank, m);
                }
            }
        } finally {
            lock.unlock();
        }
    }

    private void verdict(final LocalRank rank, final Thaw m) {
        final Verdict verdict = new Verdict(m.outcome().equals("resumed") ? Verdict.Outcome.RESUMED
                : Verdict.Outcome.ABORTED, m.epoch(), backend, options.socket(), "", "", m.reason());
        if (rank.state == MemberState.DETACHED) {
            write(rank, verdict);
        } else {
            rank.pendingVerdict = verdict;
            rank.send(new Abort(m.epoch(), m.attempt(), true, m.reason()));
        }
    }

    private void write(final LocalRank rank, final Verdict verdict) {
        try {
            rank.verdictPipe.write(verdict);
            rank.state = MemberState.REATTACHING;
        } catch (IOException e) {
            log.add("no verdict for rank " + rank.number + ": " + e);
        }
    }

    /** Nobody gets a verdict any more. */
    void closePipes() throws IOException {
        lock.lock();
        try {
            for (final LocalRank rank : ranks.values()) {
                rank.verdictPipe.close();
            }
        } finally {
            lock.unlock();
        }
    }
}
