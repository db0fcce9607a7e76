// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.client.Attachment;
import org.shadowverbs.coordinator.client.CheckpointRequest;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Levels;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.process.TcpConnection;
import org.shadowverbs.coordinator.protocol.HostMessages.Accept;
import org.shadowverbs.coordinator.protocol.HostMessages.Accepted;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.Freeze;
import org.shadowverbs.coordinator.protocol.HostMessages.Frozen;
import org.shadowverbs.coordinator.protocol.HostMessages.HoldSockets;
import org.shadowverbs.coordinator.protocol.HostMessages.MakeAgain;
import org.shadowverbs.coordinator.protocol.HostMessages.Plan;
import org.shadowverbs.coordinator.protocol.HostMessages.PreCopied;
import org.shadowverbs.coordinator.protocol.HostMessages.PreCopy;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepare;
import org.shadowverbs.coordinator.protocol.HostMessages.Save;
import org.shadowverbs.coordinator.protocol.HostMessages.Saved;
import org.shadowverbs.coordinator.protocol.HostMessages.Seal;
import org.shadowverbs.coordinator.protocol.HostMessages.Sealed;
import org.shadowverbs.coordinator.protocol.HostMessages.SocketsHeld;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.UnacceptedSocket;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RankMessages.Checkpoint;
import org.shadowverbs.coordinator.store.StoreException;

/**
 * The checkpoint, from the request to the folder in its place: read {@link #attempt} from top to bottom. It is all or
 * nothing: until {@link #save} returns, whatever happens ends in {@link #giveUp}; what happens later ends the job's new checkpoint,
 * and the job runs on in either case.
 */
final class CheckpointRun {
    private static final int MOST_TRIES = 5;
    private final Job job;
    private final Epoch epoch;
    private final Path directory;
    private final int keep;
    private final ImageChoice images;
    private final boolean kill;
    private final boolean detached;
    private final boolean together;
    private final Report report;
    /** Who was late on the way back, and came. */
    private final Set<String> late = new LinkedHashSet<>();

    private final Map<String, Long> phaseNanos = new LinkedHashMap<>();
    private long began;
    /** When the first gate closed. */
    private long closed;
    /** Of the epoch that this checkpoint is; 0 before it has begun. */
    private long number;
    private int ranks;
    private int rounds;
    private CheckpointFolder folder;
    private List<Manifest.HostPart> hosts = List.of();
    /** Who has written images. */
    private Set<AgentSession> writers = Set.of();
    private List<Needs> needs = List.of();
    /** Where hosts have their images, by their folders in the checkpoint; empty: in that. */
    private final Map<String, String> roots = new LinkedHashMap<>();
    private long bytes;
    /** Whether the devices stay open, and how many queue pairs were reset for that. */
    private boolean attached;
    private int resets;
    /** Whether agents have begun to prepare. */
    private boolean prepared;
    /** From here on the ranks need not suffer from that whoever asked for it can't be told. */
    private boolean goingBack;

    /**
     * What has become of it.
     *
     * @param folder null when there is no new checkpoint
     * @param attached whether the devices stayed open
     * @param resets how many queue pairs were reset, where they did
     * @param stoppedNanos from the first gate closed to the last one opened; 0 when there is no new checkpoint, or it ended the job
     * @param problem why there is none, or what is not as it was although there is one; may be empty
     * @param late lines about ranks that were waited for on the way back longer than the deadline
     */
    record Outcome(Path folder, long epoch, int ranks, int rounds, long bytes, boolean attached, int resets, Map<String, Long> phaseNanos,
            long totalNanos, long stoppedNanos, String problem, List<String> late) {
    }

    /**
     * @param kill the job ends with it
     * @param detached devices are closed for it also where they could stay open
     * @param together it ends calls by which several processes ask for one together
     */
    CheckpointRun(final Job job, final Path directory, final int keep, final ImageChoice images, final boolean kill,
            final boolean detached, final boolean together, final Report report) {
        this.together = together;
        this.job = job;
        epoch = job.epoch();
        this.directory = directory;
        this.keep = keep;
        this.images = images;
        this.kill = kill;
        this.detached = detached;
        this.report = report;
    }

    Outcome run() {
        began = System.nanoTime();
        job.copies().await(report, "the checkpoint");
        for (int tries = 1;; tries++) {
            try {
                return attempt();
            } catch (Stopped e) {
                if (e.again() && tries < MOST_TRIES && !epoch.isAbandoned()) {
                    report.line("the checkpoint begins again: " + e.getMessage());
                    continue;
                }
                job.log().add("checkpoint of epoch " + number + " failed: " + e.getMessage());
                return outcome(null, 0, e.getMessage());
            }
        }
    }

