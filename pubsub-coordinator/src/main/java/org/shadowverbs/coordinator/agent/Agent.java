// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
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
import org.shadowverbs.coordinator.client.AgentPlace;
import org.shadowverbs.coordinator.client.JobBackend;
import org.shadowverbs.coordinator.client.ReceiverRegister;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.Relocation;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.ChosenCheckpointer;
import org.shadowverbs.coordinator.process.HostAddress;
import org.shadowverbs.coordinator.process.ProcessCheckpointer;
import org.shadowverbs.coordinator.process.UserCommands;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.Accept;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.protocol.HostMessages.Freeze;
import org.shadowverbs.coordinator.protocol.HostMessages.HoldSockets;
import org.shadowverbs.coordinator.protocol.HostMessages.MakeAgain;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepare;
import org.shadowverbs.coordinator.protocol.HostMessages.Inspect;
import org.shadowverbs.coordinator.protocol.HostMessages.Member;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.HostMessages.PreCopy;
import org.shadowverbs.coordinator.protocol.HostMessages.Quit;
import org.shadowverbs.coordinator.protocol.HostMessages.RankNumber;
import org.shadowverbs.coordinator.protocol.HostMessages.Release;
import org.shadowverbs.coordinator.protocol.HostMessages.Restored;
import org.shadowverbs.coordinator.protocol.HostMessages.Save;
import org.shadowverbs.coordinator.protocol.HostMessages.Say;
import org.shadowverbs.coordinator.protocol.HostMessages.Seal;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.Terminate;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.HostMessages.ToRanks;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.JobHistory;
import org.shadowverbs.coordinator.protocol.LevelMessages.CopyImages;
import org.shadowverbs.coordinator.protocol.LevelMessages.RetainImages;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiNews;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Alive;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.EndProcesses;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.JobEnded;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Output;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.OutputTaken;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.ProcessesEnded;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Recover;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Watch;
import org.shadowverbs.coordinator.protocol.ShellMessages.ShellFailed;
import org.shadowverbs.coordinator.protocol.ShellMessages.StartShell;
import org.shadowverbs.coordinator.store.PublishedStore;
import org.shadowverbs.coordinator.system.Libc;

/**
 * The agent of one host: ranks and launches come to its {@link AgentSocket}, it passes on what {@link LocalRanks} and
 * coordinator say to each other by one TCP connection, and has the images made by {@link ImageWorker}. Methods may be called
 * by any thread.
 *
 * <p>One lock guards the ranks, the {@link LaunchedPrograms} and what is known of the job; nobody waits for another process
 * while holding it. Steps of a checkpoint run one after the other, on a thread of their own.
 */
public final class Agent implements AutoCloseable {
    private static final int STDERR = 2;
    private static final long LAST_WORDS_MILLIS = 5_000;
    private static final Path NOWHERE = Path.of("/dev/null");
    private static final int CLOSING_SECONDS = 90;
    /** So long an agent that ends waits for its processes to be thawed. */
    private static final int LAST_STEP_SECONDS = 20;
    /** In tenths of the time after which the coordinator counts this host as lost: by then its processes are to have ended. */
    private static final int AGENT_SOONER = 6;
    /** So long an agent without a process waits for a coordinator whose host does not answer. */
    private static final int MOST_MINUTES_CUT_OFF = 15;
    /** So often in that time each side says that it is alive. */
    private static final int ALIVE_TIMES = 5;

    private final AgentOptions options;
    private final EventLog log;
    private final PublishedStore fetched;
    private final HostLevels levels;
    private final ImageWorker images;
    private final Inspector inspector;
    private final CoordinatorLink coordinator;
    private final Succession succession;
    private final AgentSocket socket;
    private final PmiTrees pmi;
    private final ShellRequests shellRequests;
    private final ShellStarter shells;
    private final StandIns standIns;
    private final FarOutput output;
    private final Restorer restorer;
    private final LocalRecovery recovery;
    /** Freezing, saving, thawing and sealing, one after the other. */
    private final ExecutorService steps = Executors.newSingleThreadExecutor(
            Thread.ofPlatform().daemon().name("images").factory());
    private final CountDownLatch ended = new CountDownLatch(1);
    private final CountDownLatch joined = new CountDownLatch(1);
    /** Until the agents of all hosts of a restart have come. */
    private final CompletableFuture<Void> mayRestore = new CompletableFuture<>();
    /** What a restart has come to, once that is known: empty, or what went wrong. */
    private final CompletableFuture<String> running = new CompletableFuture<>();
    /** The job's exit status, once it is over. */
    private final CompletableFuture<Integer> jobEnded = new CompletableFuture<>();
    /** The coordinator brings the job back, should it die. */
    private volatile boolean heals;
    /** Told by the thread of the connection alone. */
    private int minutesCutOff;
    private final AtomicBoolean closed = new AtomicBoolean();
    private final String id;

