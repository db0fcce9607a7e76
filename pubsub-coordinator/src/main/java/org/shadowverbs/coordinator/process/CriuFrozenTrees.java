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
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.memory.WriteCount;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.system.Libc;

/**
 * Trees that stand still in control groups of ours, and how CRIU dumps them.
 *
 * <p>Without a freezer a tree stands still from when CRIU begins to save it. That is as good: what it does before, while others
 * are saved already, they cannot have seen, and it does nothing after. For that its only ways to other trees must be those that
 * are closed: {@link Sharing} refuses TCP connections.
 */
final class CriuFrozenTrees implements FrozenTrees {
    private static final Duration KILL_TIMEOUT = Duration.ofSeconds(20);
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final int SIGKILL = 9;
    /** How often trees are looked at before what stands in the way is believed. */
    private static final int LOOKS = 10;
    /** How names of images begin, and of folders in which CRIU finds which pages the image of that name need not have. */
    private static final String TREE = "tree-";
    private static final String PARENT_OF = "parent-of-";
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(50);
    /** What an image needs besides memory: descriptions, page maps, the log. */
    private static final long IMAGE_OVERHEAD = 4L << 20;

    private final Path criu;
    private final String version;
    private final FreezeRequest request;
    private final CriuTools tools;
    /** Null: nothing is prepared. */
    private final CriuPreparation prepared;
    /** Null: CRIU holds the trees. */
    private final Freezer freezer;
    /** Groups by tree; all null when CRIU holds the trees. */
    private final Map<ProcessTree, Freezer.Group> groups = new LinkedHashMap<>();
    /** Of trees, by their topmost processes. */
    private final Map<Long, CriuDump> dumps = new ConcurrentHashMap<>();
    private Sharing sharing;
    /** Null: there is no freezer, or nothing was frozen. */
    private FrozenSockets sockets;
    /** Null: there is no freezer, or nothing was frozen. */
    private Guard guard;
    private long freezeNanos;
    private boolean thawed;

    /** Something that is done with connections. */
    private interface SocketStep<T> {
        T with(FrozenSockets sockets) throws IOException, CheckpointException, InterruptedException;
    }

    private CriuFrozenTrees(final Path criu, final String version, final FreezeRequest request, final Freezer freezer,
            final CriuTools tools, final CriuPreparation prepared) {
        this.tools = tools;
        this.prepared = prepared;
        this.criu = criu;
        this.version = version;
        this.request = request;
        this.freezer = freezer;
    }

    static CriuFrozenTrees freeze(final Path criu, final String version, final Freezer freezer, final FreezeRequest request,
            final CriuTools tools, final CriuPreparation prepared) throws CheckpointException, IOException {
        CriuFrozenTrees frozen = new CriuFrozenTrees(criu, version, request, freezer, tools, prepared);
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
        if (prepared != null) {
            dumps.putAll(prepared.takeDumps());
        }
        if (freezer == null) {
            look(deadline);
            freezeNanos = System.nanoTime() - start;
            return;
        }
        final List<ProcessTree> seen = prepared == null ? List.of() : prepared.trees(request.roots());
        List<ProcessTree> trees = seen.isEmpty() ? ProcessTree.outline(request.roots()) : seen;
        final Map<Long, Freezer.Group> byTop = new LinkedHashMap<>();
        for (final ProcessTree tree : trees) {
            final Freezer.Group ready = prepared == null ? null : prepared.take(tree.top().pid());
            final Freezer.Group group = ready != null ? ready : freezer.group(tree.top().pid());
            byTop.put(tree.top().pid(), group);
            groups.put(tree, group);
        }
        guard = prepared == null ? null : prepared.takeGuard(groups.values());
        guard = guard != null ? guard : Guard.of(freezer, groups.values());
        final OutsideWorld outside = prepared == null ? null : prepared.outside();
        trees = seen.isEmpty() ? stop(trees, byTop, deadline) : stopPrepared(trees, byTop, deadline);
        sharing = Sharing.of(trees, request, outside);
        final long patience = start + request.freezeDeadline().toNanos() / 4;
        for (int looks = 1; looks < LOOKS && passes(trees) && System.nanoTime() - patience < 0; looks++) {
            // Nobody has been told yet that they stand still, so what passes by itself may do so now.
            for (final Freezer.Group group : byTop.values()) {
                group.thaw();
            }
            LockSupport.parkNanos(LOOK_NANOS);
            trees = stop(trees, byTop, deadline);
            sharing = Sharing.of(trees, request, outside);
        }
        groups.clear();
        trees.forEach(tree -> groups.put(tree, byTop.get(tree.top().pid())));
        freezeNanos = System.nanoTime() - start;
        refuse(trees);
        sockets = new FrozenSockets(trees, sharing);
        sockets.settle();
    }

