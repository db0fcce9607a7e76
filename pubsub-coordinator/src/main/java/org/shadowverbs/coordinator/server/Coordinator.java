// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Function;
import java.util.function.LongSupplier;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.process.UserCommands;
import org.shadowverbs.coordinator.protocol.Acceptor;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.Command;
import org.shadowverbs.coordinator.protocol.HostMessages.Quit;
import org.shadowverbs.coordinator.protocol.HostMessages.Release;
import org.shadowverbs.coordinator.protocol.HostMessages.Restored;
import org.shadowverbs.coordinator.protocol.HostMessages.Terminate;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.TreeState;
import org.shadowverbs.coordinator.protocol.JobHistory;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Alive;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.JobEnded;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.UserAsks;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartJoin;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.store.PublishedStore;

/**
 * The coordinator of one job: it listens, tells agents, commands and restarts apart, and lets one checkpoint or reattachment
 * run at a time, on the thread named conductor. Its methods may be called by any thread.
 */
public final class Coordinator implements AutoCloseable {
    private static final Duration AGENTS_RETURN = Duration.ofSeconds(10);
    /** Shorter than the usual deadline of a phase, so that the others need not give up. */
    private static final Duration AGENT_RETURN = Duration.ofSeconds(30);
    private static final Duration COMMANDS_END = Duration.ofSeconds(30);
    /** So often, in the time after which a host counts as lost, it is told that the coordinator is there. */
    private static final int ALIVE_TIMES = 5;
    /** So often in the time after which a job counts as hanging its ranks are asked. */
    private static final int HANG_LOOKS = 4;
    /** How soon it is seen that somebody wants to know of hangs. */
    private static final long IDLE_LOOK_MILLIS = 1_000;

    private final CoordinatorOptions options;
    private final int port;
    private final Path runDirectory;
    private final EventLog log;
    private final PublishedStore store;
    private final Job job;
    private final Epoch epoch;
    private final Restarts restarts;
    private final Inspections inspections;
    private final PeriodicCheckpoints periodic;
    private final Recovery recovery;
    private final ProgramCheckpoints programs;
    private final LevelCopies copies;
    private final JobState before;
    private final ExecutorService conductor = Executors.newSingleThreadExecutor(
            Thread.ofPlatform().daemon().name("conductor").factory());
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(
            Thread.ofPlatform().daemon().name("interval").factory());
    /** Read-locked by each command that is served. */
    private final ReentrantReadWriteLock commands = new ReentrantReadWriteLock();
    private final AtomicBoolean recovering = new AtomicBoolean();
    private final AtomicBoolean ending = new AtomicBoolean();
    private final AtomicBoolean closed = new AtomicBoolean();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final Acceptor acceptor;
    /** By the addresses at which it listens besides; guarded by this map. */
    private final Map<String, Acceptor> more = new LinkedHashMap<>();
    private final Object stateFile = new Object();
    private final Runnable whenCopied = this::lastHasEnded;
    /** Whether agents are told all the time that the coordinator is there; guarded by the job's lock. */
    private boolean watching;

    /**
     * Binds the port and begins to listen.
     *
     * @param openStore makes the store of published ids below the run directory
     * @throws IOException when the port can't be bound (the message names it), or the run directory can't be made
     */
    public Coordinator(final CoordinatorOptions options, final Function<Path, PublishedStore> openStore)
            throws IOException {
        this(options, openStore, System::nanoTime);
    }

