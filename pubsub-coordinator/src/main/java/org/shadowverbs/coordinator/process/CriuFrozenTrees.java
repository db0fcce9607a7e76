// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Trees that stand still in control groups of ours, and how CRIU dumps them. */
final class CriuFrozenTrees implements FrozenTrees {
    private static final Duration KILL_TIMEOUT = Duration.ofSeconds(20);
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final int SIGKILL = 9;
    /** Longer than any acknowledgement is delayed. */
    private static final long SETTLE_NANOS = TimeUnit.MILLISECONDS.toNanos(500);
    /** What an image needs besides memory: descriptions, page maps, the log. */
    private static final long IMAGE_OVERHEAD = 4L << 20;

    private final Path criu;
    private final String version;
    private final FreezeRequest request;
    private final Freezer freezer;
    private final Map<ProcessTree, Freezer.Group> groups = new LinkedHashMap<>();
    private Sharing sharing;
    private Process guard;
    private long freezeNanos;
    private boolean closed;

    private CriuFrozenTrees(
            final Path criu, final String version, final FreezeRequest request, final Freezer freezer) {
        this.criu = criu;
        this.version = version;
        this.request = request;
        this.freezer = freezer;
    }

    static CriuFrozenTrees freeze(
            final Path criu, final String version, final Freezer freezer, final FreezeRequest request)
            throws CheckpointException, IOException {
        CriuFrozenTrees frozen = new CriuFrozenTrees(criu, version, request, freezer);
        try {
            frozen.freeze();
            final CriuFrozenTrees result = frozen;
            frozen = null;
            return result;
        } finally {
            if (frozen != null) {
                frozen.close();
            }
        }
    }

    private void freeze() throws IOException, CheckpointException {
        final long start = System.nanoTime();
        final long deadline = start + request.freezeDeadline().toNanos();
        List<ProcessTree> trees = ProcessTree.of(request.roots());
        final Map<String, Freezer.Group> byName = new LinkedHashMap<>();
        for (final ProcessTree tree : trees) {
            final Freezer.Group group = freezer.group(tree.top().pid());
            byName.put(tree.name(), group);
            groups.put(tree, group);
        }
        guard = new ProcessBuilder(guardCommand()).redirectError(ProcessBuilder.Redirect.DISCARD)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        for (boolean more = true; more;) {
            if (System.nanoTime() - deadline > 0) {
                throw new CheckpointException(trees.getFirst().name()
                        + ": does not stand still: it makes processes faster than they can be stopped");
            }
            more = false;
            for (final ProcessTree tree : trees) {
                final Freezer.Group group = byName.get(tree.name());
                for (final ProcessTree.Member member : tree.members()) {
                    more |= !member.ids().ended() && group.add(member.ids().pid());
                }
                group.freeze();
                group.await(deadline, tree.name());
            }
            // A child that was born outside the group before its parent was moved is found now.
            trees = ProcessTree.of(request.roots());
        }
        groups.clear();
        trees.forEach(tree -> groups.put(tree, byName.get(tree.name())));
        freezeNanos = System.nanoTime() - start;
        sharing = Sharing.of(trees, request);
        if (!sharing.findings().isEmpty()) {
            throw new CheckpointException(sharing.findings());
        }
        settle(trees);
    }