    /** Stops processes that are in their groups already. @return the trees with all processes that they have by then */
    private List<ProcessTree> stopPrepared(final List<ProcessTree> seen, final Map<Long, Freezer.Group> byTop, final long deadline)
            throws IOException, CheckpointException {
        for (final ProcessTree tree : seen) {
            freeze(tree, byTop, deadline);
        }
        final List<ProcessTree> trees = ProcessTree.of(request.roots());
        boolean more = false;
        for (final ProcessTree tree : trees) {
            more |= moveIn(tree, byTop);
        }
        return more ? stop(trees, byTop, deadline) : trees; // Somebody else has moved one elsewhere.
    }

    private void freeze(final ProcessTree tree, final Map<Long, Freezer.Group> byTop, final long deadline)
            throws IOException, CheckpointException {
        final Freezer.Group group = byTop.get(tree.top().pid());
        group.freeze();
        group.await(deadline, request.freezeDeadline(), tree.name());
    }

    /** @return whether one was elsewhere */
    private static boolean moveIn(final ProcessTree tree, final Map<Long, Freezer.Group> byTop) throws IOException, CheckpointException {
        final Freezer.Group group = byTop.get(tree.top().pid());
        if (group == null) {
            throw new PassingStateException(tree.name() + ": the process above it has ended while it was stopped");
        }
        boolean moved = false;
        for (final ProcessTree.Member member : tree.members()) {
            moved |= !member.ids().ended() && group.add(member.ids().pid());
        }
        return moved;
    }

    /** Stops all processes. @return the trees with all processes that they have by then */
    private List<ProcessTree> stop(final List<ProcessTree> seen, final Map<Long, Freezer.Group> byTop, final long deadline)
            throws IOException, CheckpointException {
        List<ProcessTree> trees = seen;
        boolean more = true;
        for (int looks = 1; more; looks++) {
            if (System.nanoTime() - deadline > 0) {
                throw new CheckpointException(trees.getFirst().name() + ": the deadline of "
                        + request.freezeDeadline().toSeconds() + " s has passed, and it still had new processes at look " + looks
                        + " at them: this host is too slow, or it makes them faster than they can be stopped");
            }
            more = false;
            for (final ProcessTree tree : trees) {
                more |= moveIn(tree, byTop);
                freeze(tree, byTop, deadline);
            }
            // A child that was born outside the group before its parent was moved is found now.
            trees = more ? ProcessTree.outline(request.roots()) : ProcessTree.of(request.roots());
        }
        return trees;
    }

    /** Whether all that stands in the way passes by itself, such as a TCP connection that nobody has accepted yet. */
    private boolean passes(final List<ProcessTree> trees) throws IOException, CheckpointException {
        return sharing.findings().isEmpty() && (!sharing.passing().isEmpty() || !JobRoot.takingOver(trees).isEmpty());
    }

    /** What is only there while a launch is handed over passes, and CRIU need not come upon it. */
    private void refuse(final List<ProcessTree> trees) throws CheckpointException {
        final String takingOver = JobRoot.takingOver(trees);
        if (!takingOver.isEmpty()) {
            throw new PassingStateException(takingOver);
        }
        if (!sharing.findings().isEmpty()) {
            throw new CheckpointException(sharing.findings());
        }
        if (!sharing.passing().isEmpty()) {
            throw new PassingStateException(sharing.passing().getFirst().toString());
        }
    }