    /** @param clock tells the time of the deadlines of checkpoints: System.nanoTime, but for tests */
    Coordinator(final CoordinatorOptions options, final Function<Path, PublishedStore> openStore, final LongSupplier clock)
            throws IOException {
        this.options = options;
        final ServerSocketChannel listener = ServerSocketChannel.open();
        try {
            listener.setOption(StandardSocketOptions.SO_REUSEADDR, true);
            listener.bind(new InetSocketAddress(options.address(), options.port()), 128);
            port = ((InetSocketAddress) listener.getLocalAddress()).getPort();
            runDirectory = RunDirectory.make(options.runRoot(), port);
            log = new EventLog(runDirectory.resolve("coordinator.log"));
            before = options.recover() ? JobState.read(runDirectory) : null;
        } catch (java.net.BindException e) {
            listener.close();
            throw new IOException("port " + options.port() + " of " + options.address() + ": " + e.getMessage(), e);
        } catch (IOException | RuntimeException e) {
            listener.close();
            throw e;
        }
        store = openStore.apply(runDirectory);
        job = new Job(before == null ? newName() : before.job(), before == null ? 0 : before.epoch(),
                before == null ? new Lineage(0, 0) : new Lineage(before.lastCheckpoint(), before.restartedFrom()),
                new FailureHistory(System::nanoTime, Duration.ofMillis(before == null ? 0 : before.ranMillis()),
                        before == null ? 0 : before.failures()),
                options.deadlineSeconds(), clock, store, log, this::lastHasEnded);
        epoch = job.epoch();
        job.onMembersArrived(this::membersArrived);
        restarts = new Restarts(job, timer);
        inspections = new Inspections(job, this::checkpointDirectory, timer);
        job.onJoined(inspections::changed);
        periodic = new PeriodicCheckpoints(timer, conductor, job, System::nanoTime,
                () -> checkpoint(false, false, false, line -> log.add("periodic checkpoint: " + line)));
        recovery = new Recovery(job, conductor, this::checkpointDirectory,
                () -> new RecoveryRun(job, this::say, this::broughtBack, this::lastHasEnded));
        recovery.options(options.recovery());
        job.recovery(recovery);
        copies = new LevelCopies(job, () -> options.images().with(job::setting).levels(), this::checkpointDirectory, this::keep,
                Duration.ofSeconds(options.deadlineSeconds()), timer);
        job.copies(copies);
        job.onWishes(this::userAsked);
        programs = new ProgramCheckpoints(job, conductor, clock,
                () -> checkpoint(false, false, false, line -> log.add("checkpoint for the program: " + line)));
        job.onAsked(programs);
        log.add("coordinator of job " + job.name() + " listens at port " + port
                + (before == null ? "" : ", started anew after epoch " + before.epoch()));
        acceptor = new Acceptor(listener, log, FrameChannel::overTcp, this::serve);
        job.onOtherHosts(this::reachableAt);
        acceptor.open();
        for (final String address : before == null ? Set.<String>of() : before.addresses()) {
            listenAt(address);
        }
        periodic.begin(options.interval());
        if (options.portFile() != null) {
            final Path temporary = options.portFile().resolveSibling("." + options.portFile().getFileName() + ".tmp");
            Files.writeString(temporary, port + "\n");
            Files.move(temporary, options.portFile(), StandardCopyOption.ATOMIC_MOVE,
                    StandardCopyOption.REPLACE_EXISTING);
        }
    }

    private static String newName() {
        return Long.toString(System.currentTimeMillis() / 1000, 36)
                + Integer.toString(36 + ThreadLocalRandom.current().nextInt(36 * 36 - 36), 36);
    }

    /** Where it listens. */
    public int port() {
        return port;
    }

    public Path runDirectory() {
        return runDirectory;
    }

    /** Blocks until the coordinator has ended: by quit, or with its last program. */
    public void await() throws InterruptedException {
        ended.await();
    }

    Job job() {
        return job;
    }

    ScheduledExecutorService timer() {
        return timer;
    }

    ExecutorService conductor() {
        return conductor;
    }

    CoordinatorOptions options() {
        return options;
    }

    // ---- connections ----

    private void serve(final Message first, final FrameChannel channel) throws IOException, InterruptedException {
        if (closed.get()) {
            return; // as if nobody listened here any more, which is about to be so
        }
        switch (first) {
            case AgentHello hello -> {
                check(hello.version(), hello.secret());
                serveAgent(hello, channel);
            }
            case Command command -> {
                check(command.version(), command.secret());
                commands.readLock().lock();
                try {
                    new CommandSession(this, channel).serve(command);
                } finally {
                    commands.readLock().unlock();
                }
            }
            case RestartJoin join -> {
                check(join.version(), join.secret());
                restarts.serve(join, channel);
            }
            default -> throw new ProtocolException("a connection begins with message type " + first.type());
        }
    }