    private Outcome attempt() throws Stopped {
        phaseNanos.clear();
        rounds = 0;
        bytes = 0;
        attached = false;
        resets = 0;
        folder = null;
        prepared = false;
        roots.clear();
        job.keeper().awaitStoreShortly();
        countFromWhatIsThere();
        ranks = epoch.begin();
        number = epoch.number();
        job.keeper().save(); // one that takes the coordinator's place gives no other checkpoint this number
        boolean told = false;
        try {
            begin();
            preCopy();
            prepare();
            told = true;
            epoch.tellBegun(new Checkpoint(number, epoch.deadlineSeconds(), Map.of("kill", Boolean.toString(kill),
                    CheckpointRequest.DETACHED, Boolean.toString(detached), CheckpointRequest.WRITES,
                    Boolean.toString(images.preCopy() || images.fullEvery() > 1), CheckpointRequest.TOGETHER,
                    Boolean.toString(together))));
            exchange(Phase.ANNOUNCE);
            closed = System.nanoTime();
            if (!close()) {
                exchange(Phase.PAIRED);
            }
            drain();
            detach();
            freeze();
            save();
            needs = epoch.needs();
            if (kill) {
                seal();
                commit();
            }
        } catch (Stopped e) {
            giveUp(e.getMessage(), told);
            throw e;
        } catch (RuntimeException | Error e) {
            // Whatever it is, the ranks wait behind closed gates.
            if (folder == null || !folder.isSafe()) {
                giveUp(e.toString(), told);
                throw new Stopped(e.toString(), false);
            }
            epoch.turnBack();
            say("warning: after the checkpoint was safe: " + e);
        }
        try {
            return kill ? end() : resume();
        } finally {
            job.endEpoch();
        }
    }

    /** A job that was restarted from an older checkpoint does not reuse the names of those made after that one. */
    private void countFromWhatIsThere() throws Stopped {
        try {
            epoch.countFrom(CheckpointFolder.highest(directory, job.name()));
        } catch (IOException e) {
            throw cannotRead(e);
        } catch (UncheckedIOException e) {
            throw cannotRead(e.getCause());
        }
    }

    private Stopped cannotRead(final IOException e) {
        return new Stopped("the checkpoint directory " + directory + " can't be read: " + e.getMessage(), false);
    }

    private void begin() throws Stopped {
        job.log().add("checkpoint of epoch " + number + " begins with " + ranks + " ranks");
        if (job.locked(() -> job.agents().isEmpty())) {
            throw new Stopped("no agent has joined this coordinator: there is nothing to save", false);
        }
        if (job.locked(() -> job.agents().stream().allMatch(a -> a.trees.isEmpty())) && ranks == 0) {
            throw new Stopped("no program runs in this job: there is nothing to save", false);
        }
        try {
            folder = CheckpointFolder.begin(directory, job.name(), number);
        } catch (IOException e) {
            throw new Stopped(e.getMessage(), false);
        } catch (UncheckedIOException e) {
            throw cannotRead(e.getCause());
        }
    }

    private Plan plan() {
        final long last = job.lineage().last();
        return new Plan(folder.place().getFileName().toString(), last == 0 ? "" : CheckpointFolder.name(job.name(), last),
                images.fullEvery(), images.levels().local());
    }

    /** The programs run on. */
    private void preCopy() throws Stopped {
        if (!images.preCopy()) {
            return;
        }
        final long start = System.nanoTime();
        epoch.tellAgents(Stage.PRE_COPY, new PreCopy(number, folder.temporary().toString(), plan(), epoch.deadlineSeconds()));
        long copied = 0;
        for (final Map.Entry<AgentSession, Message> e : epoch.awaitAgents().entrySet()) {
            final long here = ((PreCopied) e.getValue()).bytes();
            copied += here;
            if (here == 0) {
                report.line("nothing could be copied before on host " + e.getKey().host()
                        + ": no process there uses verbs, or its kernel does not count writes");
            }
        }
        phaseDone("PRE_COPY", start, Sizes.bytes(copied));
    }

    /** What can be done for {@link #freeze} while the programs run on. */
    private void prepare() throws Stopped {
        final long start = System.nanoTime();
        prepared = true;
        epoch.tellAgents(Stage.PREPARE, new Prepare(number, folder.temporary().toString(), plan()));
        epoch.awaitAgents();
        phaseDone("PREPARE", start, "");
    }

