// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * Processes in control groups of ours, in which they can be frozen at once: to be moved there takes the kernel tens of
 * milliseconds. A look at all processes of the host. For each tree a CRIU that stands by. Of one thread.
 */
final class CriuPreparation implements Preparation {
    /** A process that is made between two looks is born in its parent's group; it is so at the second, or it never ends. */
    private static final int LOOKS = 3;
    /** The others wait for their turn anyway. */
    private static final int MOST_DUMPS = 16;
    /** Space is asked for again where less is there than for images so much larger. */
    private static final int ROOMY = 4;

    private final String version;
    private final Freezer freezer;
    private final Map<Long, Freezer.Group> groups = new LinkedHashMap<>();
    private final Map<Long, CriuDump> dumps = new LinkedHashMap<>();
    private final OutsideWorld outside;
    private final List<ProcessRoot> roots;
    /** As they were when all their processes were in their groups; empty: they were not. */
    private List<ProcessTree> trees = List.of();
    /** Null: there is no freezer, or it is taken. */
    private Guard guard;
    /** A folder of images with space for many; null: there is none. */
    private Path roomy;

    /**
     * @param freezer   null: there are no groups
     * @param directory where images will be; null: that is not known
     */
    CriuPreparation(final Path criu, final String version, final Freezer freezer, final FreezeRequest request,
            final CriuTools tools, final Path directory, final ImagePlan plan) throws IOException, CheckpointException {
        this.version = version;
        this.freezer = freezer;
        roots = request.roots();
        try {
            for (int looks = 0; freezer != null && move() && looks < LOOKS; looks++) {
                continue;
            }
            if (freezer != null) {
                guard = Guard.of(freezer, groups.values());
            }
            outside = OutsideWorld.look();
            if (directory != null && !CriuCommand.plugins().isEmpty()) {
                start(criu, request, tools, directory.toAbsolutePath(), plan);
            }
        } catch (final IOException | CheckpointException | RuntimeException e) {
            close();
            throw e;
        }
    }

    /** @return whether one was elsewhere */
    private boolean move() throws IOException, CheckpointException {
        boolean moved = false;
        final List<ProcessTree> now = ProcessTree.outline(roots);
        for (final ProcessTree tree : now) {
            final long top = tree.top().pid();
            if (!groups.containsKey(top)) {
                groups.put(top, freezer.group(top));
            }
            for (final ProcessTree.Member member : tree.members()) {
                moved |= !member.ids().ended() && groups.get(top).add(member.ids().pid());
            }
        }
        trees = moved ? List.of() : now;
        return moved;
    }

    /** As the trees look now: a CRIU that would do something else than is to be done then is not used. */
    private void start(final Path criu, final FreezeRequest request, final CriuTools tools, final Path directory, final ImagePlan plan)
            throws IOException, CheckpointException {
        if (plan.increments()) {
            tools.askKernel(criu);
        }
        final List<ProcessTree> whole = ProcessTree.of(roots);
        roomy = CriuFrozenTrees.lackOfSpace(whole, directory, ROOMY).isEmpty() ? directory : null;
        final Sharing sharing = Sharing.of(whole, request, outside);
        for (final ProcessTree tree : whole.subList(0, Math.min(MOST_DUMPS, whole.size()))) {
            final long top = tree.top().pid();
            final String name = CriuFrozenTrees.name(whole.indexOf(tree));
            final Path folder = Files.createDirectory(directory.resolve(name), PrivateFiles.FOLDER);
            final Path parent = tools.chains().expects(top, plan, directory)
                    ? Files.createDirectory(CriuFrozenTrees.parent(directory, name)) : null;
            try {
                final HeldDump hold = freezer == null ? new HeldDump() : null;
                dumps.put(top, CriuDump.start(DumpCommand.of(criu, tools, tree, sharing,
                        freezer == null ? null : groups.get(top).folder(), folder, hold, plan, parent), hold));
            } catch (final InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            }
        }
        for (final CriuDump dump : dumps.values()) {
            dump.awaitReady();
        }
    }

    /** Whether a folder of images had space for so much more than these that nobody need look again. */
    boolean isRoomy(final Path directory) {
        return directory.equals(roomy);
    }

    String version() {
        return version;
    }

    /** Null: there is none. */
    Freezer freezer() {
        return freezer;
    }

    /**
     * Those processes' trees. What they have been joined by since was born in their groups, so all is in these that is to be frozen;
     * empty: they must be looked at.
     */
    List<ProcessTree> trees(final List<ProcessRoot> asked) {
        return roots.equals(asked) ? trees : List.of();
    }

    /** The group of that tree, which from then on is the caller's; null: there is none. */
    Freezer.Group take(final long top) {
        return groups.remove(top);
    }

    /** What guards these groups, and is the caller's from then on; null: nothing does. */
    Guard takeGuard(final Collection<Freezer.Group> all) {
        final Guard taken = guard != null && guard.guards(all) ? guard : null;
        guard = taken == null ? guard : null;
        return taken;
    }

    /** The CRIUs that stand by, by the topmost processes of their trees; the caller's from then on. */
    Map<Long, CriuDump> takeDumps() {
        final Map<Long, CriuDump> taken = new LinkedHashMap<>(dumps);
        dumps.clear();
        return taken;
    }

    OutsideWorld outside() {
        return outside;
    }

    @Override
    public void close() {
        for (final CriuDump dump : dumps.values()) {
            try {
                dump.close();
            } catch (final IOException e) {
                left("a CRIU", e);
            }
        }
        dumps.clear();
        for (final Freezer.Group group : groups.values()) {
            try {
                group.release();
            } catch (final IOException e) {
                left("a group", e);
            }
        }
        groups.clear();
        if (guard != null) {
            guard.close();
            guard = null;
        }
    }

    private static void left(final String what, final IOException e) {
        System.getLogger(CriuPreparation.class.getName()).log(System.Logger.Level.DEBUG, "{0} is left: {1}", what, e.getMessage());
    }
}
