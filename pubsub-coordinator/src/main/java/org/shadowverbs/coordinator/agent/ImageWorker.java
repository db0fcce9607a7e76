// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.client.AgentPlace;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.levels.Resolution;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.manifest.Relocation;
import org.shadowverbs.coordinator.memory.WriteCount;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.FreezeRequest;
import org.shadowverbs.coordinator.process.FrozenTrees;
import org.shadowverbs.coordinator.process.HostAddress;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.process.ImagePlan;
import org.shadowverbs.coordinator.process.PassingStateException;
import org.shadowverbs.coordinator.process.Preparation;
import org.shadowverbs.coordinator.process.ProcessCheckpointer;
import org.shadowverbs.coordinator.process.ProcessRoot;
import org.shadowverbs.coordinator.process.Progress;
import org.shadowverbs.coordinator.process.RestoreRequest;
import org.shadowverbs.coordinator.process.RestoreStreams;
import org.shadowverbs.coordinator.process.RestoredTrees;
import org.shadowverbs.coordinator.process.TcpConnection;
import org.shadowverbs.coordinator.process.TcpEnd;
import org.shadowverbs.coordinator.process.TcpEnds;
import org.shadowverbs.coordinator.process.UnacceptedEnd;
import org.shadowverbs.coordinator.process.WrittenImages;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.HostMessages.Accept;
import org.shadowverbs.coordinator.protocol.HostMessages.Accepted;
import org.shadowverbs.coordinator.protocol.HostMessages.Freeze;
import org.shadowverbs.coordinator.protocol.HostMessages.Frozen;
import org.shadowverbs.coordinator.protocol.HostMessages.HoldSockets;
import org.shadowverbs.coordinator.protocol.HostMessages.MakeAgain;
import org.shadowverbs.coordinator.protocol.HostMessages.Plan;
import org.shadowverbs.coordinator.protocol.HostMessages.PreCopied;
import org.shadowverbs.coordinator.protocol.HostMessages.PreCopy;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepare;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepared;
import org.shadowverbs.coordinator.protocol.HostMessages.Save;
import org.shadowverbs.coordinator.protocol.HostMessages.Saved;
import org.shadowverbs.coordinator.protocol.HostMessages.Seal;
import org.shadowverbs.coordinator.protocol.HostMessages.Sealed;
import org.shadowverbs.coordinator.protocol.HostMessages.SocketsHeld;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.StepProgress;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSocket;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSockets;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.HostMessages.UnacceptedSocket;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.system.Libc;

/** The steps of a checkpoint that deal with processes. They run one after the other, on the agent's step thread. */
final class ImageWorker {
    static final String DESCENDS = "the agent itself descends from a program of the job";

    static final int SIGKILL = 9;
    private static final int TERM_SECONDS = 10;
    private static final int MOST_THAWS = 3;
    /** In one message, and what one connection has more. */
    private static final long ACCEPTED_BYTES = 4 << 20;
    private static final long THAW_PAUSE_NANOS = 50_000_000;

    private final AgentOptions options;
    private final ProcessCheckpointer checkpointer;
    private final Consumer<Message> coordinator;
    private final HostLevels levels;
    /** The origins of what a restart has brought here. */
    private volatile List<Manifest.Origin> moved = List.of();
    private Preparation prepared = Preparation.NOTHING;
    /** Of what is restored, or was last. */
    private volatile Progress restoring = Progress.UNTOLD;
    private FrozenTrees frozen;
    /** What is still to be told of connections that nobody had accepted; null: none were accepted here. */
    private Deque<UnacceptedEnd> accepted;
    /** What runs on, and is not put back yet; null: nothing. */
    private FrozenTrees thawed;
    /** What is to be made safe; null: nothing. */
    private Written written;

    /** @param part of the manifest, from images that are safe */
    private record Written(long epoch, WrittenImages images, Function<HostImages, Manifest.HostPart> part, HostLevels.Place place,
            Plan plan) {
    }

    /** @param coordinator is told how steps go on that take as long as there is data */
    ImageWorker(final AgentOptions options, final ProcessCheckpointer checkpointer, final HostLevels levels,
            final Consumer<Message> coordinator) {
        this.levels = levels;
        this.coordinator = coordinator;
        this.options = options;
        this.checkpointer = checkpointer;
    }