    private void exchange(final Phase phase) throws Stopped {
        final long start = System.nanoTime();
        // No gate is closed before the programs of all ranks are out of the sections that they keep free of checkpoints.
        Exchange last = epoch.complete(phase, 0);
        for (int round = 1; phase == Phase.ANNOUNCE && !epoch.unanimous(last); round++) {
            epoch.requireTime(last);
            last = epoch.complete(phase, round);
        }
        phaseDone(phase.name(), start, ranksDone());
    }

    /** @return whether all queue pairs are as they were announced: then they are paired */
    private boolean close() throws Stopped {
        final long start = System.nanoTime();
        final boolean asAnnounced = epoch.unanimous(epoch.complete(Phase.CLOSE, 0));
        if (!asAnnounced && !epoch.unanimous(epoch.complete(Phase.CLOSE, 1))) {
            epoch.complete(Phase.CLOSE, 2); // whose the queue pairs are that several have open is known only now
        }
        phaseDone("CLOSE", start, ranksDone());
        return asAnnounced;
    }

    /** Rounds of bookmarks until nothing moves that can move. */
    private void drain() throws Stopped {
        final long start = System.nanoTime();
        for (;;) {
            final Exchange round = epoch.complete(Phase.DRAIN, rounds);
            rounds++;
            if (epoch.unanimous(round)) {
                break;
            }
            epoch.requireTime(round);
        }
        phaseDone("DRAIN", start, ranksDone() + ", " + rounds + (rounds == 1 ? " round" : " rounds"));
    }

    /** All keep their devices open, if all can; else all close them. */
    private void detach() throws Stopped {
        final long start = System.nanoTime();
        final Exchange first = epoch.complete(Phase.DETACH, 0);
        if (!epoch.unanimous(first) && epoch.unanimous(epoch.complete(Phase.DETACH, 1))) {
            epoch.complete(Phase.DETACH, 2); // when all have reset what is to be reset on both sides
        }
        attached = epoch.attached();
        final Map<Integer, Attachment> said = epoch.attachments();
        final Set<List<Integer>> reset = new LinkedHashSet<>();
        said.forEach((rank, a) -> a.resets().forEach(r -> {
            reset.add(List.of(rank, r.sequence()));
            reset.add(List.of(r.peer(), r.peerSequence()));
        }));
        resets = attached ? reset.size() + said.values().stream().mapToInt(Attachment::alone).sum() : 0;
        epoch.awaitState(Stage.DETACH, MemberState.DETACHED);
        phaseDone("DETACH", start, ranksDone() + (attached ? ", devices stay open" : ", " + whyDetached(said))
                + (resets == 0 ? "" : ", " + resets + (resets == 1 ? " queue pair reset" : " queue pairs reset")));
    }

    private static String whyDetached(final Map<Integer, Attachment> said) {
        return said.entrySet().stream().filter(e -> !e.getValue().obstacle().isEmpty()).findFirst()
                .map(e -> "devices closed: " + (e.getValue().obstacle().equals(CheckpointRequest.DETACHED) ? "as asked for"
                        : "rank " + e.getKey() + ": " + e.getValue().obstacle())).orElse("devices closed");
    }

    private void freeze() throws Stopped {
        final long start = System.nanoTime();
        epoch.tellAgents(Stage.FREEZE, agent -> new Freeze(number, epoch.deadlineSeconds(), attached,
                Connections.addressesBut(agent, job.agents())));
        int trees = 0;
        final Connections connections = new Connections();
        final Set<String> standing = new HashSet<>();
        for (final Map.Entry<AgentSession, Message> e : epoch.awaitAgents().entrySet()) {
            final Frozen frozen = (Frozen) e.getValue();
            trees += frozen.trees().size();
            if (!frozen.trees().isEmpty()) {
                standing.add(e.getKey().host());
            }
            connections.add(e.getKey(), frozen.sockets());
        }
        require(connections.problems(), connections.passing());
        if (connections.mayWait()) {
            holdSockets(standing);
        }
        phaseDone("FREEZE", start, trees + (trees == 1 ? " tree" : " trees"));
    }

