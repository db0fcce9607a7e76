// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
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
import java.util.function.LongSupplier;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.process.UserCommands;
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
import org.shadowverbs.coordinator.store.JobStore;
import org.shadowverbs.coordinator.store.Seat;

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
    private final Path runDirectory;
    private final EventLog log;
    private final JobStore store;
    private final Keeper keeper;
    private final Job job;
    private final Epoch epoch;
    private final Restarts restarts;
    private final Inspections inspections;
    private final PeriodicCheckpoints periodic;
    private final Recovery recovery;
    private final ProgramCheckpoints programs;
    private final LevelCopies copies;
    private final JobState before;
    /** The agents of the coordinator before this one that may still come. */
    private volatile Set<String> expected;
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
    private final Doors doors;
    private final Runnable whenCopied = this::lastHasEnded;
    /** Whether agents are told all the time that the coordinator is there; guarded by the job's lock. */
    private boolean watching;

    /** Opens what the job must not lose. */
    public interface StoreOpener {
        /**
         * @param job the name of a new job
         * @throws IOException when it can't
         */
        JobStore open(Path runDirectory, String job) throws IOException;
    }

    /**
     * Binds the port and begins to listen.
     *
     * @throws IOException when the port can't be bound (the message names it), the run directory can't be made, or the store can't be
     *     opened
     */
    public Coordinator(final CoordinatorOptions options, final StoreOpener opener) throws IOException {
        this(options, opener, System::nanoTime);
    }

    /** @param clock tells the time of the deadlines of checkpoints: System.nanoTime, but for tests */
    Coordinator(final CoordinatorOptions given, final StoreOpener opener, final LongSupplier clock) throws IOException {
        doors = new Doors(given.address(), given.port());
        final String fresh = newName();
        try {
            runDirectory = RunDirectory.make(given.runRoot(), doors.port());
            log = new EventLog(runDirectory.resolve("coordinator.log"));
            store = opener.open(runDirectory, fresh);
            before = store.before() == null ? null : JobState.of(store.before());
        } catch (IOException | RuntimeException e) {
            doors.close();
            throw e;
        }
        // One that follows it on another host is told no options.
        options = isSuccessor() ? given.of(before) : given;
        expected = before == null ? Set.of() : before.agents();
        job = new Job(before == null ? fresh : before.job(), before == null ? 0 : before.epoch(),
                before == null ? new Lineage(0, 0) : new Lineage(before.lastCheckpoint(), before.restartedFrom()),
                new FailureHistory(System::nanoTime, Duration.ofMillis(before == null ? 0 : before.ranMillis()),
                        before == null ? 0 : before.failures()),
                options.deadlineSeconds(), clock, store, log, this::lastHasEnded);
        keeper = new Keeper(job, store, options, isSuccessor() ? before : null, this::seat, doors::others);
        job.keeper(keeper);
        epoch = job.epoch();
        job.onMembersArrived(this::membersArrived);
        restarts = new Restarts(job, timer);
        inspections = new Inspections(job, this::checkpointDirectory, timer);
        job.onJoined(inspections::changed);
        periodic = new PeriodicCheckpoints(timer, conductor, job, System::nanoTime,
                () -> checkpoint(false, false, false, line -> log.add("periodic checkpoint: " + line)));
        recovery = new Recovery(job, heal -> conductor.execute(() -> {
            heal.run();
            saveState();
        }), this::checkpointDirectory,
                () -> new RecoveryRun(job, this::say, this::broughtBack, this::lastHasEnded));
        job.recovery(recovery);
        copies = new LevelCopies(job, () -> options.images().with(job::setting).levels(), this::checkpointDirectory, this::keep,
                Duration.ofSeconds(options.deadlineSeconds()), timer);
        job.copies(copies);
        job.onWishes(this::userAsked);
        programs = new ProgramCheckpoints(job, conductor, clock,
                () -> checkpoint(false, false, false, line -> log.add("checkpoint for the program: " + line)));
        job.onAsked(programs);
        log.add("coordinator of job " + job.name() + " listens at port " + port()
                + (before == null ? "" : ", started anew after epoch " + before.epoch()) + (store.number() == 0 ? ""
                        : ", number " + store.number() + " of the store"));
        if (isSuccessor()) {
            job.settings(before.settings());
        }
        recovery.options(RecoveryOptions.of(job::setting, options.recovery()));
        job.onOtherHosts(this::reachableAt);
        if (isSuccessor()) {
            conductor.execute(this::takeOver); // before anything that agents bring
        }
        store.begin(new JobStore.Listener() {
            @Override
            public void line(final String line) {
                Thread.ofVirtual().start(() -> say(line)); // who waits for the store may hold the job's lock
            }

            @Override
            public void superseded(final String why) {
                Thread.ofPlatform().name("superseded").start(() -> vanish(why));
            }
        });
        doors.open(log, this::serve);
        for (final String address : before == null || isSuccessor() ? Set.<String>of() : before.addresses()) {
            doors.openAlsoAt(address);
        }
        periodic.begin(interval());
        saveState();
        if (options.portFile() != null) {
            final Path temporary = options.portFile().resolveSibling("." + options.portFile().getFileName() + ".tmp");
            Files.writeString(temporary, port() + "\n");
            Files.move(temporary, options.portFile(), StandardCopyOption.ATOMIC_MOVE,
                    StandardCopyOption.REPLACE_EXISTING);
        }
    }

    /** Whether it is in the place of one that may have been on another host. */
    private boolean isSuccessor() {
        return before != null && !store.place().isEmpty();
    }

    private static String newName() {
        return Long.toString(System.currentTimeMillis() / 1000, 36)
                + Integer.toString(36 + ThreadLocalRandom.current().nextInt(36 * 36 - 36), 36);
    }

    /** Where it listens. */
    public int port() {
        return doors.port();
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
        if (!doors.isLocal()) {
            return "";
        }
        doors.openAlsoAt(address);
        Thread.ofVirtual().start(this::saveState); // whoever calls this holds the job's lock
        return address;
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
                final Object before = message instanceof TreeState ? kept(session) : null;
                job.handle(session, message);
                if (message instanceof TreeState) {
                    if (!kept(session).equals(before)) {
                        saveState();
                    }
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

    /** What of the state a launch may change; it is not kept for each of thousands of them. */
    private Object kept(final AgentSession session) {
        return job.locked(() -> List.of(session.trees.isEmpty(), Map.copyOf(job.settings())));
    }

    /** On another host somebody else must. */
    private void startAgent(final AgentSession session) {
        try {
            if (!session.host().equals(Doors.hostName())) {
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
        try {
            epoch.await(() -> job.haveJoined(expected), AGENTS_RETURN, () -> "not all agents have come back");
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
        return Integer.parseInt(job.setting(CoordinatorOptions.KEEP, Integer.toString(options.keep())));
    }

    private Path checkpointDirectory() {
        return Path.of(job.setting(CoordinatorOptions.DIRECTORY, options.checkpointDirectory().toString()));
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

    private void saveState() {
        keeper.save();
    }

    /** For agents of other hosts. */
    private Seat seat() {
        return doors.seat(job.name());
    }

    /** In the place of a coordinator that another host may have taken with it. */
    private void takeOver() {
        new Takeover(job, before, checkpointDirectory()).run();
        expected = Set.of();
        keeper.tookOver();
        say("the job's coordinator was lost; its place is taken by one on host " + seat().host() + ", at " + seat().addresses().getFirst()
                + ":" + port());
        saveState();
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
            store.published().awaitOpen();
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
        keeper.end();
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
        keeper.end();
        store.close();
        end();
    }

    private void end() {
        try {
            doors.close();
        } catch (IOException e) {
            log.add("at the end: " + e);
        }
        log.add("coordinator ends");
        ended.countDown();
    }

    /** Ends as a killed process does, and leaves its state behind: for another coordinator, or in tests. */
    void vanish(final String why) {
        if (!closed.compareAndSet(false, true)) {
            return;
        }
        log.add("coordinator ends: " + why);
        keeper.end();
        try {
            doors.shut();
        } catch (IOException | InterruptedException e) {
            log.add("at the end: " + e);
        }
        job.locked(() -> {
            List.copyOf(job.agents()).forEach(AgentSession::close);
            return null;
        });
        stopThreads();
        store.abandon();
        ended.countDown();
    }

    private void stopThreads() {
        timer.shutdownNow();
        copies.close();
        inspections.close();
        conductor.shutdownNow();
    }
}
