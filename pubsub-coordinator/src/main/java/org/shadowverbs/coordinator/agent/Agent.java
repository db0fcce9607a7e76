// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReentrantLock;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.ReceiverRegister;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.ProcessCheckpointer;
import org.shadowverbs.coordinator.protocol.Codec;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.protocol.HostMessages.Freeze;
import org.shadowverbs.coordinator.protocol.HostMessages.FromRank;
import org.shadowverbs.coordinator.protocol.HostMessages.Member;
import org.shadowverbs.coordinator.protocol.HostMessages.Quit;
import org.shadowverbs.coordinator.protocol.HostMessages.RankGone;
import org.shadowverbs.coordinator.protocol.HostMessages.RankJoined;
import org.shadowverbs.coordinator.protocol.HostMessages.RankNumber;
import org.shadowverbs.coordinator.protocol.HostMessages.Save;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.Terminate;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.HostMessages.ToRanks;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.HostMessages.TreeState;
import org.shadowverbs.coordinator.protocol.LaunchMessages.RegisterTree;
import org.shadowverbs.coordinator.protocol.LaunchMessages.Registered;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.Outbox;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Abort;
import org.shadowverbs.coordinator.protocol.RankMessages.Answer;
import org.shadowverbs.coordinator.protocol.RankMessages.Checkpoint;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;
import org.shadowverbs.coordinator.protocol.RankMessages.Detached;
import org.shadowverbs.coordinator.protocol.RankMessages.Done;
import org.shadowverbs.coordinator.protocol.RankMessages.Fail;
import org.shadowverbs.coordinator.protocol.RankMessages.GiveBack;
import org.shadowverbs.coordinator.protocol.RankMessages.Goodbye;
import org.shadowverbs.coordinator.protocol.RankMessages.Held;
import org.shadowverbs.coordinator.protocol.RankMessages.Hello;
import org.shadowverbs.coordinator.protocol.RankMessages.Hold;
import org.shadowverbs.coordinator.protocol.RankMessages.LastWill;
import org.shadowverbs.coordinator.protocol.RankMessages.Lookup;
import org.shadowverbs.coordinator.protocol.RankMessages.Progress;
import org.shadowverbs.coordinator.protocol.RankMessages.Publish;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;
import org.shadowverbs.coordinator.protocol.RankMessages.Shutdown;
import org.shadowverbs.coordinator.protocol.RankMessages.Tell;
import org.shadowverbs.coordinator.protocol.RankMessages.Welcome;
import org.shadowverbs.coordinator.store.PublishedStore;

/**
 * The agent of one host: ranks come to its Unix socket, it passes their messages on to the coordinator by one TCP
 * connection, watches the processes, and has their images made by {@link ImageWorker}.
 */
public final class Agent implements AutoCloseable {
    /** How long a process may take to end after its link has broken, before the link alone counts as lost. */
    private static final int DYING_MILLIS = 2_000;
    private static final int CLOSING_SECONDS = 90;

    private final AgentOptions options;
    private final EventLog log;
    private final PublishedStore fetched;
    private final ImageWorker images;
    private final CoordinatorLink coordinator;
    private final ServerSocketChannel listener;
    /** Freezing, saving and thawing, one after the other. */
    private final ExecutorService steps = Executors.newSingleThreadExecutor(
            Thread.ofPlatform().daemon().name("images").factory());
    private final CountDownLatch ended = new CountDownLatch(1);
    private final CountDownLatch joined = new CountDownLatch(1);
    /** Until the agents of all hosts of a restart have come. */
    private final CompletableFuture<Void> mayRestore = new CompletableFuture<>();
    private final AtomicBoolean closed = new AtomicBoolean();
    private final String id;
    private final TreeFile knownTrees;

    private volatile Future<?> saving = CompletableFuture.completedFuture(null);

    private final ReentrantLock lock = new ReentrantLock();
    private final Map<String, LocalRank> ranks = new LinkedHashMap<>();
    private final Map<Long, Tree> trees = new LinkedHashMap<>();
    private final Map<String, String> settings = new LinkedHashMap<>();
    private String job = "";
    private long epoch;
    private int attempt;
    private boolean restored;
    /** Whether it brings ranks of a checkpoint, or did. */
    private final boolean restores;