    private volatile Future<?> saving = CompletableFuture.completedFuture(null);

    private final ReentrantLock lock = new ReentrantLock();
    private final LaunchedPrograms programs;
    private final LocalRanks ranks;
    private String job = "";
    /** As the coordinator has said; before that nothing waits for it. */
    private int deadlineSeconds;
    private boolean restored;
    /** Where processes that are restored look for their agent. */
    private List<Path> launchedAt = List.of();
    /** Of the checkpoint whose ranks it brings, or brought; else empty. */
    private final Map<String, String> restartSettings;
    /** That checkpoint's; else null. */
    private final Path restartFolder;

    /**
     * Opens the socket and begins to connect to the coordinator.
     *
     * @param fetched holds what the coordinator sent for all ranks of this host
     * @throws IOException when the socket can't be made, or the run directory can't be read
     */
    public Agent(final AgentOptions options, final ProcessCheckpointer checkpointer, final PublishedStore fetched)
            throws IOException {
        this(options, checkpointer, fetched, null, null);
    }

    /**
     * An agent that brings the ranks of a checkpoint; {@link #restore} is to follow.
     *
     * @param manifest what of the checkpoint comes back on this host; null: nothing does
     * @param folder the checkpoint's
     */
    public Agent(final AgentOptions options, final ProcessCheckpointer checkpointer, final PublishedStore fetched,
            final Manifest manifest, final Path folder) throws IOException {
        this.options = options;
        this.fetched = fetched;
        id = options.host() + "-" + ProcessHandle.current().pid() + "-"
                + Integer.toHexString(System.identityHashCode(this));
        log = new EventLog(options.runDirectory().resolve("agent.log"));
        succession = new Succession(options, log);
        coordinator = new CoordinatorLink(options, log, succession, this::hello, this::fromCoordinator, this::coordinatorLost,
                this::endIfIdle, this::cutOff);
        levels = new HostLevels(options.host(), log, this::job, coordinator::send);
        final ProcessCheckpointer chosen = new ChosenCheckpointer(checkpointer, this::commands);
        images = new ImageWorker(options, chosen, levels, coordinator::send);
        standIns = new StandIns(log, options.ownCommand(), coordinator::send, this::signalRestored);
        output = new FarOutput(options.runDirectory(), log, coordinator::send);
        programs = new LaunchedPrograms(lock, options, log, coordinator, standIns, output);
        ranks = new LocalRanks(lock, options, log, coordinator, programs, fetched, closed::get);
        restorer = new Restorer(lock, options, coordinator, ranks, programs, images, this::deadline);
        recovery = new LocalRecovery(options, log, ranks, programs, images, restorer, standIns, levels, fetched, this::roots,
                manifest == null ? (number, target) -> number == 0 ? NOWHERE : output.of(number) : ImageWorker.ownStreams());
        restartFolder = folder;
        inspector = new Inspector(chosen, ranks, programs);
        restartSettings = manifest == null ? Map.of() : Map.of(AgentHello.BACKEND, options.backend(), JobHistory.SETTING,
                new JobHistory(manifest.history().ranMillis(), manifest.history().failures(), !manifest.killed(),
                        manifest.millis()).text());
        if (manifest != null) {
            restored = true;
            job = manifest.job();
            ranks.expect(manifest, options.backend());
            manifest.hosts().stream().map(part -> part.images().commands()).forEach(programs::restoredBy);
            launchedAt = manifest.hosts().stream().flatMap(part -> part.trees().stream())
                    .map(Manifest.TreePart::agent).filter(Objects::nonNull).distinct().map(Path::of).toList();
        } else {
            JobBackend.forget(options.socket());
            AddressBook.forget(options.socket());
            programs.findRunning();
        }
        pmi = new PmiTrees(coordinator::send);
        shellRequests = new ShellRequests(options, log, coordinator, id);
        shells = new ShellStarter(options, log, coordinator::send, id);
        socket = new AgentSocket(options, log, ranks, programs, pmi, shellRequests, standIns, this::job);
        coordinator.start();
        socket.open();
    }

    private UserCommands commands() {
        return programs.commands();
    }