    /**
     * Connections may have come to a host that stood still already. From here on none does, and none changes.
     *
     * @param standing the hosts that programs stand still on
     */
    private void holdSockets(final Set<String> standing) throws Stopped {
        epoch.tellAgents(Stage.HOLD, new HoldSockets(number));
        final Connections held = new Connections();
        final Map<String, AgentSession> agents = new LinkedHashMap<>();
        for (final Map.Entry<AgentSession, Message> e : epoch.awaitAgents().entrySet()) {
            held.add(e.getKey(), ((SocketsHeld) e.getValue()).sockets());
            agents.put(e.getKey().host(), e.getKey());
        }
        require(held.problems(), held.passing());
        require(List.of(), held.notToBeMadeAgain(standing));
        passOn(held.unaccepted(), agents);
    }

    /**
     * What listeners have had of connections that nobody has accepted goes to the clients' hosts, which make them again when all goes on,
     * and after a restart.
     *
     * @param unaccepted by the connections as the clients have them, the clients' hosts
     */
    private void passOn(final Map<TcpConnection, String> unaccepted, final Map<String, AgentSession> agents) throws Stopped {
        final Map<TcpConnection, String> left = new LinkedHashMap<>(unaccepted);
        String late = null;
        for (boolean more = !left.isEmpty(); more;) {
            more = false;
            epoch.tellAgents(Stage.ACCEPT, new Accept(number));
            final Map<String, List<UnacceptedSocket>> parts = new LinkedHashMap<>();
            for (final Message answer : epoch.awaitAgents().values()) {
                final Accepted accepted = (Accepted) answer;
                more |= accepted.more();
                for (final UnacceptedSocket socket : accepted.sockets()) {
                    final String host = left.remove(
                            new TcpConnection(socket.local(), socket.localPort(), socket.remote(), socket.remotePort()));
                    if (host == null) {
                        late = "a TCP connection from " + socket.local() + ":" + socket.localPort() + " to " + socket.remote() + ":"
                                + socket.remotePort() + " has come while connections were held";
                        continue;
                    }
                    parts.computeIfAbsent(host, h -> new ArrayList<>()).add(socket);
                }
            }
            parts.forEach((host, sockets) -> agents.get(host).send(new MakeAgain(number, sockets)));
        }
        // Nothing of these has come to the listener's end.
        left.forEach((c, host) -> agents.get(host).send(new MakeAgain(number, List.of(new UnacceptedSocket(c.localAddress(),
                c.localPort(), c.remoteAddress(), c.remotePort(), -1, new byte[0])))));
        // Not before the others are made again: they have been accepted.
        if (late != null) {
            throw new Stopped(late, true);
        }
    }

    /** Of a connection that leads out of the job only one end would come back. */
    private static void require(final List<String> problems, final List<String> passing) throws Stopped {
        if (!problems.isEmpty() || !passing.isEmpty()) {
            throw new Stopped(problems.isEmpty() ? passing.getFirst() : problems.getFirst(), problems.isEmpty());
        }
    }

    private void save() throws Stopped {
        final long start = System.nanoTime();
        epoch.tellAgents(Stage.SAVE, new Save(number, folder.temporary().toString(), plan(), epoch.deadlineSeconds()));
        writers = new LinkedHashSet<>();
        long written = 0;
        for (final Map.Entry<AgentSession, Message> e : epoch.awaitAgents().entrySet()) {
            final Saved saved = (Saved) e.getValue();
            written += saved.bytes();
            if (!saved.note().isEmpty()) {
                report.line(saved.note());
            }
            writers.add(e.getKey());
        }
        phaseDone("SAVE", start, ranksDone() + ", " + Sizes.bytes(written));
    }

    /** What was written becomes safe; the programs run on meanwhile, unless they are to end. */
    private void seal() throws Stopped {
        final long start = System.nanoTime();
        epoch.tellAgents(Stage.SEAL, new Seal(number, images.compression().toString(), epoch.deadlineSeconds()));
        final Map<AgentSession, Message> answers = epoch.awaitAgents();
        final List<Manifest.HostPart> parts = new ArrayList<>();
        for (final AgentSession writer : writers) {
            if (!(answers.get(writer) instanceof Sealed sealed)) {
                throw new Stopped("the agent on host " + writer.host() + " was lost before its images were safe", false);
            }
            if (sealed.images().isEmpty()) {
                continue; // a host with no process of the job
            }
            try {
                final Manifest.HostPart part = ManifestFile.hostPart(sealed.images());
                roots.put(part.directory(), sealed.root());
                if (sealed.root().isEmpty() && !Files.isDirectory(folder.temporary().resolve(part.directory()))) {
                    throw new Stopped("the images of host " + writer.host() + " are not in " + directory
                            + " as this host sees it: the checkpoint directory must be shared by all hosts", false);
                }
                parts.add(part);
                bytes += sealed.bytes();
            } catch (IOException x) {
                throw new Stopped("host " + writer.host() + " described its images wrongly: " + x.getMessage(), false);
            }
        }
        hosts = parts;
        phaseDone("SEAL", start, Sizes.bytes(bytes));
    }