    Message prepare(final Prepare m, final List<LocalRank> ranks, final List<Tree> trees) {
        letGo();
        try {
            final FreezeRequest request = request(ranks, trees, Duration.ZERO, Progress.UNTOLD);
            if (!m.folder().isEmpty() && !request.roots().isEmpty() && !descendsFrom(request)) {
                final Path checkpoint = Path.of(m.folder());
                prepared = checkpointer.prepare(request, Files.isDirectory(checkpoint)
                        ? folder(levels.place(m.plan(), checkpoint).checkpoint()) : null, plan(m.plan(), ranks));
            }
        } catch (IOException | RuntimeException e) {
            prepared = Preparation.NOTHING; // the freezing comes upon it again, and says so
        }
        return new Prepared(m.epoch());
    }

    Message freeze(final Freeze m, final List<LocalRank> ranks, final List<Tree> trees) {
        if (frozen != null) {
            return new StepFailed(m.epoch(), "FREEZE", "processes are stopped that could not be thawed before");
        }
        accepted = null;
        try {
            FreezeRequest request = request(ranks, trees, Duration.ofSeconds(m.deadlineSeconds()),
                    progress(m.epoch(), "SAVE")).withOthers(m.addresses());
            if (m.attached()) {
                request = request.with(FreezeRequest.Open.devicesOf(ranks.stream().map(r -> r.hostPid).collect(Collectors.toSet())));
            }
            if (request.roots().isEmpty()) {
                return new Frozen(m.epoch(), List.of(), 0, TcpSockets.NONE);
            }
            if (prepared == Preparation.NOTHING && descendsFrom(request)) {
                return new StepFailed(m.epoch(), "FREEZE", DESCENDS);
            }
            final Preparation ready = prepared;
            prepared = Preparation.NOTHING;
            frozen = checkpointer.freeze(request, ready);
            return new Frozen(m.epoch(), frozen.trees().stream().map(t -> String.join(", ", t)).toList(),
                    frozen.freezeNanos(), sockets(frozen.connections()));
        } catch (CheckpointException | IOException | RuntimeException e) {
            return failed(m.epoch(), "FREEZE", e);
        }
    }

    private static StepFailed failed(final long epoch, final String step, final Exception e) {
        return new StepFailed(epoch, step, e instanceof RuntimeException ? e.toString() : e.getMessage(),
                e instanceof PassingStateException);
    }

    Message hold(final HoldSockets m) {
        try {
            return new SocketsHeld(m.epoch(), frozen == null ? TcpSockets.NONE : sockets(frozen.holdConnections()));
        } catch (CheckpointException | RuntimeException e) {
            return failed(m.epoch(), "HOLD", e);
        }
    }

    /** In parts, so that none is longer than a frame may be. */
    Message accept(final Accept m) {
        try {
            if (accepted == null) {
                accepted = new ArrayDeque<>(frozen == null ? List.of() : frozen.acceptConnections());
            }
            final List<UnacceptedSocket> part = new ArrayList<>();
            for (long bytes = 0; !accepted.isEmpty() && bytes < ACCEPTED_BYTES; bytes += part.getLast().data().length) {
                final UnacceptedEnd end = accepted.remove();
                final TcpConnection c = end.connection();
                part.add(new UnacceptedSocket(c.localAddress(), c.localPort(), c.remoteAddress(), c.remotePort(), end.sequence(),
                        end.data()));
            }
            return new Accepted(m.epoch(), part, !accepted.isEmpty());
        } catch (CheckpointException | RuntimeException e) {
            return failed(m.epoch(), "ACCEPT", e);
        }
    }

    void makeAgain(final MakeAgain m) {
        if (frozen != null) {
            frozen.makeAgain(m.sockets().stream().map(s -> new UnacceptedEnd(new TcpConnection(s.local(), s.localPort(), s.remote(),
                    s.remotePort()), s.sequence() < 0 ? null : s.sequence(), s.data())).toList());
        }
    }

    static TcpSockets sockets(final TcpEnds ends) {
        return new TcpSockets(sockets(ends.leaving()), sockets(ends.foreign()), sockets(ends.waiting()));
    }

    private static List<TcpSocket> sockets(final List<TcpEnd> ends) {
        return ends.stream().map(end -> new TcpSocket(end.holder(), end.connection().localAddress(), end.connection().localPort(),
                end.connection().remoteAddress(), end.connection().remotePort(), end.state())).toList();
    }

    /** The processes of ranks and launches on this host. */
    static FreezeRequest request(final List<LocalRank> ranks, final List<Tree> trees, final Duration deadline,
            final Progress progress) throws IOException {
        final List<ProcessRoot> roots = new ArrayList<>();
        final Set<Long> taken = new LinkedHashSet<>();
        final Set<Long> pipes = new LinkedHashSet<>();
        for (final LocalRank rank : ranks) {
            roots.add(new ProcessRoot(rank.rootName(), rank.hostPid));
            taken.add(rank.hostPid);
            pipes.add(rank.verdictPipe.inode());
        }
        for (final Tree tree : trees) {
            if (taken.add(tree.hostPid())) {
                roots.add(new ProcessRoot(treeName(tree), tree.hostPid()));
            }
        }
        return FreezeRequest.of(roots, pipes, deadline, progress);
    }

