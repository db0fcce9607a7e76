// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.images.Cores;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.system.Libc;
import org.shadowverbs.coordinator.system.Processes;

/**
 * Trees that were stopped by SIGSTOP, and are saved by a command. A control group's freezer would hold them as well, but also keep
 * most that could save them (ptrace(2), for one) from looking at them.
 */
final class CommandFrozenTrees implements FrozenTrees {
    /** What the commands find in their environment. */
    static final String PID = "SHADOWVERBS_PID";
    static final String FOLDER = "SHADOWVERBS_FOLDER";

    private static final Duration KILL_TIMEOUT = Duration.ofSeconds(20);
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final int SIGKILL = 9;
    private static final int SIGCONT = 18;
    private static final int SIGSTOP = 19;

    private final UserCommands commands;
    private final FreezeRequest request;
    /** Those that run on when this is closed: not those that somebody else had stopped. */
    private final Set<Long> stopped = new LinkedHashSet<>();
    private List<ProcessTree> trees = List.of();
    private Process guard;
    private long freezeNanos;
    private boolean closed;

    private CommandFrozenTrees(final UserCommands commands, final FreezeRequest request) {
        this.commands = commands;
        this.request = request;
    }

    static CommandFrozenTrees freeze(final UserCommands commands, final FreezeRequest request) throws CheckpointException {
        CommandFrozenTrees frozen = new CommandFrozenTrees(commands, request);
        try {
            frozen.freeze();
            final CommandFrozenTrees result = frozen;
            frozen = null;
            return result;
        } catch (final IOException e) {
            throw new CheckpointException("stopping processes: " + e.getMessage(), e);
        } finally {
            if (frozen != null) {
                frozen.close();
            }
        }
    }

    private void freeze() throws IOException, CheckpointException {
        final long start = System.nanoTime();
        final long deadline = start + request.freezeDeadline().toNanos();
        // Lets them run on when this process dies; it reads their pids, as they come to be known.
        guard = new ProcessBuilder("sh", "-c", "trap '' HUP INT TERM; all=; while read -r word; do case $word in done) exit;;"
                + " *) all=\"$all $word\";; esac; done; [ -z \"$all\" ] || kill -CONT $all", "shadowverbs-guard")
                .redirectError(ProcessBuilder.Redirect.DISCARD).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        boolean more = true;
        while (more) {
            more = false;
            trees = ProcessTree.outline(request.roots());
            for (final ProcessTree tree : trees) {
                for (final ProcessTree.Member member : tree.members()) {
                    more |= stop(member.ids());
                }
            }
            for (final ProcessTree tree : trees) {
                await(tree, deadline);
            }
        }
        trees = ProcessTree.of(request.roots());
        freezeNanos = System.nanoTime() - start;
    }

    private boolean stop(final Proc.Ids ids) throws IOException {
        if (ids.ended() || ids.state() == 'T' || stopped.contains(ids.pid())) {
            return false;
        }
        tell(Long.toString(ids.pid()));
        stopped.add(ids.pid());
        Libc.signal(ids.pid(), SIGSTOP);
        return true;
    }

    private void await(final ProcessTree tree, final long deadline) throws CheckpointException {
        for (final ProcessTree.Member member : tree.members()) {
            while (!standsStill(member.ids().pid())) {
                if (System.nanoTime() - deadline > 0) {
                    throw new CheckpointException(tree.subject(member) + ": did not stop within "
                            + request.freezeDeadline().toSeconds() + " s after SIGSTOP");
                }
                LockSupport.parkNanos(POLL_NANOS);
            }
        }
    }