    private void commit() throws Stopped {
        final long start = System.nanoTime();
        epoch.enter(Stage.COMMIT);
        final Map<String, Long> millis = new LinkedHashMap<>();
        phaseNanos.forEach((phase, nanos) -> millis.put(phase, nanos / 1_000_000));
        final long last = job.lineage().last();
        final Levels levels = job.copies().levels(hosts, roots, last == 0 ? null
                : directory.resolve(CheckpointFolder.name(job.name(), last)), kill);
        final Manifest manifest;
        try {
            if (levels != null) {
                levels.write(folder.temporary());
            }
            manifest = new Manifest(Manifest.SCHEMA, job.name(), number, job.lineage().last(),
                    job.setting(AgentHello.BACKEND, Verdict.SAME_BACKEND),
                    Instant.now().truncatedTo(ChronoUnit.SECONDS).toString(), kill,
                    (System.nanoTime() - began) / 1_000_000, millis, ranks, bytes, hosts, needs,
                    new Manifest.History(job.history().ran().toMillis(), job.history().failures()), "");
            folder.commit(manifest, () -> job.keeper().decide(number));
        } catch (StoreException e) {
            throw new Stopped("COMMIT failed: " + e.getMessage(), false);
        } catch (IOException | RuntimeException e) {
            throw new Stopped("COMMIT failed: " + e, false);
        }
        if (kill) {
            epoch.turnBack();
        }
        job.lineage().made(number);
        folder.warnings().forEach(warning -> say("warning: " + warning));
        job.log().add("checkpoint " + folder.place() + " is safe: " + bytes + " bytes");
        if (levels == null) {
            prune();
        } else {
            job.copies().begin(folder.place(), manifest, levels);
        }
        phaseDone("COMMIT", start, levels == null ? "" : LevelCopies.text(levels));
    }

    private void prune() {
        try {
            CheckpointFolder.prune(directory, job.name(), keep, job.lineage().restartedFrom())
                    .forEach(old -> job.log().add("removed old checkpoint " + old));
        } catch (IOException | RuntimeException e) {
            say("warning: an old checkpoint could not be removed: " + e);
        }
        job.copies().retained(number);
    }

    /** The checkpoint is safe and the job was to end with it. */
    private Outcome end() {
        final long start = System.nanoTime();
        String problem = "";
        job.savedAndEnds();
        try {
            epoch.tellAgents(Stage.KILL, new Thaw(number, epoch.attempt(), "", "", true));
            requireAll(epoch.awaitAgents());
        } catch (Stopped e) {
            problem = e.getMessage();
        }
        phaseDone("KILL", start, "");
        if (!roots.values().stream().allMatch(String::isEmpty)) {
            final long copies = System.nanoTime();
            final String failure = job.copies().await(this::say, "the end of the job");
            final boolean flushed = CheckpointFolder.isAllShared(folder.place()); // then no host is needed any more
            phaseDone("COPY", copies, flushed ? "to level shared" : "");
            problem = problem.isEmpty() && !flushed ? failure : problem;
        }
        return outcome(folder.place(), 0, problem);
    }

    /**
     * All is written: thaw, and every rank opens its devices again. Only then the images are made safe. Should that fail there is no
     * new checkpoint, and the one before stays the valid one, from which nothing has been restarted.
     */
    private Outcome resume() {
        final long start = System.nanoTime();
        goingBack = true;
        epoch.turnBack();
        final String problem = epoch.isAbandoned() ? "the job is brought back"
                : thawAndReattach("resumed", "", Reattachment.Way.of(epoch));
        // Ranks that keep their devices go on before they tell anybody.
        final long opened = epoch.lastOpened();
        final long stopped = (problem.isEmpty() && opened != 0 ? opened : System.nanoTime()) - closed;
        phaseDone(attached ? "RESUME" : "REATTACH", start, ranksDone());
        epoch.ranksRun();
        String failure = "";
        try {
            seal();
            commit();
        } catch (Stopped e) {
            failure = e.getMessage();
        } catch (RuntimeException | Error e) {
            failure = e.toString();
        }
        if (folder.isSafe()) {
            if (!failure.isEmpty()) {
                say("warning: after the checkpoint was safe: " + failure);
            }
            say(stoodStill(stopped));
            return outcome(folder.place(), stopped, problem);
        }
        job.log().add("checkpoint of epoch " + number + " failed, and the job runs on: " + failure);
        discard();
        return outcome(null, 0, problem.isEmpty() ? failure : failure + "; " + problem);
    }