    /** Whether this process is one of those, which nobody could thaw then. */
    static boolean descendsFrom(final FreezeRequest request) {
        return ProcFs.descendants(request.roots().stream().map(ProcessRoot::hostPid).toList())
                .contains(ProcessHandle.current().pid());
    }

    private Progress progress(final long epoch, final String step) {
        return new Progress(done -> coordinator.accept(new StepProgress(epoch, step, done)));
    }

    private static String treeName(final Tree tree) {
        return "program " + tree.hostPid() + " (" + tree.argv().getFirst() + ")";
    }

    /** That of this host in a checkpoint's; made when it is not there yet. */
    private Path folder(final Path checkpoint) throws IOException {
        final Path folder = checkpoint.resolve("host-" + options.host() + "-" + ProcessHandle.current().pid());
        if (!Files.isDirectory(folder)) {
            Files.createDirectory(folder, PrivateFiles.FOLDER);
        }
        return folder;
    }

    private static ImagePlan plan(final Plan plan, final List<LocalRank> ranks) {
        final Map<Long, WriteCount> counts = new LinkedHashMap<>();
        ranks.stream().filter(rank -> rank.writes != null).forEach(rank -> counts.put(rank.hostPid, rank.writes));
        return new ImagePlan(plan.name(), plan.base(), plan.fullEvery(), counts);
    }

    /** Copies what can be copied while the processes run. */
    Message preCopy(final PreCopy m, final List<LocalRank> ranks, final List<Tree> trees) {
        final Path checkpoint = Path.of(m.folder());
        final HostLevels.Place place = levels.place(m.plan(), checkpoint);
        try {
            final FreezeRequest request = request(ranks, trees, Duration.ofSeconds(m.deadlineSeconds()),
                    progress(m.epoch(), "PRE_COPY"));
            final boolean nothing = request.roots().isEmpty() || !Files.isDirectory(checkpoint); // SAVE says what is wrong with it
            return new PreCopied(m.epoch(), nothing ? 0
                    : checkpointer.preCopy(request, folder(place.checkpoint()), plan(m.plan(), ranks)));
        } catch (PassingStateException | RuntimeException e) {
            return failed(m.epoch(), "PRE_COPY", e);
        } catch (CheckpointException | IOException e) {
            return new StepFailed(m.epoch(), "PRE_COPY", e.getMessage(), levels.fails(place, m.plan(), String.valueOf(e.getMessage())));
        }
    }

    Message save(final Save m, final List<LocalRank> ranks, final List<Tree> trees) {
        written = null;
        if (frozen == null) {
            return new Saved(m.epoch(), 0);
        }
        final Path checkpoint = Path.of(m.folder());
        if (!Files.isDirectory(checkpoint)) {
            return new StepFailed(m.epoch(), "SAVE", "this host does not see " + checkpoint + ", which the coordinator"
                    + " has made: the checkpoint directory must be on a file system that all hosts share");
        }
        final HostLevels.Place place = levels.place(m.plan(), checkpoint);
        try {
            final Path folder = folder(place.checkpoint());
            final String directory = folder.getFileName().toString();
            final WrittenImages images = frozen.write(folder, plan(m.plan(), ranks));
            final List<Manifest.RankPart> rankParts = new ArrayList<>();
            final Map<Long, String> names = new LinkedHashMap<>();
            for (final LocalRank r : ranks) {
                names.put(r.hostPid, r.rootName());
                rankParts.add(new Manifest.RankPart(r.number, r.uid, r.pid, r.rootName(), r.program, r.treeRootPid,
                        r.verdictPipe.inode()));
            }
            final List<Manifest.TreePart> treeParts = new ArrayList<>();
            for (final Tree t : trees) {
                treeParts.add(new Manifest.TreePart(t.hostPid(), names.getOrDefault(t.hostPid(), treeName(t)),
                        t.argv(), t.cwd(), ProcFs.environment(t.hostPid(), AgentPlace.SOCKET), origin(t)));
            }
            final List<Manifest.Origin> origins = origins(treeParts);
            written = new Written(m.epoch(), images, sealed -> new Manifest.HostPart(options.host(), directory, rankParts,
                    treeParts, sealed, origins), place, m.plan());
            return new Saved(m.epoch(), images.bytes(), place.note());
        } catch (PassingStateException | RuntimeException e) {
            return failed(m.epoch(), "SAVE", e);
        } catch (CheckpointException | IOException e) {
            return new StepFailed(m.epoch(), "SAVE", e.getMessage(), levels.fails(place, m.plan(), String.valueOf(e.getMessage())));
        }
    }

