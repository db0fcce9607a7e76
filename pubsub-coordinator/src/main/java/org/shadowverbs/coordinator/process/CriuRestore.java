// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.images.Cores;

/**
 * One CRIU for each tree, all at the same time in the same namespace.
 *
 * <p>A TCP connection would be reset if one end spoke before the other is there. So, where trees have such between them, every
 * CRIU stops when all its processes and sockets exist and none of them has run, and goes on when all have come so far, on all
 * hosts ({@link RestoreGate}). What sockets send while CRIU makes them cannot harm them: until then they take in no answer
 * (native/restore-init/tcp-quiet.h).
 */
final class CriuRestore {
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final Duration LOOK = Duration.ofMillis(100);
    /** So long a process that was killed may take to end. */
    private static final Duration ENDING = Duration.ofSeconds(5);
    private static final long ENDING_POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final Duration MKFIFO_TIMEOUT = Duration.ofSeconds(10);
    /** So small a part of what is needed is to be left. */
    private static final int SPARE = 20;
    private static final String GO = "go";
    private static final String ARRIVED = "arrived";
    /** What the script has said. */
    private static final String SAID = "said";
    private static final String RELEASE = "shadowverbs-tcp-release";

    private final Path criu;
    private final RestoreInit init;
    private final RestoreRequest request;
    private final Map<String, Integer> descriptors;
    /** Of trees, by their numbers: connections that are to ask whether the other end is alive. */
    private final Map<Integer, List<TcpConnection>> asking = new HashMap<>();
    private final Supplier<Stall> stalls;
    private final List<TreeImage> trees;
    /** What CRIU writes goes here: the images stay as they were saved. */
    private Path work;

    CriuRestore(
            final Path criu,
            final RestoreInit init,
            final RestoreRequest request,
            final Map<String, Integer> descriptors,
            final Supplier<Stall> stalls) {
        this.criu = criu;
        this.init = init;
        this.request = request;
        this.descriptors = descriptors;
        this.stalls = stalls;
        trees = request.images().trees();
    }

    /** Returns the nanoseconds that each tree took. */
    List<Long> run() throws IOException, CheckpointException, InterruptedException {
        freePorts();
        work = Files.createTempDirectory(roomToUnpack(), "shadowverbs-restore-");
        Exception failure = null;
        try {
            return runAll();
        } catch (final IOException | CheckpointException | InterruptedException | RuntimeException e) {
            failure = e;
            init.close(); // those that are not done yet would go on writing there
            throw e;
        } finally {
            clear(failure);
        }
    }

    /** @param failure why the restart fails, which is to be said; null: it does not */
    private void clear(final Exception failure) throws IOException {
        try (Stream<Path> files = Files.walk(work)) {
            for (final Path file : files.sorted((a, b) -> b.compareTo(a)).toList()) {
                Files.delete(file);
            }
        } catch (final IOException | UncheckedIOException e) {
            if (failure == null) {
                throw e;
            }
            failure.addSuppressed(e);
        }
    }

    /** Until no port is in the way: a process that was killed on this host may take a while to end, and has its sockets until then. */
    private void freePorts() throws IOException, CheckpointException {
        final long deadline = System.nanoTime() + ENDING.toNanos();
        for (;;) {
            final TcpSockets here = TcpSockets.of(ProcessHandle.current().pid());
            final List<Finding> taken = new ArrayList<>();
            for (final TreeImage tree : trees) {
                final Set<TcpConnection> wanted = new HashSet<>();
                tree.connections().forEach(saved -> wanted.add(moves(tree).of(saved)));
                dropOrphans(tree, wanted, here);
                addTaken(tree, wanted, here, taken);
            }
            if (taken.isEmpty()) {
                return;
            }
            if (System.nanoTime() - deadline > 0) {
                throw new CheckpointException(taken);
            }
            LockSupport.parkNanos(ENDING_POLL_NANOS);
        }
    }

    /**
     * The connections of processes that have ended hold their ports for a minute: also those that were over, and, for longer, those to
     * a host that is lost, which never acknowledges their end.
     */
    private void dropOrphans(final TreeImage tree, final Set<TcpConnection> wanted, final TcpSockets here)
            throws IOException, CheckpointException {
        final Set<Integer> ports = new HashSet<>();
        final Set<String> peers = new HashSet<>();
        tree.connections().forEach(saved -> peers.add(saved.remoteAddress()));
        wanted.forEach(connection -> ports.add(connection.localPort()));
        tree.listeners().forEach(saved -> ports.add(moves(tree).of(saved).port()));
        for (final TcpSockets.Socket socket : here.unheld().values()) {
            final TcpConnection connection = socket.connection();
            final boolean inTheWay = wanted.contains(connection)
                    || ports.contains(connection.localPort()) && (socket.over()
                            || !socket.notAccepted() && peers.contains(connection.remoteAddress()));
            final int error = inTheWay ? SockDiag.dropOrphan(connection) : 0;
            if (error != 0) {
                throw new CheckpointException(
                        tree.name() + ": " + connection + " cannot be freed: errno " + error);
            }
        }
    }