    /** Looks at trees that run: what stands in the way only while a program starts is not there at the next look. */
    private void look(final long deadline) throws IOException, CheckpointException {
        for (int looks = 1;; looks++) {
            final List<ProcessTree> trees = ProcessTree.of(request.roots());
            groups.clear();
            trees.forEach(tree -> groups.put(tree, null));
            sharing = Sharing.of(trees, request, looks > 1 || prepared == null ? null : prepared.outside());
            if (sharing.findings().isEmpty() && sharing.passing().isEmpty() && JobRoot.takingOver(trees).isEmpty()) {
                return;
            }
            if (looks == LOOKS || System.nanoTime() - deadline > 0) {
                refuse(trees);
            }
            LockSupport.parkNanos(LOOK_NANOS);
        }
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
    public TcpEnds connections() throws CheckpointException {
        return sockets == null ? sharing.ends() : sockets.ends();
    }

    @Override
    public TcpEnds holdConnections() throws CheckpointException {
        return onSockets("held", TcpEnds.NONE, FrozenSockets::hold);
    }

    @Override
    public List<UnacceptedEnd> acceptConnections() throws CheckpointException {
        return onSockets("held", List.of(), FrozenSockets::accept);
    }

    /**
     * @param done what is done to connections, for messages
     * @param none where trees have no connection, since they are not stopped yet
     */
    private <T> T onSockets(final String done, final T none, final SocketStep<T> step) throws CheckpointException {
        try {
            return sockets == null ? none : step.with(sockets);
        } catch (final IOException e) {
            throw new CheckpointException("TCP connections could not be " + done + ": " + e.getMessage(), e);
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("TCP connections could not be " + done + ": interrupted", e);
        }
    }

    @Override
    public void makeAgain(final List<UnacceptedEnd> connections) {
        sockets.makeAgain(connections);
    }

    @Override
    public WrittenImages write(final Path imageDirectory, final ImagePlan plan) throws CheckpointException {
        final long start = System.nanoTime();
        final Path directory = imageDirectory.toAbsolutePath();
        try {
            final String space = prepared != null && prepared.isRoomy(directory) ? "" : lackOfSpace(groups.keySet(), directory, 1);
            if (!space.isEmpty()) {
                throw new CheckpointException(space);
            }
            if (sockets != null) {
                sockets.take();
            }
            if (plan.increments()) {
                tools.askKernel(criu);
            }
            final List<ProcessTree> all = List.copyOf(groups.keySet());
            clear(all, directory);
            final List<CriuWrittenImages.Written> images = Parallel.each(all, Parallel.threads(),
                    tree -> dump(tree, name(all.indexOf(tree)), directory, plan));
            // Once for all trees: processes of one host may compare what they read. And last: CRIU keeps what is left of each
            // timer at the moment when it comes to it, and with an earlier time to go on from that would be over too early.
            final Clocks clocks = Clocks.now();
            final List<CriuWrittenImages.Written> written = new ArrayList<>();
            for (int i = 0; i < all.size(); i++) {
                final CriuWrittenImages.Written image = images.get(i);
                written.add(new CriuWrittenImages.Written(image.top(),
                        image.image().goingOnFrom(clocks.asSeenBy(all.get(i).top().pid())), image.base(), image.copied(),
                        beginCounts(all.get(i), plan)));
            }
            return new CriuWrittenImages(new HostImages(version, Host.name(), Host.kernel(), Host.cpuModel(), Host.cpuFlags(),
                    List.of(), 0, freezeNanos, System.nanoTime() - start), written, directory, plan, tools.chains(),
                    tools.policy());
        } catch (final IOException e) {
            throw ended(new CheckpointException("saving to " + directory + ": " + e.getMessage(), e));
        } catch (final CheckpointException e) {
            throw ended(e);
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("saving to " + directory + ": interrupted", e);
        }
    }

    /**
     * Ends those that stand by for a tree that is not there any more, or has another number since another one ended, and removes what
     * was made for them, and for what was not prepared to the end.
     */
    private void clear(final List<ProcessTree> all, final Path directory) throws IOException {
        final Set<String> used = new HashSet<>();
        for (final ProcessTree tree : all) {
            final CriuDump dump = dumps.get(tree.top().pid());
            final String name = name(all.indexOf(tree));
            if (dump != null && dump.writesTo(directory.resolve(name))) {
                used.add(name);
                used.add(parent(directory, name).getFileName().toString());
            }
        }
        for (final Map.Entry<Long, CriuDump> dump : Map.copyOf(dumps).entrySet()) {
            if (used.stream().noneMatch(name -> dump.getValue().writesTo(directory.resolve(name)))) {
                dumps.remove(dump.getKey());
                dump.getValue().close();
            }
        }
        try (Stream<Path> files = Files.list(directory)) {
            for (final Path file : files.toList()) {
                final String name = file.getFileName().toString();
                if ((name.startsWith(TREE) || name.startsWith(PARENT_OF + TREE)) && !used.contains(name)) {
                    remove(file);
                }
            }
        }
    }

    /**
     * Of all that its image has now, writes count from here on; CRIU has begun to by itself where the kernel has soft-dirty bits.
     *
     * @return whether they do, of one process at least: else a later image need not build on this one
     */
    private boolean beginCounts(final ProcessTree tree, final ImagePlan plan) throws IOException {
        if (!plan.increments() || tools.softDirty()) {
            return plan.increments();
        }
        boolean counted = false;
        for (final long pid : membersNow(tree)) {
            final WriteCount count = plan.counts().get(pid);
            if (count != null && count.works()) {
                count.begin(pid);
                counted = true;
            }
        }
        return counted;
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

    /** What is too little in a directory for so many images of each of the trees; empty when nothing is. */
    static String lackOfSpace(final Iterable<ProcessTree> trees, final Path directory, final int times) throws IOException {
        long needed = 0;
        for (final ProcessTree tree : trees) {
            needed += IMAGE_OVERHEAD;
            for (final long pid : tree.hostPids()) {
                try {
                    needed += Proc.memory(pid);
                } catch (final IOException e) {
                    if (!Proc.ended(pid)) {
                        throw e;
                    }
                }
            }
        }
        final long usable = Files.getFileStore(directory).getUsableSpace();
        return needed * times <= usable ? "" : "no space for the images in " + directory + ": about " + (needed >> 20) + " MiB needed, "
                + (usable >> 20) + " MiB free";
    }

    private CriuWrittenImages.Written dump(final ProcessTree tree, final String name, final Path directory, final ImagePlan plan)
            throws IOException, InterruptedException, CheckpointException {
        final long start = System.nanoTime();
        final Path folder = directory.resolve(name);
        final Stall stall = new Stall(request.saveDeadline(), () -> ImageFiles.bytes(folder), request.progress());
        final Chains.Link base = tools.chains().take(tree.top().pid(), plan, directory);
        final Chains.Copied copied = tools.chains().takeCopy(tree.top().pid(), plan);
        final Path parent = parent(parent(directory, name), directory, base, copied);
        final CriuDump dump = dump(tree, folder, plan, parent);
        final CriuCommand.Result result = dump.save(stall);
        final String subject = tree.name() + " (pid " + tree.top().pid() + "): ";
        if (result.status() < 0) {
            throw new CheckpointException(subject + "CRIU was not done with the image, and has written nothing for "
                    + stall.deadline());
        }
        if (result.status() != 0) {
            final String reason = CriuCommand.reason(dump.log(folder), result.output());
            final String what = subject + "CRIU could not save it (status " + result.status() + "): " + reason;
            throw CriuCommand.passes(reason) ? new PassingStateException(what) : new CheckpointException(what);
        }
        final long dumpNanos = System.nanoTime() - start;
        if (parent != null) {
            Files.delete(folder.resolve(PlainImages.PARENT));
            remove(parent);
        }
        // Its reading is of a moment of its own for each tree. Without it CRIU restores into the clocks that it is run with.
        Files.deleteIfExists(folder.resolve("timens-0.img"));
        final ProcessTree still = freezer != null ? tree : standingStill(tree);
        final Sharing shared = freezer != null ? sharing : Sharing.of(List.of(still), request);
        if (!shared.findings().isEmpty()) {
            throw new CheckpointException(shared.findings());
        }
        final List<OutputFile> outputs = UserFiles.outputs(still, folder);
        return new CriuWrittenImages.Written(tree.top().pid(), new TreeImage(
                tree.name(), name, processes(still, shared), List.of(), outputs,
                NamedPipe.of(still, shared), UserFiles.mapped(still), still.sessionLedFromOutside(), shared.connections(still),
                shared.listeners(still), sockets == null ? List.of() : sockets.alive(),
                sockets == null ? List.of() : sockets.write(tree, folder), UserFiles.memory(tree.top().pid()), dumpNanos,
                List.of(), null),
                base, copied, false);
    }

    /** The CRIU that stands by for this, else a new one. */
    private CriuDump dump(final ProcessTree tree, final Path folder, final ImagePlan plan, final Path parent)
            throws IOException, InterruptedException, CheckpointException {
        final long top = tree.top().pid();
        final Path group = freezer == null ? null : groups.get(tree).folder();
        final CriuDump ready = dumps.get(top);
        if (ready != null) {
            if (ready.does(DumpCommand.of(criu, tools, tree, sharing, group, folder, ready.hold(), plan, parent))) {
                return ready;
            }
            dumps.remove(top).close(); // Something is not as it was.
            if (Files.isDirectory(folder)) {
                remove(folder);
            }
            if (parent == null) {
                Files.deleteIfExists(parent(folder.getParent(), folder.getFileName().toString()));
            }
        }
        Files.createDirectory(folder, PrivateFiles.FOLDER);
        final HeldDump hold = freezer == null ? new HeldDump() : null;
        final CriuDump dump = CriuDump.start(DumpCommand.of(criu, tools, tree, sharing, group, folder, hold, plan, parent), hold);
        dumps.put(top, dump);
        return dump;
    }

    /** Of the folder of a tree's image. */
    static String name(final int index) {
        return TREE + index;
    }

    /** The folder in which CRIU finds which pages the image of that name need not have. */
    static Path parent(final Path directory, final String name) {
        return directory.resolve(PARENT_OF + name);
    }

    /** Where CRIU finds which pages the image need not have; null: it is to have all. */
    private static Path parent(final Path folder, final Path directory, final Chains.Link base, final Chains.Copied copied)
            throws IOException {
        if (copied != null) {
            try (Stream<Path> files = Files.list(copied.folder())) {
                Chains.parent(folder, copied.folder(), files.map(file -> file.getFileName().toString()).toList());
            }
            return folder;
        }
        if (base == null) {
            return null;
        }
        Chains.parent(folder, directory.getParent().resolveSibling(base.checkpoint()).resolve(base.host())
                .resolve(base.image().directory()), base.image().files().stream().map(ImageFile::name).toList());
        return folder;
    }

    /** Removes a folder of images, in which are no others. */
    static void remove(final Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            for (final Path file : files.toList()) {
                Files.delete(file);
            }
        }
        Files.delete(folder);
    }

    /** The tree as CRIU has saved it, which may have other processes and files than when it was looked at. */
    private ProcessTree standingStill(final ProcessTree tree) throws CheckpointException {
        return ProcessTree.of(request.roots()).stream().filter(now -> now.top().pid() == tree.top().pid()).findFirst()
                .orElseThrow(() -> new CheckpointException(tree.name() + ": has ended while it was saved"));
    }

    private static List<ProcessImage> processes(final ProcessTree tree, final Sharing sharing) {
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

    /** Those that stand still: a tree that CRIU holds may have had others when it was looked at. */
    private List<Long> membersNow(final ProcessTree tree) {
        try {
            return (freezer != null ? tree : standingStill(tree)).hostPids();
        } catch (final CheckpointException e) {
            return tree.hostPids(); // A part has ended.
        }
    }

    @Override
    public void kill() throws CheckpointException {
        final long deadline = System.nanoTime() + KILL_TIMEOUT.toNanos();
        final List<Long> pids = new ArrayList<>();
        for (final ProcessTree tree : groups.keySet()) {
            pids.addAll(membersNow(tree));
        }
        onSockets("dropped", null, held -> {
            held.drop();
            return null;
        });
        for (final long pid : pids) {
            // Frozen, they have not ended, so the pids are still theirs.
            Libc.signal(pid, SIGKILL);
        }
        thaw();
        for (final long pid : pids) {
            while (!Proc.ended(pid)) {
                if (System.nanoTime() - deadline > 0) {
                    throw new CheckpointException("pid " + pid + " has not ended after SIGKILL");
                }
                LockSupport.parkNanos(POLL_NANOS);
            }
        }
        close();
    }

    @Override
    public void thaw() throws CheckpointException {
        if (thawed) {
            return;
        }
        thawed = true;
        if (sockets != null) {
            sockets.close();
        }
        IOException failure = freezer == null ? endDumps() : null;
        for (final Freezer.Group group : groups.values()) {
            try {
                if (group != null) {
                    group.thaw();
                }
            } catch (final IOException e) {
                failure = e;
            }
        }
        if (failure != null) {
            // The guard goes on trying when this process ends.
            throw new CheckpointException("thawing: " + failure.getMessage(), failure);
        }
        if (guard != null) {
            guard.close();
        }
    }

    /** Those that hold trees let them go on; those that wait still end. @return what went wrong, or null */
    private IOException endDumps() {
        IOException failure = null;
        for (final Map.Entry<Long, CriuDump> dump : dumps.entrySet()) {
            try {
                dump.getValue().close();
                dumps.remove(dump.getKey());
            } catch (final IOException e) {
                failure = e;
            }
        }
        return failure;
    }

    @Override
    public void close() throws CheckpointException {
        thaw();
        IOException failure = endDumps();
        for (final Freezer.Group group : groups.values()) {
            try {
                if (group != null) {
                    group.release();
                }
            } catch (final IOException e) {
                failure = e;
            }
        }
        groups.clear();
        if (failure != null) {
            throw new CheckpointException("after the processes went on: " + failure.getMessage(), failure);
        }
    }
}