    /** All of its threads: each stops by itself. */
    private static boolean standsStill(final long pid) {
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(Proc.path(pid, "task"))) {
            for (final Path thread : threads) {
                if (!"TtZX".contains(Processes.stat(thread.resolve("stat"), Processes.STATE))) {
                    return false;
                }
            }
            return true;
        } catch (final IOException e) {
            return Proc.ended(pid); // Else a thread has ended meanwhile, and the next look tells.
        }
    }

    private void tell(final String word) throws IOException {
        guard.getOutputStream().write((word + "\n").getBytes(StandardCharsets.US_ASCII));
        guard.getOutputStream().flush();
    }

    @Override
    public List<List<String>> trees() {
        return trees.stream().map(ProcessTree::rootNames).toList();
    }

    @Override
    public long freezeNanos() {
        return freezeNanos;
    }

    @Override
    public WrittenImages write(final Path imageDirectory, final ImagePlan plan) throws CheckpointException {
        final long start = System.nanoTime();
        final Path directory = imageDirectory.toAbsolutePath();
        try {
            final List<TreeImage> images = new ArrayList<>();
            for (int i = 0; i < trees.size(); i++) {
                images.add(save(trees.get(i), "tree-" + i, directory));
            }
            final HostImages host = new HostImages("commands", Host.name(), Host.kernel(), Host.cpuModel(), List.of(), List.of(),
                    0, freezeNanos, System.nanoTime() - start, commands);
            return new Written(directory, host, images);
        } catch (final IOException e) {
            throw new CheckpointException("saving to " + directory + ": " + e.getMessage(), e);
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("saving to " + directory + ": interrupted", e);
        }
    }

    private TreeImage save(final ProcessTree tree, final String name, final Path directory)
            throws IOException, InterruptedException, CheckpointException {
        final long start = System.nanoTime();
        final Path folder = Files.createDirectory(directory.resolve(name), PrivateFiles.FOLDER);
        final Stall stall = new Stall(request.saveDeadline(), () -> ImageFiles.bytes(folder), request.progress());
        // By env, which leaves the pid and the streams to the command's shell.
        final CriuCommand.Result result = CriuCommand.run(List.of("/usr/bin/env", "--chdir=" + folder,
                PID + "=" + tree.top().pid(), FOLDER + "=" + folder,
                CommandCheckpointer.SHELL.toString(), "-c", "umask 077\n" + commands.save()), stall);
        final String subject = tree.name() + " (pid " + tree.top().pid() + "): the save command ";
        if (result.status() < 0) {
            throw new CheckpointException(subject + "has written nothing for " + stall.deadline() + " and was ended");
        }
        if (result.status() != 0) {
            throw new CheckpointException(subject + "has failed (status " + result.status() + "): "
                    + result.output().strip().lines().reduce("it said nothing", (a, b) -> b));
        }
        refuseFolder(subject, folder);
        return new TreeImage(tree.name(), name, processes(tree), List.of(), List.of(), List.of(), List.of(), false, List.of(), List.of(),
                List.of(), List.of(), 0, System.nanoTime() - start, List.of(), null);
    }

    /** What is not a file can't be checked by a checksum, and nothing would be no image. */
    private static void refuseFolder(final String subject, final Path folder) throws IOException, CheckpointException {
        try (Stream<Path> entries = Files.list(folder)) {
            final List<Path> all = entries.toList();
            for (final Path entry : all) {
                if (!Files.isRegularFile(entry, LinkOption.NOFOLLOW_LINKS)) {
                    throw new CheckpointException(subject + "has made " + entry + ", which is not a regular file");
                }
            }
            if (all.isEmpty()) {
                throw new CheckpointException(subject + "has left no file in " + folder + " ($" + FOLDER + ")");
            }
        }
    }

    private List<ProcessImage> processes(final ProcessTree tree) throws IOException {
        final Map<Long, Long> ownPids = new LinkedHashMap<>();
        tree.members().forEach(member -> ownPids.put(member.ids().pid(), member.ids().ownPid()));
        final List<ProcessImage> processes = new ArrayList<>();
        for (final ProcessTree.Member member : tree.members()) {
            processes.add(new ProcessImage(tree.rootName(member.ids().pid()), member.ids().ownPid(),
                    ownPids.getOrDefault(member.ids().parent(), 0L), member.ids().command(), member.ids().threads(),
                    verdictPipes(member)));
        }
        return processes;
    }

    /** The FIFOs that a restored rank is to have other ones for. */
    private List<ExternalDescriptor> verdictPipes(final ProcessTree.Member member) throws IOException {
        final List<ExternalDescriptor> pipes = new ArrayList<>();
        for (final Proc.Descriptor d : member.descriptors()) {
            final Path file = Proc.path(member.ids().pid(), "fd").resolve(Integer.toString(d.fd()));
            if (d.target().startsWith("/") && Files.exists(file)) {
                final long inode = ((Number) Files.getAttribute(file, "unix:ino")).longValue();
                if (request.replacedPipes().contains(inode) && Files.isSameFile(file, Path.of(d.target()))) {
                    pipes.add(new ExternalDescriptor(d.fd(), ExternalDescriptor.Kind.REPLACED_PIPE, d.target(), d.target(),
                            inode, d.writable()));
                }
            }
        }
        return pipes;
    }

    /** What the commands have left. */
    private record Written(Path directory, HostImages images, List<TreeImage> trees) implements WrittenImages {
        @Override
        public long bytes() {
            return trees.stream().mapToLong(tree -> ImageFiles.bytes(directory.resolve(tree.directory()))).sum();
        }

        /** As they are: only the restore command knows how to read them. */
        @Override
        public HostImages seal(final Compression compression, final Progress progress) throws CheckpointException {
            final long start = System.nanoTime();
            try (Cores cores = new Cores()) {
                final List<TreeImage> sealed = new ArrayList<>();
                for (final TreeImage tree : trees) {
                    sealed.add(tree.with(ImageFiles.seal(directory.resolve(tree.directory()), file -> Compression.NONE, cores,
                            progress), List.of()));
                }
                return images.with(sealed, System.nanoTime() - start);
            } catch (final IOException e) {
                throw new CheckpointException("making the images in " + directory + " safe: " + e.getMessage(), e);
            } catch (final InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new CheckpointException("making the images in " + directory + " safe: interrupted", e);
            }
        }
    }

    @Override
    public void kill() throws CheckpointException {
        final List<Long> pids = trees.stream().flatMap(tree -> tree.hostPids().stream()).toList();
        final long deadline = System.nanoTime() + KILL_TIMEOUT.toNanos();
        // Stopped, they have not ended, so the pids are still theirs.
        pids.forEach(pid -> Libc.signal(pid, SIGKILL));
        stopped.clear();
        close();
        for (final long pid : pids) {
            while (!Proc.ended(pid)) {
                if (System.nanoTime() - deadline > 0) {
                    throw new CheckpointException("pid " + pid + " has not ended after SIGKILL");
                }
                LockSupport.parkNanos(POLL_NANOS);
            }
        }
    }

    @Override
    public void close() throws CheckpointException {
        if (closed) {
            return;
        }
        closed = true;
        stopped.forEach(pid -> Libc.signal(pid, SIGCONT));
        try {
            if (guard != null) {
                tell("done");
                guard.getOutputStream().close();
            }
        } catch (final IOException e) {
            guard.destroyForcibly(); // It is gone: nothing to dismiss.
        }
    }
}