    /**
     * For agents of other hosts. A coordinator that nobody told where to listen does so at the loopback, as most jobs are on one
     * host, and begins to listen at one of its host's addresses when it is first needed there.
     */
    private String reachableAt(final String address) throws IOException {
        if (!InetAddress.getByName(options.address()).isLoopbackAddress()) {
            return "";
        }
        listenAt(address);
        Thread.ofVirtual().start(this::saveState); // whoever calls this holds the job's lock
        return address;
    }

    private void listenAt(final String address) throws IOException {
        synchronized (more) {
            if (closed.get() || more.containsKey(address)) {
                return;
            }
            final ServerSocketChannel listener = ServerSocketChannel.open();
            try {
                listener.setOption(StandardSocketOptions.SO_REUSEADDR, true);
                listener.bind(new InetSocketAddress(address, port), 128);
            } catch (IOException | RuntimeException e) {
                listener.close();
                throw new IOException("port " + port + " of " + address + ": " + e.getMessage(), e);
            }
            final Acceptor another = new Acceptor(listener, log, FrameChannel::overTcp, this::serve);
            more.put(address, another);
            another.open();
        }
        log.add("listens also at " + address + ", for agents of other hosts");
    }

    private void closeAcceptors() throws IOException {
        acceptor.close();
        synchronized (more) {
            for (final Acceptor another : more.values()) {
                another.close();
            }
        }
    }

    private Set<String> addresses() {
        synchronized (more) {
            return Set.copyOf(more.keySet());
        }
    }

    private void check(final int version, final String secret) throws ProtocolException {
        if (version != FrameType.VERSION) {
            throw new ProtocolException("peer of protocol version " + version + ", this coordinator has version "
                    + FrameType.VERSION);
        }
        if (!java.security.MessageDigest.isEqual(secret.getBytes(java.nio.charset.StandardCharsets.UTF_8),
                options.secret().getBytes(java.nio.charset.StandardCharsets.UTF_8))) {
            throw new ProtocolException("wrong job secret: SHADOWVERBS_SECRET, or SHADOWVERBS_RUN_DIR, where the"
                    + " coordinator keeps the one that it has made, is not the job's");
        }
    }

    private void serveAgent(final AgentHello hello, final FrameChannel channel) throws IOException {
        if (hello.restored() && !restarts.expects(hello)) {
            throw new ProtocolException("a restart on several hosts is under way here, of which this is no part");
        }
        final AgentSession session = job.agentJoined(hello, channel);
        saveState();
        periodic.begin(interval());
        watch();
        String why = "it closed the connection";
        try {
            for (;;) {
                final Message message = channel.read();
                job.handle(session, message);
                if (message instanceof TreeState) {
                    periodic.begin(interval()); // a launch may ask for one
                    watch();
                }
            }
        } catch (EOFException e) {
            why = "its " + e.getMessage();
        } catch (IOException | RuntimeException e) {
            why = e.getMessage() == null ? "its connection was closed" : e.getMessage();
        } finally {
            if (job.agentLost(session, why) && !closed.get()) {
                if (session.launchers == 0) {
                    startAgent(session); // else these do
                }
                timer.schedule(() -> job.giveUpAgent(session), AGENT_RETURN.toMillis(), TimeUnit.MILLISECONDS);
            }
        }
    }

    /** On another host somebody else must. */
    private void startAgent(final AgentSession session) {
        try {
            if (!session.host().equals(Files.readString(Path.of("/proc/sys/kernel/hostname")).strip())) {
                return;
            }
            log.add("starting an agent: " + String.join(" ", session.command()));
            new ProcessBuilder(session.command())
                    .redirectInput(ProcessBuilder.Redirect.from(new java.io.File("/dev/null")))
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(ProcessBuilder.Redirect.appendTo(runDirectory.resolve("agent.err").toFile()))
                    .start();
        } catch (IOException e) {
            log.add("the agent can't be started: " + e);
        }
    }

    // ---- a job that heals itself ----