    /**
     * Opens the socket and begins to connect to the coordinator.
     *
     * @param fetched holds what the coordinator sent for all ranks of this host
     */
    public Agent(final AgentOptions options, final ProcessCheckpointer checkpointer, final PublishedStore fetched)
            throws IOException {
        this(options, checkpointer, fetched, null, null);
    }

    /** An agent that brings the ranks of a checkpoint; {@link #restore} is to follow. */
    public Agent(final AgentOptions options, final ProcessCheckpointer checkpointer, final PublishedStore fetched,
            final Manifest manifest, final Path folder) throws IOException {
        this.options = options;
        this.fetched = fetched;
        id = options.host() + "-" + ProcessHandle.current().pid() + "-"
                + Integer.toHexString(System.identityHashCode(this));
        log = new EventLog(options.runDirectory().resolve("agent.log"));
        images = new ImageWorker(options, checkpointer, folder);
        restores = manifest != null;
        if (manifest != null) {
            restored = true;
            job = manifest.job();
            epoch = manifest.epoch();
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
        }
        knownTrees = new TreeFile(options.runDirectory());
        if (manifest == null) {
            for (final Tree tree : knownTrees.stillRunning()) {
                trees.put(tree.hostPid(), tree);
                ProcessWatch.start(tree.hostPid(), () -> treeEnded(tree));
            }
        }
        Files.deleteIfExists(options.socket());
        listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            listener.bind(UnixDomainSocketAddress.of(options.socket()), 128);
        } catch (IOException | RuntimeException e) {
            listener.close();
            throw new IOException("the agent's socket " + options.socket() + " can't be made: " + e.getMessage(), e);
        }
        coordinator = new CoordinatorLink(options, log, this::hello, this::fromCoordinator, this::coordinatorLost,
                this::endIfIdle);
        Thread.ofPlatform().daemon().name("accept").start(this::acceptLoop);
        log.add("agent of host " + options.host() + " listens at " + options.socket());
    }

    public void await() throws InterruptedException {
        ended.await();
    }

    /** Waits until the coordinator has answered. */
    public boolean awaitJoined(final long millis) throws InterruptedException {
        return joined.await(millis, TimeUnit.MILLISECONDS);
    }

    /** Done when the agents of all hosts that are to restore something have joined, and {@link #restore} may begin. */
    public CompletableFuture<Void> mayRestore() {
        return mayRestore;
    }

    /** Why the coordinator turned this agent away, or an empty string. */
    public String refusal() {
        return coordinator.refusal();
    }

    public String job() {
        lock.lock();
        try {
            return job;
        } finally {
            lock.unlock();
        }
    }

    // ---- the coordinator ----

    private AgentHello hello() {
        lock.lock();
        try {
            final List<Member> members = new ArrayList<>();
            for (final LocalRank rank : ranks.values()) {
                if (rank.welcomed) {
                    members.add(rank.member());
                }
            }
            return new AgentHello(FrameType.VERSION, options.secret(), id, options.host(),
                    ProcessHandle.current().pid(), job, epoch, attempt, restored, members,
                    List.copyOf(trees.values()), Map.copyOf(settings), options.ownCommand());
        } finally {
            lock.unlock();
        }
    }

    private void fromCoordinator(final Message message) throws ProtocolException {
        switch (message) {
            case AgentWelcome m -> welcomed(m);
            case RankNumber m -> rankNumber(m);
            case ToRanks m -> toRanks(m);
            case Freeze m -> step(() -> freeze(m));
            case Save m -> saving = step(() -> coordinator.send(images.save(m, snapshot(), treesSnapshot())));
            case Thaw m -> {
                // A save that is given up must not keep the job frozen until it is done.
                saving.cancel(true);
                step(() -> thaw(m));
            }
            case Terminate m -> Thread.ofPlatform().name("terminate").daemon().start(() -> images.terminate(
                    m.signal(), roots(), log));
            case Quit m -> {
                coordinator.ending(); // its connection is about to end, and that is no loss
                Thread.ofPlatform().name("quit").start(() -> quit(m.reason()));
            }
            case Refused m -> log.add("the coordinator refuses: " + m.reason());
            default -> throw new ProtocolException("message of type " + message.type() + " from the coordinator");
        }
    }

    private void welcomed(final AgentWelcome m) {
        lock.lock();
        try {
            job = m.job();
            epoch = Math.max(epoch, m.epoch());
            // Ranks that came while there was no coordinator.
            for (final LocalRank rank : ranks.values()) {
                if (!rank.welcomed) {
                    coordinator.send(new RankJoined(rank.member()));
                }
            }
        } finally {
            lock.unlock();
        }
        joined.countDown();
    }

    /** Nobody else will thaw what is frozen now. The ranks wait for the verdict that the next coordinator decides. */
    private void coordinatorLost() {
        saving.cancel(true);
        step(images::letGo);
    }

    /** An agent that no coordinator wants and that has nothing to look after is of no use to anybody. */
    private void endIfIdle() {
        if (roots().isEmpty()) {
            Thread.ofPlatform().name("quit").start(() -> quit("no coordinator, and no process of the job"));
        }
    }

    private Future<?> step(final Runnable what) {
        try {
            return steps.submit(what);
        } catch (RejectedExecutionException e) {
            log.add("not done, for the agent ends: a step of the checkpoint");
            return CompletableFuture.completedFuture(null);
        }
    }

    private void rankNumber(final RankNumber m) {
        lock.lock();
        try {
            final LocalRank rank = ranks.get(m.uid());
            if (rank == null) {
                return;
            }
            if (!m.refusal().isEmpty()) {
                rank.send(new Refused(m.refusal()));
                if (rank.link != null) {
                    rank.link.closeAfterSending();
                }
                ranks.remove(rank.uid);
                return;
            }
            rank.number = m.rank();
            rank.welcomed = true;
            rank.send(new Welcome(m.rank(), job, m.epoch(), m.attempt(), m.deadlineSeconds(),
                    rank.verdictPipe.path().toString()));
        } finally {
            lock.unlock();
        }
    }

    private void toRanks(final ToRanks m) throws ProtocolException {
        final Message message = Codec.decode(m.frame());
        lock.lock();
        try {
            if (message instanceof Answer answer) {
                answer.found().forEach((key, value) -> fetched.put(answer.epoch() + "/" + key, value));
            }
            final List<String> uids = m.uids().isEmpty() ? List.copyOf(ranks.keySet()) : m.uids();
            for (final String uid : uids) {
                final LocalRank rank = ranks.get(uid);
                if (rank != null) {
                    toRank(rank, message);
                }
            }
        } finally {
            lock.unlock();
        }
    }

    private void toRank(final LocalRank rank, final Message message) {
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
                if (a.phase() == Phase.PAIRED.ordinal()) {
                    rank.state = MemberState.CLOSED;
                }
                rank.send(new Answer(a.epoch(), a.attempt(), a.phase(), a.round(),
                        rank.found(a, key -> fetched.get(a.epoch() + "/" + key)), a.unanimous(), a.ranks(), a.departed()));
            }
            default -> rank.send(message);
        }
    }

    // ---- steps ----

    private void freeze(final Freeze m) {
        coordinator.send(images.freeze(m, snapshot(), treesSnapshot()));
    }

    private void thaw(final Thaw m) {
        if (m.outcome().equals("restored")) {
            mayRestore.complete(null);
            if (!restores) {
                coordinator.send(new Thawed(m.epoch()));
            }
            return; // restore() answers it once the ranks have their verdict
        }
        final Message answer = images.thaw(m);
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
            coordinator.send(answer);
        }
    }

    private void verdict(final LocalRank rank, final Thaw m) {
        final Verdict verdict = new Verdict(m.outcome().equals("resumed") ? Verdict.Outcome.RESUMED
                : Verdict.Outcome.ABORTED, m.epoch(), options.backend(), options.socket(), "", "", m.reason());
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

    private List<LocalRank> snapshot() {
        lock.lock();
        try {
            return ranks.values().stream().filter(r -> r.welcomed).toList();
        } finally {
            lock.unlock();
        }
    }

    private List<Tree> treesSnapshot() {
        lock.lock();
        try {
            return List.copyOf(trees.values());
        } finally {
            lock.unlock();
        }
    }

    private Set<Long> roots() {
        lock.lock();
        try {
            final Set<Long> roots = new LinkedHashSet<>(trees.keySet());
            ranks.values().forEach(r -> roots.add(r.hostPid));
            roots.remove(-1L);
            return roots;
        } finally {
            lock.unlock();
        }
    }

    // ---- restart ----

    /**
     * Restores the processes of the checkpoint that this agent was made for and gives the ranks their verdict. They run
     * when it returns.
     *
     * @return the processes, to be waited for by whoever runs the restart
     */
    public RestoredJob restore(final Manifest manifest) throws CheckpointException {
        final RestoredJob running;
        try {
            running = images.restore(manifest, snapshot());
        } catch (CheckpointException e) {
            coordinator.send(new StepFailed(epoch, "THAW",
                    e.getMessage()));
            throw e;
        }
        lock.lock();
        try {
            restored = false; // a coordinator started anew is to see a running job
            for (final Manifest.HostPart part : manifest.hosts()) {
                for (final Manifest.TreePart t : part.trees()) {
                    final Long hostPid = running.hostPid(part, t.root());
                    if (hostPid != null) {
                        addTree(new Tree(hostPid, t.argv(), t.cwd()), Map.of());
                    }
                }
                for (final Manifest.RankPart r : part.ranks()) {
                    final LocalRank rank = ranks.get(r.uid());
                    final Long hostPid = running.hostPid(part, r.root());
                    if (rank != null && hostPid != null) {
                        rank.hostPid = hostPid;
                        rank.watch = ProcessWatch.start(hostPid, () -> processEnded(rank));
                        write(rank, new Verdict(Verdict.Outcome.RESTORED, epoch, options.backend(), options.socket(),
                                options.secret(), options.tcpAddress(), ""));
                    }
                }
            }
        } catch (IOException e) {
            running.close();
            throw new CheckpointException(e.getMessage(), e);
        } finally {
            lock.unlock();
        }
        coordinator.send(new Thawed(epoch));
        return running;
    }

    // ---- ranks and launches ----

    private void acceptLoop() {
        for (;;) {
            final SocketChannel channel;
            try {
                channel = listener.accept();
            } catch (AsynchronousCloseException e) {
                return;
            } catch (IOException e) {
                if (!listener.isOpen()) {
                    return;
                }
                log.add("accept failed: " + e);
                continue;
            }
            Thread.ofVirtual().name("rank").start(() -> serve(channel));
        }
    }

    private void serve(final SocketChannel socket) {
        final FrameChannel channel = new FrameChannel(socket);
        try {
            final Message first = channel.read();
            switch (first) {
                case Hello hello -> {
                    check(hello.version(), hello.secret());
                    serveRank(hello, channel);
                }
                case RegisterTree tree -> {
                    check(tree.version(), tree.secret());
                    register(tree);
                    channel.write(new Registered(job()));
                }
                default -> throw new ProtocolException("a connection begins with message type " + first.type());
            }
        } catch (EOFException e) {
            // whoever it was only looked whether somebody listens
        } catch (IOException | RuntimeException e) {
            log.add("connection closed: " + e.getMessage());
            try {
                channel.write(new Refused(String.valueOf(e.getMessage())));
            } catch (IOException gone) {
                channel.close(); // it does not listen any more
            }
        } finally {
            channel.close();
        }
    }

    private void check(final int version, final String secret) throws ProtocolException {
        if (version != FrameType.VERSION) {
            throw new ProtocolException("peer of protocol version " + version + ", this agent has version "
                    + FrameType.VERSION + ": restart the program with this installation");
        }
        if (options.secretGiven() && !options.secret().equals(secret)) {
            throw new ProtocolException("wrong job secret (SHADOWVERBS_SECRET)");
        }
    }

    private void register(final RegisterTree m) throws IOException {
        lock.lock();
        try {
            settings.putAll(m.settings());
            addTree(new Tree(m.pid(), m.argv(), m.cwd()), m.settings());
        } finally {
            lock.unlock();
        }
        log.add("launched: pid " + m.pid() + " " + String.join(" ", m.argv()));
    }

    private void addTree(final Tree tree, final Map<String, String> asked) throws IOException {
        trees.put(tree.hostPid(), tree);
        knownTrees.write(trees.values());
        coordinator.send(new TreeState(tree, true, asked));
        ProcessWatch.start(tree.hostPid(), () -> treeEnded(tree));
    }

    private void treeEnded(final Tree tree) {
        lock.lock();
        try {
            if (trees.remove(tree.hostPid(), tree)) {
                coordinator.send(new TreeState(tree, false, Map.of()));
            }
        } finally {
            lock.unlock();
        }
    }

    private void serveRank(final Hello hello, final FrameChannel channel) throws IOException {
        final LocalRank rank;
        final Outbox link = new Outbox(channel, hello.program());
        final CountDownLatch linkDone = new CountDownLatch(1);
        lock.lock();
        try {
            rank = arrived(hello);
            if (rank.link != null) {
                rank.link.close();
            }
            rank.link = link;
            rank.linkDone = linkDone;
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
            final long hostPid = ProcFs.hostPid(hello.pid(), trees.keySet());
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
                    rank.wants(c);
                    pass(rank, c);
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
                    pass(rank, d);
                }
                case Hold h -> rank.send(new Held(problemOf(() -> rank.hold(h.socket()))));
                case GiveBack g -> rank.send(new Held(problemOf(() -> rank.giveBack(g.socket()))));
                case Fail f -> pass(rank, f);
                case Progress p -> pass(rank, p);
                case Publish p -> pass(rank, p);
                case Lookup l -> pass(rank, l);
                case Tell t -> pass(rank, t);
                case LastWill w -> pass(rank, w);
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

    private interface Attempt {
        void run() throws IOException;
    }

    private static String problemOf(final Attempt attempt) {
        try {
            attempt.run();
            return "";
        } catch (IOException | UnsupportedOperationException | LinkageError e) {
            return String.valueOf(e.getMessage());
        }
    }

    private void pass(final LocalRank rank, final Message message) {
        final byte[] frame = Codec.frame(message);
        coordinator.send(new FromRank(rank.uid, java.util.Arrays.copyOfRange(frame, 4, frame.length)));
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
                pass(rank, rank.detached);
                rank.detached = null;
            }
            if (rank.saidGoodbye || rank.state == MemberState.DETACHED || rank.pendingVerdict != null
                    || closed.get()) {
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
            if (rank.link == null && rank.state != MemberState.DETACHED) {
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
            remove(rank, (byte) 1, 0, "");
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

    // ---- the end ----

    private void quit(final String reason) {
        log.add("agent ends: " + reason);
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
        close();
    }

    private void awaitClosed() {
        try {
            if (!ended.await(CLOSING_SECONDS, TimeUnit.SECONDS)) {
                log.add("the agent has not ended within " + CLOSING_SECONDS + " s");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private boolean nobodyIsLeft() {
        lock.lock();
        try {
            return ranks.isEmpty() && trees.isEmpty();
        } finally {
            lock.unlock();
        }
    }

    /** Also who comes second waits: with this process its end would be cut short. */
    @Override
    public void close() {
        if (!closed.compareAndSet(false, true)) {
            awaitClosed();
            return;
        }
        coordinator.close();
        step(images::letGo);
        steps.shutdown();
        try {
            if (nobodyIsLeft()) {
                // While the socket is this one's: no other agent's processes use the run directory yet.
                ReceiverRegister.clear(options.runDirectory());
            }
            listener.close();
            Files.deleteIfExists(options.socket());
            knownTrees.remove();
            lock.lock();
            try {
                for (final LocalRank rank : ranks.values()) {
                    rank.verdictPipe.close();
                }
            } finally {
                lock.unlock();
            }
        } catch (IOException e) {
            log.add("at the end: " + e);
        }
        try {
            fetched.awaitOpen(); // its file cannot be removed while it is being made
            fetched.discard();
        } catch (UncheckedIOException | IllegalStateException e) {
            log.add("at the end: " + e);
        }
        ended.countDown();
    }
}