    private void addTaken(final TreeImage tree, final Set<TcpConnection> wanted, final TcpSockets here, final List<Finding> taken) {
        here.held().stream().map(TcpSockets.Socket::connection).filter(wanted::contains).findFirst()
                .ifPresent(connection -> taken.add(new Finding(tree.name(),
                        "had " + connection + ", which another program of this host has now",
                        "end that program, or restart on another host")));
        for (final TcpListener saved : new LinkedHashSet<>(tree.listeners())) {
            final TcpListener listener = moves(tree).of(saved);
            here.held().stream().filter(TcpSockets.Socket::listening).map(TcpSockets.Socket::listener)
                    .filter(listener::collidesWith).findFirst().ifPresent(other -> taken.add(new Finding(tree.name(),
                            "listened at port " + listener.port() + ", where another program of this host listens now",
                            "end that program, or restart on another host")));
        }
    }

    private SocketMoves moves(final TreeImage tree) {
        return request.moves().getOrDefault(tree.name(), SocketMoves.NONE);
    }

    /** A folder with space for what is compressed: that of temporary files, else the one of the checkpoints. */
    private Path roomToUnpack() throws IOException, CheckpointException {
        long needed = 0;
        for (final TreeImage tree : trees) {
            needed += PlainImages.packedBytes(request.imageDirectory(), tree);
        }
        final List<String> free = new ArrayList<>();
        for (final Path folder : List.of(Path.of(System.getProperty("java.io.tmpdir")),
                request.imageDirectory().toAbsolutePath().getParent().getParent())) {
            final long usable = Files.getFileStore(folder).getUsableSpace();
            if (needed == 0 || Files.isWritable(folder) && usable > needed + needed / SPARE) {
                return folder;
            }
            free.add((usable >> 20) + " MiB free in " + folder);
        }
        throw new CheckpointException("no space to decompress the images: " + (needed >> 20) + " MiB needed, "
                + String.join(", ", free));
    }

    private List<Long> runAll() throws IOException, CheckpointException, InterruptedException {
        final List<CompletableFuture<Integer>> running = new ArrayList<>();
        final List<CompletableFuture<Long>> nanos = new ArrayList<>();
        final long start = System.nanoTime();
        final List<List<String>> commands = new ArrayList<>();
        for (int i = 0; i < trees.size(); i++) {
            Files.createDirectory(work(i));
            commands.add(command(i));
        }
        final Clocks now = Clocks.now();
        if (request.gate() != null) {
            CriuCommand.run(List.of("mkfifo", work.resolve(GO).toString()), MKFIFO_TIMEOUT);
        }
        // Open for writing before the first one reads; closing it is the sign to go on, as this process's death is.
        try (RandomAccessFile go = request.gate() == null ? null : new RandomAccessFile(work.resolve(GO).toFile(), "rw")) {
            for (int i = 0; i < trees.size(); i++) {
                final Clocks then = trees.get(i).clocks();
                final CompletableFuture<Integer> ran = init.run(then == null ? null : then.minus(now), commands.get(i));
                running.add(ran);
                nanos.add(ran.thenApply(status -> System.nanoTime() - start));
            }
            if (go != null) {
                awaitArrival(running, stalls.get());
                awaitOthers(running);
            }
        }
        final Stall stall = stalls.get();
        for (int i = 0; i < trees.size(); i++) {
            final int status = RestoreInit.get(running.get(i), stall, trees.get(i).name() + ": CRIU");
            if (status != 0) {
                throw new CheckpointException(trees.get(i).name() + ": CRIU could not restore it (status " + status
                        + "): " + CriuCommand.reason(work(i).resolve(CriuCommand.LOG), "") + saidByScript(i));
            }
        }
        return nanos.stream().map(CompletableFuture::join).toList();
    }

    /** CRIU knows only that its script has failed. */
    private String saidByScript(final int tree) throws IOException {
        final Path said = work(tree).resolve(SAID);
        final String text = Files.exists(said) ? String.join("; ", Files.readAllLines(said)) : "";
        return text.isEmpty() ? "" : "; " + text;
    }

    /** Waits until all have come as far as they may alone, or one has failed. */
    private void awaitArrival(final List<CompletableFuture<Integer>> running, final Stall stall) throws CheckpointException {
        for (int i = 0; i < trees.size(); i++) {
            while (!Files.exists(work(i).resolve(ARRIVED))) {
                if (running.stream().anyMatch(CompletableFuture::isDone)) {
                    return;
                }
                if (stall.passed()) {
                    throw new CheckpointException(trees.get(i).name() + ": not restored, and nothing has been read for "
                            + stall.deadline());
                }
                LockSupport.parkNanos(POLL_NANOS);
            }
        }
    }

    /** Waits for the trees of others; also one that fails here is no reason to wait any more. */
    private void awaitOthers(final List<CompletableFuture<Integer>> running) throws CheckpointException, InterruptedException {
        if (running.stream().anyMatch(CompletableFuture::isDone)) {
            return; // One has failed, and what it has said is to be read.
        }
        request.gate().arrived();
        while (!request.gate().await(LOOK) && running.stream().noneMatch(CompletableFuture::isDone)) {
            continue; // The gate has a deadline of its own.
        }
    }