    /** A launch may ask for it: from then on hosts that do not answer count as lost soon. */
    private void watch() {
        final RecoveryOptions asked = RecoveryOptions.of(job::setting, options.recovery());
        final boolean first = job.locked(() -> {
            if (asked.equals(recovery.options()) && (!asked.asked() || watching)) {
                return false;
            }
            final boolean begins = asked.asked() && !watching;
            watching |= begins;
            recovery.options(asked);
            job.agents().forEach(agent -> agent.watch(asked.lostAfterMillis()));
            return begins;
        });
        if (first) {
            final long every = asked.lostAfterMillis() / ALIVE_TIMES;
            timer.scheduleAtFixedRate(() -> job.locked(() -> {
                job.agents().forEach(agent -> agent.send(new Alive()));
                return null;
            }), every, every, TimeUnit.MILLISECONDS);
            lookForHangs();
        }
    }

    /** A launch may ask for it later than another has asked for recovery, and with another time. */
    private void lookForHangs() {
        final Duration hang = job.locked(() -> Duration.ofSeconds(recovery.options().hangAfterSeconds()));
        if (hang.isZero()) {
            job.goesOn();
        } else {
            job.watchForHangs(hang);
        }
        timer.schedule(this::lookForHangs, hang.isZero() ? IDLE_LOOK_MILLIS : hang.toMillis() / HANG_LOOKS, TimeUnit.MILLISECONDS);
    }

    private void say(final String line) {
        job.say(line);
    }

    /** The job has come back from that checkpoint, and its ranks run. */
    private void broughtBack(final Manifest manifest) {
        log.add("job " + job.name() + " is back, epoch " + epoch.number());
        job.lineage().restarted(manifest.epoch());
        job.history().restarted(new JobHistory(manifest.history().ranMillis(), manifest.history().failures(), true,
                manifest.millis()));
        job.restartProblem("");
        job.goesOn();
        tellRestarts("");
        epoch.end();
        saveState();
    }

    /** With the job's lock held. */
    private void userAsked(final byte what, final int signal) {
        if (what == UserAsks.END) {
            if (job.agents().stream().anyMatch(agent -> agent.bound)) {
                job.agents().forEach(agent -> agent.send(new Terminate(signal)));
            } // else each launching command passes it on to its program
            return;
        }
        conductor.execute(() -> {
            final CheckpointRun.Outcome outcome = checkpoint(what == UserAsks.LAST_CHECKPOINT, false, false, line -> { });
            say(outcome.folder() == null ? "checkpoint failed: " + outcome.problem()
                    : "checkpoint " + outcome.folder() + (what == UserAsks.LAST_CHECKPOINT ? "; the job is ended" : ""));
        });
    }

    // ---- what members bring ----

    /** An agent came with ranks in the middle of an epoch: restored ones, or those of a coordinator that was lost. */
    private void membersArrived(final AgentHello hello) {
        if (hello.restored()) {
            if (!restarts.arrived(hello)) {
                return; // not before all have verified their images
            }
            epoch.takeOver(true);
            epoch.tellAgents(Stage.RESTORE, new Thaw(hello.epoch(), epoch.attempt(), "restored", "", false));
            conductor.execute(this::reattachRestored);
        } else if (recovering.compareAndSet(false, true)) {
            conductor.execute(this::recover);
        }
    }

    private void reattachRestored() {
        String problem = "";
        try {
            CheckpointRun.requireAll(epoch.awaitAgents());
            epoch.tellAgents(Stage.RELEASE, new Release(epoch.number()));
            CheckpointRun.requireAll(epoch.awaitAgents());
            final Reattachment back = new Reattachment(epoch, log::add);
            back.exchanges();
            back.open();
        } catch (Stopped e) {
            problem = e.getMessage();
        }
        log.add(problem.isEmpty() ? "job " + job.name() + " is restored, epoch " + epoch.number()
                : "restart of epoch " + epoch.number() + ": " + problem);
        job.restartProblem(problem);
        if (problem.isEmpty()) {
            tellHistory();
        }
        restarts.end(problem);
        tellRestarts(problem);
        job.endEpoch();
        saveState();
    }