    /** Makes safe what was written, while the processes run on or wait for their end. */
    Message seal(final Seal m) {
        final Written images = written;
        written = null;
        if (images == null || images.epoch() != m.epoch()) {
            return new Sealed(m.epoch(), 0, "");
        }
        try {
            final HostImages sealed = images.images().seal(Compression.of(m.compression()), progress(m.epoch(), "SEAL"));
            return new Sealed(m.epoch(), sealed.bytes(), ManifestFile.toJson(images.part().apply(sealed)), images.place().root());
        } catch (CheckpointException | IOException e) {
            levels.fails(images.place(), images.plan(), String.valueOf(e.getMessage()));
            return new StepFailed(m.epoch(), "SEAL", e.getMessage());
        } catch (RuntimeException e) {
            return new StepFailed(m.epoch(), "SEAL", e.toString());
        }
    }

    /** One that was launched before this host said so has not moved since. */
    private String origin(final Tree tree) {
        final String said = ProcFs.environment(tree.hostPid(), AgentPlace.ORIGIN);
        return said == null ? options.host() : said;
    }

    private List<Manifest.Origin> origins(final List<Manifest.TreePart> trees) {
        final List<Manifest.Origin> origins = new ArrayList<>(moved);
        final Set<String> known = moved.stream().map(Manifest.Origin::name).collect(Collectors.toSet());
        trees.stream().map(Manifest.TreePart::origin).filter(known::add).forEach(name -> origins.add(new Manifest.Origin(name,
                HostAddress.ofThisHost().stream().map(a -> new Manifest.OriginAddress(a.device(), a.address(), a.address())).toList(),
                List.of())));
        return origins;
    }

    Message thaw(final Thaw m) {
        unprepare();
        try {
            if (frozen != null) {
                if (m.kill()) {
                    frozen.kill();
                }
                frozen.thaw();
                thawed = frozen;
                frozen = null;
            }
            return new Thawed(m.epoch());
        } catch (CheckpointException e) {
            return new StepFailed(m.epoch(), "THAW", e.getMessage());
        } catch (RuntimeException e) {
            return new StepFailed(m.epoch(), "THAW", e.toString());
        }
    }

    /** After a THAW: what needs no answer. */
    void putBack() {
        try {
            if (thawed != null) {
                thawed.close();
            }
        } catch (CheckpointException | RuntimeException e) {
            new EventLog(options.runDirectory().resolve("agent.log")).add(e.getMessage());
        }
        thawed = null;
    }

    private void unprepare() {
        prepared.close();
        prepared = Preparation.NOTHING;
    }

    /**
     * Thaws what is frozen, whatever the checkpoint has come to. Tries more than once: there may be no THAW to come, when the agent
     * ends or its coordinator is gone.
     */
    void letGo() {
        unprepare();
        for (int tries = 1; frozen != null; tries++) {
            try {
                frozen.close();
                frozen = null;
            } catch (CheckpointException | RuntimeException e) {
                new EventLog(options.runDirectory().resolve("agent.log")).add("processes could not be thawed: " + e.getMessage());
                if (tries == MOST_THAWS) {
                    return; // a THAW that comes tries again
                }
                LockSupport.parkNanos(THAW_PAUSE_NANOS);
            }
        }
    }

    /**
     * Ends what is frozen, which has not run since then, and forgets where programs have moved. Returns what went wrong, or an empty text.
     */
    String kill() {
        moved = List.of();
        written = null;
        unprepare();
        try {
            if (frozen != null) {
                frozen.kill();
                frozen.close();
                frozen = null;
            }
            return "";
        } catch (CheckpointException | RuntimeException e) {
            return String.valueOf(e.getMessage());
        }
    }

    /** How long the images have been read and verified of what is restored, or was last. */
    long readNanos() {
        return restoring.readNanos();
    }

    /** This process's own descriptors, for those of a restart's job. */
    static RestoreStreams ownStreams() {
        final Path own = Path.of("/proc", Long.toString(ProcessHandle.current().pid()), "fd");
        return RestoreStreams.of(own.resolve("0"), own.resolve("1"), own.resolve("2"));
    }