    /** Waits until the agent has ended: because its coordinator said so, by {@link #close}, or as nobody needs it. */
    public void await() throws InterruptedException {
        ended.await();
    }

    /** Waits until the coordinator has answered, and returns whether it has. */
    public boolean awaitJoined(final long millis) throws InterruptedException {
        return joined.await(millis, TimeUnit.MILLISECONDS);
    }

    /** Done when the agents of all hosts that are to restore something have joined, and {@link #restore} may begin. */
    public CompletableFuture<Void> mayRestore() {
        return mayRestore;
    }

    /** Done when the restored ranks of all hosts run, with an empty text, or with what went wrong: then none is to. */
    public CompletableFuture<String> running() {
        return running;
    }

    /** How the job ends, of which what was restored here may be brought back, here or elsewhere; null: what was restored is all there is. */
    public CompletableFuture<Integer> jobEnded() {
        return heals ? jobEnded : null;
    }

    /** Why the coordinator turned this agent away, or an empty string. */
    public String refusal() {
        return coordinator.refusal();
    }

    /** The job's name; empty as long as no coordinator has said it. */
    public String job() {
        lock.lock();
        try {
            return job;
        } finally {
            lock.unlock();
        }
    }

    /** The line by which whoever starts it learns that it has joined, and under which name. */
    public static String ready(final String job, final String host) {
        return RemoteAgents.READY.formatted(job, host);
    }

    // ---- the coordinator ----

    private AgentHello hello() {
        lock.lock();
        try {
            final List<Member> members = ranks.welcomed().stream().map(LocalRank::member).toList();
            return new AgentHello(FrameType.VERSION, options.secret(), id, options.host(),
                    ProcessHandle.current().pid(), job, ranks.epoch(), ranks.attempt(), restored, members,
                    programs.all(), settings(),
                    recovery.hasRestored() ? List.of() : options.ownCommand(), addresses());
        } finally {
            lock.unlock();
        }
    }

    private static List<NetAddress> addresses() {
        return HostAddress.ofThisHost().stream().map(a -> new NetAddress(a.device(), a.address())).toList();
    }

    private Map<String, String> settings() {
        final Map<String, String> settings = new HashMap<>(programs.settings());
        if (options.spare()) {
            settings.put(AgentHello.SPARE, "true");
        }
        settings.putAll(restartSettings);
        return settings;
    }

    private void fromCoordinator(final Message message) throws IOException {
        switch (message) {
            case AgentWelcome m -> welcomed(m);
            case RankNumber m -> ranks.numbered(m, job());
            case ToRanks m -> ranks.toRanks(m);
            case PreCopy m -> {
                saving.cancel(true); // what was copied or written for one that is given up
                saving = step(() -> coordinator.send(images.preCopy(m, ranks.welcomed(), programs.all())));
            }
            case Prepare m -> step(() -> coordinator.send(images.prepare(m, ranks.welcomed(), programs.all())));
            case Freeze m -> {
                saving.cancel(true); // what was written by one that is given up
                step(() -> freeze(m));
            }
            case HoldSockets m -> step(() -> coordinator.send(images.hold(m)));
            case Accept m -> step(() -> coordinator.send(images.accept(m)));
            case MakeAgain m -> step(() -> images.makeAgain(m));
            case Save m -> saving = step(() -> save(m));
            case Seal m -> saving = step(() -> seal(m));
            case Thaw m -> {
                // A save that is given up must not keep the job frozen until it is done.
                saving.cancel(true);
                step(() -> thaw(m));
            }
            case Release m -> restorer.release(m);
            case Inspect m -> Thread.ofPlatform().name("inspection").daemon().start(() -> inspect(m));
            case Say m -> Thread.ofPlatform().name("say").daemon().start(() -> say(m.line()));
            case Terminate m -> Thread.ofPlatform().name("terminate").daemon().start(() -> images.terminate(
                    m.signal(), roots(), log));
            case Quit m -> {
                coordinator.ending(); // its connection is about to end, and that is no loss
                Thread.ofPlatform().name("quit").start(() -> quit(m.reason()));
            }
            case PmiNews m -> pmi.answered(m);
            case StartShell m -> Thread.ofPlatform().name("shell").daemon().start(() -> shells.start(m));
            case ShellFailed m -> shellRequests.failed(m);
            case Restored m -> {
                restorer.fail(m.problem());
                running.complete(m.problem());
                if (m.problem().isEmpty()) {
                    recovery.runs();
                }
            }
            case Alive m -> { }
            case Watch m -> {
                heals = true;
                coordinator.watch(m.lostAfterMillis() * AGENT_SOONER / 10, m.lostAfterMillis() / ALIVE_TIMES);
            }
            case EndProcesses m -> {
                saving.cancel(true);
                recovery.giveUp("the job is ended, to be brought back");
                step(() -> endProcesses(m));
            }
            case Recover m -> step(() -> coordinator.send(recovery.prepare(m, job())));
            case CopyImages m -> levels.copy(m);
            case RetainImages m -> levels.retain(m);
            case Output m -> standIns.output(m);
            case OutputTaken m -> output.taken();
            case JobEnded m -> {
                standIns.jobEnded(m.status());
                jobEnded.complete(m.status());
            }
            case Refused m -> log.add("the coordinator refuses: " + m.reason());
            default -> throw new ProtocolException("message of type " + message.type() + " from the coordinator");
        }
    }