    /** What the restart's manifest says; those of a job that began with an older version say nothing. */
    private void tellHistory() {
        final String saved = job.setting(JobHistory.SETTING, "");
        if (!saved.isEmpty()) {
            final JobHistory history = JobHistory.of(saved);
            job.history().restarted(history);
            periodic.restarted(Duration.ofMillis(history.costMillis()));
        }
        periodic.begin(interval());
    }

    /** They wait for it, and end what they have restored when it did not come back as a whole. */
    private void tellRestarts(final String problem) {
        job.locked(() -> {
            job.agents().forEach(a -> a.send(new Restored(problem)));
            return null;
        });
    }

    private void recover() {
        recovering.set(false);
        final Set<String> expected = before == null ? Set.of() : before.agents();
        try {
            epoch.await(() -> job.agents().stream().map(AgentSession::id).toList().containsAll(expected), AGENTS_RETURN,
                    () -> "not all agents have come back");
        } catch (Stopped e) {
            log.add(e.getMessage() + " within " + Sizes.deadline(AGENTS_RETURN) + "; going on with those that have");
        }
        epoch.takeOver(false);
        if (epoch.participants() == 0) {
            job.endEpoch();
            return;
        }
        log.add("epoch " + epoch.number() + " is given up: its coordinator was lost");
        String problem;
        try {
            problem = String.join("; ", new Reattachment(epoch, log::add).run("aborted", "the coordinator was lost",
                    Reattachment.Way.of(epoch)));
        } catch (Stopped e) {
            problem = e.getMessage();
        }
        if (!problem.isEmpty()) {
            log.add("after the coordinator was lost: " + problem);
        }
        tellRestarts(problem); // the epoch may have been that of a restart
        job.endEpoch();
        saveState();
    }

    // ---- checkpoints ----

    /** Runs one, after what goes on now; to be called on the conductor's thread. */
    CheckpointRun.Outcome checkpoint(final boolean kill, final boolean detached, final boolean preCopy, final Report report) {
        final Path directory = checkpointDirectory();
        final ImageChoice images = options.images().with(job::setting).preCopied(preCopy);
        final boolean together = programs.together();
        // Nobody can ask a user's command to take a device through an image.
        final boolean commands = !job.setting(UserCommands.SAVE, "").isEmpty();
        final CheckpointRun.Outcome outcome = new CheckpointRun(job, directory, keep(), images, kill, detached || commands,
                together, report).run();
        programs.made(outcome, together);
        periodic.made(outcome);
        saveState();
        return outcome;
    }

    private int keep() {
        return Integer.parseInt(job.setting("keep", Integer.toString(options.keep())));
    }

    private Path checkpointDirectory() {
        return Path.of(job.setting("ckptdir", options.checkpointDirectory().toString()));
    }

    /** Whether one could be made, and whether that was known before. */
    Inspections inspections() {
        return inspections;
    }

    /** Whether the job heals itself; guarded by the job's lock. */
    Recovery recovery() {
        return recovery;
    }

    /** When periodic checkpoints are made. */
    PeriodicCheckpoints periodic() {
        return periodic;
    }

    private Interval interval() {
        final String asked = job.setting(Interval.SETTING, "");
        return asked.isEmpty() ? options.interval() : Interval.of(asked, job.setting(Interval.MTBF_SETTING, ""));
    }

    /** Who comes last writes what is true then: agents join at the same time. */
    private void saveState() {
        synchronized (stateFile) {
            try {
                final Set<String> ids = new LinkedHashSet<>(
                        job.locked(() -> job.agents().stream().map(AgentSession::id).toList()));
                if (!closed.get()) {
                    new JobState(job.name(), epoch.number(), job.lineage().last(),
                            job.lineage().restartedFrom(), job.history().ran().toMillis(), job.history().failures(), ids,
                            addresses()).write(runDirectory);
                }
            } catch (IOException e) {
                log.add("the job's state could not be written: " + e);
            }
        }
    }

    // ---- the end ----