    /**
     * Restores what comes back on this host.
     *
     * @param folder the checkpoint's
     * @param deadline how long nothing may be read
     * @param relocation of the whole job
     * @param streams where what the processes write goes
     * @param gate that no process passes before those of all hosts are there; null: they need not wait
     */
    RestoredJob restore(final Path folder, final Manifest manifest, final List<LocalRank> ranks, final Duration deadline,
            final Relocation relocation, final RestoreStreams streams, final HostGate gate) throws CheckpointException {
        restoring = progress(manifest.epoch(), "THAW");
        moved = relocation.originsOn(options.host());
        final Map<String, LocalRank> byUid = new LinkedHashMap<>();
        ranks.forEach(r -> byUid.put(r.uid, r));
        final RestoredJob job = new RestoredJob();
        final List<Manifest.HostPart> parts = new ArrayList<>();
        final List<RestoreRequest> requests = new ArrayList<>();
        try {
            for (final Manifest.HostPart part : manifest.hosts()) {
                final Map<Long, Path> pipes = new LinkedHashMap<>();
                for (final Manifest.RankPart r : part.ranks()) {
                    pipes.put(r.verdictInode(), byUid.get(r.uid()).verdictPipe.path());
                }
                final Resolution.Found found = levels.find(folder, manifest, part, restoring);
                for (final HostImages images : part.images().together()) {
                    parts.add(part);
                    requests.add(new RestoreRequest(found.directory(), images, folder.getFileName().toString(), pipes, streams,
                            deadline, restoring, relocation.moves(part), ownMemory(manifest, part, images), gate, found.verified()));
                }
            }
            restore(parts, requests, gate, job);
            return job;
        } catch (CheckpointException | RuntimeException e) {
            job.close();
            throw e;
        }
    }

    /** How many restores there are, each of what has to be restored together. */
    static int restores(final Manifest manifest) {
        return manifest.hosts().stream().mapToInt(part -> part.images().together().size()).sum();
    }

    /** Only what comes back alone, on its own host, finds the files of that host's /dev/shm that it knows. */
    private boolean ownMemory(final Manifest manifest, final Manifest.HostPart part, final HostImages images) {
        return restores(manifest) > 1 || !part.host().equals(options.host())
                || images.trees().stream().anyMatch(tree -> tree.memory() != 0);
    }

    /** Parts that wait for each other are restored at the same time. */
    private void restore(final List<Manifest.HostPart> parts, final List<RestoreRequest> requests, final HostGate gate,
            final RestoredJob job) throws CheckpointException {
        final List<CompletableFuture<RestoredTrees>> restores = new ArrayList<>();
        for (final RestoreRequest request : requests) {
            final CompletableFuture<RestoredTrees> restored = new CompletableFuture<>();
            restores.add(restored);
            final Runnable restore = () -> {
                try {
                    restored.complete(checkpointer.restore(request));
                } catch (CheckpointException | RuntimeException e) {
                    restored.completeExceptionally(e);
                    if (gate != null) {
                        gate.fail("what ran on host " + request.images().host() + " could not be restored: " + e.getMessage());
                    }
                }
            };
            if (gate == null) {
                restore.run();
                if (restored.isCompletedExceptionally()) {
                    break;
                }
            } else {
                Thread.ofPlatform().name("restore").daemon().start(restore);
            }
        }
        CheckpointException failure = null;
        for (int i = 0; i < restores.size(); i++) {
            try {
                job.add(parts.get(i), restores.get(i).join());
            } catch (CompletionException e) {
                failure = failure != null ? failure : e.getCause() instanceof CheckpointException c ? c
                        : new CheckpointException(e.getCause().toString(), e.getCause());
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    /**
     * Sends the signal to all processes below the roots; who is still there later is killed.
     *
     * @return whether all have ended that were there
     */
    boolean terminate(final int signal, final Collection<Long> roots, final EventLog log) {
        try {
            final Set<Long> all = ProcFs.descendants(roots);
            log.add("signal " + signal + " to " + all.size() + " processes");
            final List<ProcessWatch> watches = new ArrayList<>();
            for (final long pid : all) {
                watches.add(ProcessWatch.start(pid, () -> { }));
                Libc.kill(pid, signal);
            }
            final long end = System.nanoTime() + Duration.ofSeconds(TERM_SECONDS).toNanos();
            boolean gone = true;
            for (final ProcessWatch watch : watches) {
                gone &= watch.awaitEnd(Math.max(0, (end - System.nanoTime()) / 1_000_000));
            }
            if (!gone && signal != SIGKILL) {
                for (final long pid : ProcFs.descendants(roots)) {
                    Libc.kill(pid, SIGKILL);
                }
            }
            return gone;
        } catch (IOException e) {
            log.add("not all processes could be ended: " + e.getMessage());
            return false;
        }
    }
}