    /** What CRIU runs at its stages; it waits before the first process runs, and then the tree's sockets take in what comes. */
    private Path script(final int tree) throws IOException, CheckpointException {
        final Path release = CriuCommand.findHelper(RELEASE);
        if (release == null) {
            throw new CheckpointException(RELEASE + " is not there: build the project again");
        }
        final StringBuilder lines = new StringBuilder("#!/bin/sh\n[ \"$CRTOOLS_SCRIPT_ACTION\" = post-restore ] || exit 0\n");
        if (request.gate() != null) {
            lines.append("exec 3<'").append(work.resolve(GO)).append("'; : >'").append(work(tree).resolve(ARRIVED))
                    .append("'; cat <&3\n");
        }
        lines.append("exec 2>'").append(work(tree).resolve(SAID)).append("' '").append(release).append("' \"$CRTOOLS_INIT_PID\"");
        lines.append(" '").append(afterwards(tree)).append('\'');
        lines.append('\n');
        final Path script = work(tree).resolve("script");
        Files.writeString(script, lines);
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwx------"));
        return script;
    }

    /**
     * Writes which connections are to be made again that no program had accepted, and which are to ask whether the other end is alive:
     * tcp-release.c.
     */
    private Path afterwards(final int number) throws IOException {
        final TreeImage tree = trees.get(number);
        final StringBuilder lines = new StringBuilder();
        asking.getOrDefault(number, List.of()).forEach(now -> lines.append("alive ").append(ends(now)).append('\n'));
        for (final UnacceptedConnection saved : tree.unaccepted()) {
            final TcpConnection now = moves(tree).of(saved.connection());
            lines.append(saved.closed() ? "closed " : "again ").append(ends(now)).append(' ')
                    .append(saved.sequence() == null || saved.closed() ? "-" : saved.sequence().toString()).append(' ')
                    .append(saved.data().isEmpty() ? "-"
                            : request.imageDirectory().resolve(tree.directory()).resolve(saved.data()).toAbsolutePath())
                    .append('\n');
        }
        return Files.writeString(work(number).resolve("afterwards"), lines);
    }

    private static String ends(final TcpConnection connection) {
        return connection.localAddress() + " " + connection.localPort() + " " + connection.remoteAddress() + " "
                + connection.remotePort();
    }

    private Path work(final int tree) {
        return work.resolve(Integer.toString(tree));
    }

    /** The images, with other files where they are compressed, and where sockets are to be elsewhere or were held when saved. */
    private Path images(final int number) throws IOException, InterruptedException {
        final TreeImage tree = trees.get(number);
        final Path saved = request.imageDirectory().resolve(tree.directory()).toAbsolutePath();
        final boolean moved = tree.established() || !tree.listeners().isEmpty() || !moves(tree).equals(SocketMoves.NONE);
        if (!moved && tree.layers().isEmpty() && PlainImages.packedBytes(request.imageDirectory(), tree) == 0) {
            return saved;
        }
        final Path folder;
        try (Cores cores = new Cores()) {
            folder = PlainImages.make(request.imageDirectory(), tree, work(number),
                    moved ? Set.of(SocketImages.FILES) : Set.of(), cores, request.progress());
        }
        if (moved) {
            asking.put(number, SocketImages.move(saved, moves(tree), Set.copyOf(tree.alive()), folder.resolve(SocketImages.FILES)));
        }
        return folder;
    }

    private List<String> command(final int number) throws IOException, CheckpointException, InterruptedException {
        final TreeImage tree = trees.get(number);
        final Path folder = images(number);
        final List<String> command = new ArrayList<>();
        if (Rights.ordinary()) {
            command.addAll(List.of("/usr/bin/env", "XDG_RUNTIME_DIR=" + work(number)));
        }
        command.addAll(tree.established() ? CriuCommand.restoreConnected(criu) : List.of(criu.toString(), "restore"));
        command.addAll(List.of("--images-dir", folder.toString(), "--work-dir", work(number).toString(),
                "--log-file", CriuCommand.LOG, "-v2", "--restore-detached", "--restore-sibling",
                "--file-locks", "--manage-cgroups=ignore", "--network-lock", "skip"));
        command.addAll(CriuCommand.plugins());
        if (Rights.ordinary()) {
            command.add("--unprivileged");
        }
        if (tree.shellJob()) {
            command.add("--shell-job");
        }
        if (tree.established()) {
            command.add("--tcp-established");
        }
        if (request.gate() != null || tree.established() || !tree.unaccepted().isEmpty()) {
            command.addAll(List.of("--action-script", script(number).toString()));
        }
        for (final Map.Entry<String, Integer> entry : descriptors.entrySet()) {
            command.addAll(List.of("--inherit-fd", "fd[" + entry.getValue() + "]:" + entry.getKey()));
        }
        return command;
    }
}