    private void welcomed(final AgentWelcome m) throws IOException {
        succession.welcomed(m, coordinator.local());
        if (!m.backend().isEmpty()) {
            new JobBackend(m.backend(), options.secret(), options.tcpAddress()).write(options.socket());
        }
        for (final Path socket : launchedAt) {
            try {
                AgentPlace.move(socket, m.job(), options.socket());
            } catch (IOException e) {
                log.add("processes that have not used verbs yet will not find this agent: " + socket + ": " + e);
            }
        }
        standIns.coordinatorCame();
        minutesCutOff = 0;
        lock.lock();
        try {
            job = m.job();
            deadlineSeconds = m.deadlineSeconds();
            ranks.coordinatorCame(m.epoch());
            pmi.coordinatorCame();
            if (joined.getCount() == 0 && ranks.allRun()) {
                running.complete(""); // what the coordinator before this one was about to say
            }
        } finally {
            lock.unlock();
        }
        levels.coordinatorCame();
        joined.countDown();
    }

    /** Nobody else will thaw what is frozen now. The ranks wait for the verdict that the next coordinator decides. */
    private void coordinatorLost() {
        output.taken(); // or it will not be
        restorer.fail("the coordinator was lost before all hosts had restored their share");
        saving.cancel(true);
        step(images::letGo);
        if (recovery.isUnderWay()) {
            recovery.giveUp("the coordinator was lost");
            step(recovery::end); // the next coordinator brings all of the job back, or none
        }
    }

    /** The job may be brought back elsewhere: what is left of it here must not go on, nor write where that writes. */
    private void cutOff() {
        log.add("this host is cut off from the coordinator's: its processes of the job are ended");
        saving.cancel(true);
        recovery.giveUp("this host is cut off");
        step(recovery::end);
    }

    private void endProcesses(final EndProcesses m) {
        final String problem = recovery.end();
        coordinator.send(problem.isEmpty() ? new ProcessesEnded(m.epoch()) : new StepFailed(m.epoch(), "END", problem));
    }

    private void signalRestored(final int signal) {
        recovery.signal(signal);
    }

    /** An agent that no coordinator wants and that has nothing to look after is of no use to anybody. */
    private void endIfIdle() {
        running.complete("there has been no coordinator for a minute, and the job did not run yet");
        if (heals && coordinator.isCutOff() && ++minutesCutOff < MOST_MINUTES_CUT_OFF) {
            return; // a host that is back is as good as a spare one, and launching commands wait to hear of the job
        }
        if (roots().isEmpty()) {
            Thread.ofPlatform().name("quit").start(() -> quit("no coordinator, and no process of the job"));
        }
    }

    /** The processes that were launched here, or are ranks. */
    private Set<Long> roots() {
        lock.lock();
        try {
            final Set<Long> roots = programs.pids();
            roots.addAll(ranks.hostPids());
            roots.remove(-1L);
            return roots;
        } finally {
            lock.unlock();
        }
    }

    // ---- steps ----

    private Future<?> step(final Runnable what) {
        try {
            return steps.submit(what);
        } catch (RejectedExecutionException e) {
            log.add("not done, for the agent ends: a step of the checkpoint");
            return CompletableFuture.completedFuture(null);
        }
    }

    private void freeze(final Freeze m) {
        coordinator.send(images.freeze(m, ranks.welcomed(), programs.all()));
    }

    private void save(final Save m) {
        coordinator.send(images.save(m, ranks.welcomed(), programs.all()));
    }