    private String stoodStill(final long nanos) {
        final long settling = took("CLOSE", "PAIRED", "DRAIN", "DETACH");
        final long freezing = took("FREEZE");
        final long writing = took("SAVE");
        return "programs stood still " + Sizes.seconds(nanos) + ": " + Sizes.seconds(settling) + " to settle their work, "
                + Sizes.seconds(freezing) + " to freeze, " + Sizes.seconds(writing) + " to write, "
                + Sizes.seconds(Math.max(0, nanos - settling - freezing - writing)) + " to go on";
    }

    private long took(final String... phases) {
        return Stream.of(phases).mapToLong(phase -> phaseNanos.getOrDefault(phase, 0L)).sum();
    }

    /** No checkpoint comes of it: what was written is removed and the job runs on as before. */
    private void giveUp(final String why, final boolean told) {
        try {
            backToWork(why, told);
        } finally {
            job.endEpoch();
        }
    }

    private void backToWork(final String why, final boolean told) {
        final Reattachment.Way way = Reattachment.Way.of(epoch);
        epoch.turnBack();
        job.log().add("epoch " + number + " is given up: " + why);
        if (told && !epoch.isAbandoned()) {
            final String problem = thawAndReattach("aborted", why, way);
            if (!problem.isEmpty()) {
                say("after the checkpoint was given up: " + problem);
            }
        } else if (prepared && !epoch.isAbandoned()) {
            unprepare();
        }
        discard();
    }

    /** The ranks know of nothing yet; what agents hold ready for the images of this checkpoint must not stay. */
    private void unprepare() {
        try {
            epoch.tellAgents(Stage.PREPARE, new Prepare(number, "", plan()));
            epoch.awaitAgents();
        } catch (Stopped e) {
            job.log().add("what was prepared for epoch " + number + " could not be undone: " + e.getMessage());
        }
    }

    private void discard() {
        try {
            if (folder != null) {
                folder.discard();
                job.copies().retained(number);
            }
        } catch (IOException | RuntimeException e) {
            say("warning: " + folder.temporary() + " could not be removed: " + e);
        }
    }

    /** To whoever asked for it; on the way back the ranks need not suffer from that he can't be told. */
    private void say(final String line) {
        try {
            report.line(line);
        } catch (RuntimeException | Error e) {
            job.log().add(line + " (which could not be said: " + e + ")");
        }
    }

    /** Returns what went wrong, or an empty string. */
    private String thawAndReattach(final String outcome, final String why, final Reattachment.Way way) {
        try {
            return String.join("; ", new Reattachment(epoch, line -> {
                late.add(line);
                say(line);
            }).run(outcome, why, way));
        } catch (Stopped e) {
            return e.getMessage();
        }
    }

    private static String firstFailure(final Map<AgentSession, Message> answers) {
        for (final Map.Entry<AgentSession, Message> e : answers.entrySet()) {
            if (e.getValue() instanceof StepFailed f) {
                return f.step() + " failed on host " + e.getKey().host() + ": " + f.reason();
            }
        }
        return "";
    }

    /** Turns a step that failed on some host into what stops. */
    static void requireAll(final Map<AgentSession, Message> answers) throws Stopped {
        final String failure = firstFailure(answers);
        if (!failure.isEmpty()) {
            throw new Stopped(failure, false);
        }
    }

    private String ranksDone() {
        return epoch.participants() + "/" + ranks + (ranks == 1 ? " rank" : " ranks");
    }

    private void phaseDone(final String phase, final long start, final String what) {
        final long nanos = System.nanoTime() - start;
        phaseNanos.merge(phase, nanos, Long::sum);
        final String line = String.format(Locale.ROOT, "%-9s %9s  %s", phase, Sizes.seconds(nanos), what).stripTrailing();
        if (goingBack || folder.isSafe()) {
            say(line);
        } else {
            report.line(line);
        }
    }

    private Outcome outcome(final Path place, final long stopped, final String problem) {
        return new Outcome(place, number, ranks, rounds, bytes, attached, resets, new LinkedHashMap<>(phaseNanos),
                System.nanoTime() - began, stopped, problem, List.copyOf(late));
    }
}