    private void lastHasEnded() {
        if (job.locked(() -> job.isEmpty() && copies.postpones(whenCopied))) {
            return; // who launched it may end the hosts as soon as he hears of its end
        }
        job.locked(() -> {
            if (job.isEmpty()) {
                final int status = recovery.jobEnded();
                job.agents().forEach(agent -> agent.send(new JobEnded(status)));
            }
            return null;
        });
        if (options.exitOnLast() && ending.compareAndSet(false, true)) {
            log.add("the last program of the job has ended");
            Thread.ofPlatform().name("exit-on-last").start(this::endIfStillEmpty);
        }
    }

    private void endIfStillEmpty() {
        awaitStore();
        awaitCommands();
        awaitConductor();
        ending.set(false); // for a program that has come meanwhile
        if (job.isEmpty() && ending.compareAndSet(false, true)) {
            quit("the last program of the job has ended");
        }
    }

    /** What has ended the job is told so: a checkpoint that kills, a kill. */
    private void awaitCommands() {
        try {
            if (commands.writeLock().tryLock(COMMANDS_END.toMillis(), TimeUnit.MILLISECONDS)) {
                commands.writeLock().unlock();
            } else {
                log.add("at the end: a command is not done within " + Sizes.deadline(COMMANDS_END));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The last checkpoint of a job that has failed is to be there: its images may not be safe yet. */
    private void awaitConductor() {
        try {
            conductor.submit(() -> { }).get();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | RejectedExecutionException e) {
            log.add("at the end: " + e); // it ends already
        }
    }

    /** While its file is being made it cannot be removed; that takes a second, in which this is a coordinator as ever. */
    void awaitStore() {
        try {
            store.awaitOpen();
        } catch (IllegalStateException e) {
            log.add("at the end: " + e.getMessage());
        }
    }

    /** What the job is to leave behind is to be there. */
    void awaitCopies() {
        final String failure = copies.await(log::add, "the end of the coordinator");
        if (!failure.isEmpty()) {
            log.add("at the end: " + failure);
        }
    }

    /** Sends the signal to every process of the job. */
    void terminate(final int signal) {
        job.endsOnPurpose();
        job.locked(() -> {
            job.agents().forEach(a -> a.send(new Terminate(signal)));
            return null;
        });
    }

    /** Ends agents and coordinator; the job's programs run on without them. To be called after {@link #awaitStore}. */
    void quit(final String reason) {
        if (!closed.compareAndSet(false, true)) {
            return;
        }
        final List<AgentSession> all = job.locked(() -> List.copyOf(job.agents()));
        for (final AgentSession agent : all) {
            agent.send(new Quit(reason));
            agent.closeAfterSending();
        }
        try {
            for (final AgentSession agent : all) {
                agent.join(2_000);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        stopThreads();
        try {
            // While the port is this one's: the run directory is no other coordinator's yet.
            store.discard();
            JobSecret.forget(runDirectory);
        } catch (IOException | UncheckedIOException e) {
            log.add("at the end: " + e);
        }
        end();
    }

    /** Ends the coordinator alone: the agents wait for another one, which needs what this one has published. */
    @Override
    public void close() {
        if (!closed.compareAndSet(false, true)) {
            return;
        }
        stopThreads();
        store.close();
        end();
    }

    private void end() {
        try {
            closeAcceptors();
            synchronized (stateFile) {
                JobState.remove(runDirectory);
            }
        } catch (IOException e) {
            log.add("at the end: " + e);
        }
        log.add("coordinator ends");
        ended.countDown();
    }

    /** For tests: vanishes as a killed process does, leaving its state behind. */
    void crash() {
        closed.set(true);
        try {
            closeAcceptors();
            acceptor.join();
        } catch (IOException | InterruptedException e) {
            log.add("at the crash: " + e);
        }
        job.locked(() -> {
            List.copyOf(job.agents()).forEach(AgentSession::close);
            return null;
        });
        stopThreads();
        store.close();
        ended.countDown();
    }

    private void stopThreads() {
        timer.shutdownNow();
        copies.close();
        inspections.close();
        conductor.shutdownNow();
    }
}