    private void seal(final Seal m) {
        final Message answer = images.seal(m);
        try {
            coordinator.send(answer);
        } catch (IllegalArgumentException e) {
            coordinator.send(new StepFailed(m.epoch(), "SEAL", "what the manifest is to say of this host is too long: "
                    + e.getMessage()));
        }
    }

    private void thaw(final Thaw m) {
        if (m.outcome().equals("restored")) {
            mayRestore.complete(null);
            if (recovery.isUnderWay()) {
                recovery.restore();
            } else if (restartSettings.isEmpty()) {
                coordinator.send(new Thawed(m.epoch()));
            }
            return; // restore() answers it once the ranks have their verdict
        }
        // Who is detached has its verdict when it wakes.
        ranks.tell(m);
        coordinator.send(images.thaw(m));
        images.putBack();
    }

    // ---- what disturbs nobody ----

    private void inspect(final Inspect m) {
        try {
            coordinator.send(inspector.inspect(m));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** On the standard error of the first program that was launched here; in a job root, of its first child. */
    private void say(final String line) {
        log.add(line);
        if (standIns.say(line)) {
            return;
        }
        for (final Tree tree : programs.all()) {
            for (final long pid : ProcFs.descendants(List.of(tree.hostPid()))) {
                try {
                    if (!Files.readSymbolicLink(Path.of("/proc", Long.toString(pid), "fd", "2")).startsWith("/dev/null")) {
                        Libc.writeLine(pid, STDERR, "shadowverbs: " + line);
                        return;
                    }
                } catch (IOException | UnsupportedOperationException e) {
                    log.add("which pid " + pid + " could not say: " + e.getMessage()); // another one may
                }
            }
        }
    }

    // ---- restart ----

    private Duration deadline() {
        lock.lock();
        try {
            return Duration.ofSeconds(deadlineSeconds);
        } finally {
            lock.unlock();
        }
    }

    /**
     * Restores the processes of the checkpoint that this agent was made for and gives the ranks their verdict. They run
     * when it returns.
     *
     * @param relocation of the whole job
     * @return the processes, to be waited for by whoever runs the restart
     * @throws CheckpointException when some cannot be; the coordinator is told, and none run
     */
    public RestoredJob restore(final Manifest manifest, final Relocation relocation) throws CheckpointException {
        // A coordinator started anew is to see a running job.
        return restorer.restore(restartFolder, manifest, relocation, ImageWorker.ownStreams(), () -> restored = false);
    }

    // ---- the end ----

    private void quit(final String reason) {
        log.add("agent ends: " + reason);
        // A restored job may have ended before its coordinator could say that it runs.
        running.complete(ranks.allRun() ? "" : "the job's coordinator has ended: " + reason);
        standIns.jobEnded(JobEnded.NOBODY_KNOWS);
        standIns.flush();
        ranks.shutDown(reason);
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
            return ranks.isEmpty() && programs.all().isEmpty();
        } finally {
            lock.unlock();
        }
    }

    /**
     * Ends the agent; the processes of the job run on, thawed. Also who comes second waits: with this process its end would be
     * cut short.
     */
    @Override
    public void close() {
        if (!closed.compareAndSet(false, true)) {
            awaitClosed();
            return;
        }
        try {
            if (levels.finish(deadline())) {
                coordinator.finish(LAST_WORDS_MILLIS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        coordinator.close();
        saving.cancel(true);
        step(images::letGo);
        steps.shutdown();
        try {
            if (!steps.awaitTermination(LAST_STEP_SECONDS, TimeUnit.SECONDS)) {
                log.add("the last step of a checkpoint has not ended within " + LAST_STEP_SECONDS + " s");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        try {
            if (nobodyIsLeft()) {
                // While the socket is this one's: no other agent's processes use the run directory yet.
                ReceiverRegister.clear(options.runDirectory());
                JobBackend.forget(options.socket());
                AddressBook.forget(options.socket());
                succession.forget();
            }
            for (final Path place : launchedAt) {
                AgentPlace.stay(place, job()); // what was restored ends with this agent: what is launched there now is another job's
            }
            socket.close();
            output.close();
            programs.forget();
            ranks.closePipes();
        } catch (IOException e) {
            log.add("at the end: " + e);
        }
        try {
            fetched.awaitOpen(); // its file cannot be removed while it is being made
            fetched.discard();
        } catch (UncheckedIOException | IllegalStateException e) {
            log.add("at the end: " + e);
        }
        jobEnded.complete(JobEnded.NOBODY_KNOWS);
        ended.countDown();
    }
}