    /**
     * Waits until no byte is under way between trees: of an end that was saved before they arrived and one that
     * was saved after they were acknowledged, neither would hold them. What is not acknowledged after a while waits for
     * a reader that stands still too, and does not move any more.
     */
    private void settle(final List<ProcessTree> trees) throws IOException {
        if (trees.size() < 2 || trees.stream().allMatch(tree -> sharing.connections(tree).isEmpty())) {
            return;
        }
        final long deadline = System.nanoTime() + SETTLE_NANOS;
        while (System.nanoTime() - deadline < 0 && trees.stream().anyMatch(this::underWay)) {
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    private boolean underWay(final ProcessTree tree) {
        try {
            return TcpSockets.of(tree.top().pid()).unacknowledged(sharing.connections(tree));
        } catch (final IOException e) {
            return false; // It has ended, which the dump will say.
        }
    }

    /** Thaws when this process dies; for a while, as a CRIU that is still at work freezes again when it ends. */
    private List<String> guardCommand() {
        final List<String> command = new ArrayList<>(List.of(
                "sh", "-c",
                "read -r done || { trap '' HUP INT TERM; i=0; while [ $i -lt 100 ]; do " + freezer.thawCommand()
                        + "; sleep 0.2; i=$((i + 1)); done; }",
                "shadowverbs-guard"));
        groups.values().forEach(group -> command.add(group.folder().toString()));
        return command;
    }

    @Override
    public List<List<String>> trees() {
        return groups.keySet().stream().map(ProcessTree::rootNames).toList();
    }

    @Override
    public long freezeNanos() {
        return freezeNanos;
    }

    @Override
    public HostImages save(final Path imageDirectory) throws CheckpointException {
        final long start = System.nanoTime();
        final long deadline = start + request.saveDeadline().toNanos();
        final Path directory = imageDirectory.toAbsolutePath();
        try {
            checkSpace(directory);
            final List<TreeImage> trees = new ArrayList<>();
            for (final ProcessTree tree : groups.keySet()) {
                trees.add(dump(tree, "tree-" + trees.size(), directory, deadline));
            }
            final long bytes = trees.stream()
                    .flatMap(tree -> tree.files().stream()).mapToLong(ImageFile::bytes).sum();
            return new HostImages(version, Host.name(), Host.kernel(), Host.cpuModel(), Host.cpuFlags(), trees, bytes,
                    freezeNanos, System.nanoTime() - start);
        } catch (final IOException e) {
            throw ended(new CheckpointException("saving to " + directory + ": " + e.getMessage(), e));
        } catch (final CheckpointException e) {
            throw ended(e);
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("saving to " + directory + ": interrupted", e);
        }
    }

    /** The failure, or what it came from if a process is gone: somebody killed it in the middle. */
    private CheckpointException ended(final CheckpointException failure) {
        for (final ProcessTree tree : groups.keySet()) {
            for (final ProcessTree.Member member : tree.members()) {
                if (!member.ids().ended() && Proc.ended(member.ids().pid())) {
                    return new CheckpointException(tree.subject(member) + ": has ended while it was saved", failure);
                }
            }
        }
        return failure;
    }

    private void checkSpace(final Path directory) throws IOException, CheckpointException {
        long needed = 0;
        for (final ProcessTree tree : groups.keySet()) {
            needed += IMAGE_OVERHEAD;
            for (final long pid : tree.hostPids()) {
                needed += Proc.memory(pid);
            }
        }
        final long usable = Files.getFileStore(directory).getUsableSpace();
        if (needed > usable) {
            throw new CheckpointException("no space for the images in " + directory + ": about " + (needed >> 20)
                    + " MiB needed, " + (usable >> 20) + " MiB free");
        }
    }

    private TreeImage dump(final ProcessTree tree, final String name, final Path directory, final long deadline)
            throws IOException, InterruptedException, CheckpointException {
        final long start = System.nanoTime();
        final Path folder = Files.createDirectory(directory.resolve(name));
        final CriuCommand.Result result =
                CriuCommand.run(command(tree, folder), Duration.ofNanos(Math.max(1, deadline - System.nanoTime())));
        final Path log = folder.resolve(CriuCommand.LOG);
        if (result.status() != 0) {
            throw new CheckpointException(tree.name() + " (pid " + tree.top().pid() + "): "
                    + (result.status() < 0
                            ? "CRIU was not done with the image when the deadline passed"
                            : "CRIU could not save it (status " + result.status() + "): "
                                    + CriuCommand.reason(log, result.output())));
        }
        final long dumpNanos = System.nanoTime() - start;
        final List<OutputFile> outputs = UserFiles.outputs(tree, folder);
        return new TreeImage(
                tree.name(), name, processes(tree), ImageFiles.seal(folder), outputs, UserFiles.mapped(tree),
                tree.sessionLedFromOutside(), sharing.connections(tree), dumpNanos);
    }

    private List<String> command(final ProcessTree tree, final Path folder) throws IOException {
        final Proc.Ids top = tree.top();
        final List<String> command = new ArrayList<>();
        // CRIU sees a tree as from inside its pid namespace, with the /proc that belongs to it.
        if (!Proc.namespace(top.pid(), "pid").equals(Proc.namespace(ProcessHandle.current().pid(), "pid"))) {
            command.addAll(List.of("nsenter", "--target", Long.toString(top.pid()), "--pid", "--mount", "--"));
        }
        command.addAll(CriuCommand.dump(criu));
        command.addAll(List.of(
                "--tree", Long.toString(top.ownPid()), "--images-dir", folder.toString(),
                "--log-file", CriuCommand.LOG, "-v2", "--leave-running",
                "--freeze-cgroup", groups.get(tree).folder().toString(),
                "--ghost-limit", Long.toString(Sharing.GHOST_LIMIT), "--file-locks", "--manage-cgroups=ignore",
                "--network-lock", "skip"));
        if (tree.sessionLedFromOutside()) {
            command.add("--shell-job");
        }
        if (!sharing.connections(tree).isEmpty()) {
            command.add("--tcp-established");
        }
        final Set<String> terminals = new HashSet<>();
        for (final long pid : tree.hostPids()) {
            for (final ExternalDescriptor external : sharing.externals(pid)) {
                if (external.kind() == ExternalDescriptor.Kind.TERMINAL && !external.resource().isEmpty()
                        && terminals.add(external.resource())) {
                    command.addAll(List.of("--external", external.resource()));
                }
            }
        }
        return command;
    }

    private List<ProcessImage> processes(final ProcessTree tree) {
        final Map<Long, Long> ownPids = new LinkedHashMap<>();
        tree.members().forEach(member -> ownPids.put(member.ids().pid(), member.ids().ownPid()));
        return tree.members().stream()
                .map(member -> new ProcessImage(
                        tree.rootName(member.ids().pid()),
                        member.ids().ownPid(),
                        ownPids.getOrDefault(member.ids().parent(), 0L),
                        member.ids().command(),
                        member.ids().threads(),
                        List.copyOf(sharing.externals(member.ids().pid()))))
                .toList();
    }

    @Override
    public void kill() throws CheckpointException {
        final long deadline = System.nanoTime() + KILL_TIMEOUT.toNanos();
        final List<Long> pids = groups.keySet().stream().flatMap(tree -> tree.hostPids().stream()).toList();
        for (final long pid : pids) {
            // Frozen, they have not ended, so the pids are still theirs.
            Signals.send(pid, SIGKILL);
        }
        close();
        for (final long pid : pids) {
            while (!Proc.ended(pid)) {
                if (System.nanoTime() - deadline > 0) {
                    throw new CheckpointException("pid " + pid + " has not ended after SIGKILL");
                }
                LockSupport.parkNanos(POLL_NANOS);
            }
        }
        groups.values().forEach(Freezer.Group::remove);
    }

    @Override
    public void close() throws CheckpointException {
        if (closed) {
            return;
        }
        closed = true;
        IOException failure = null;
        for (final Map.Entry<ProcessTree, Freezer.Group> entry : groups.entrySet()) {
            try {
                entry.getValue().release();
            } catch (final IOException e) {
                failure = e;
            }
        }
        if (failure != null) {
            // The guard goes on trying when this process ends.
            throw new CheckpointException("thawing: " + failure.getMessage(), failure);
        }
        dismissGuard();
    }

    private void dismissGuard() {
        if (guard == null) {
            return;
        }
        try (var word = guard.getOutputStream()) {
            word.write('\n');
        } catch (final IOException e) {
            guard.destroy(); // It is gone: nothing to dismiss.
        }
    }
}
