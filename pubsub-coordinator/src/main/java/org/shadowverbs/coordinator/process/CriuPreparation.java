// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Processes in control groups of ours, in which they can be frozen at once: to be moved there takes the kernel tens of
 * milliseconds. And a look at all processes of the host. Of one thread.
 */
final class CriuPreparation implements Preparation {
    /** A process that is made between two looks is born in its parent's group; it is so at the second, or it never ends. */
    private static final int LOOKS = 3;

    private final Map<Long, Freezer.Group> groups = new LinkedHashMap<>();
    private final OutsideWorld outside;

    /** @param freezer null: there are no groups */
    CriuPreparation(final Freezer freezer, final List<ProcessRoot> roots) throws IOException, CheckpointException {
        try {
            for (int looks = 0; freezer != null && move(freezer, roots) && looks < LOOKS; looks++) {
                continue;
            }
            outside = OutsideWorld.look();
        } catch (final IOException | CheckpointException | RuntimeException e) {
            close();
            throw e;
        }
    }

    /** @return whether one was elsewhere */
    private boolean move(final Freezer freezer, final List<ProcessRoot> roots) throws IOException, CheckpointException {
        boolean moved = false;
        for (final ProcessTree tree : ProcessTree.outline(roots)) {
            final long top = tree.top().pid();
            if (!groups.containsKey(top)) {
                groups.put(top, freezer.group(top));
            }
            for (final ProcessTree.Member member : tree.members()) {
                moved |= !member.ids().ended() && groups.get(top).add(member.ids().pid());
            }
        }
        return moved;
    }

    /** The group of that tree, which from then on is the caller's; null: there is none. */
    Freezer.Group take(final long top) {
        return groups.remove(top);
    }

    OutsideWorld outside() {
        return outside;
    }

    @Override
    public void close() {
        for (final Freezer.Group group : groups.values()) {
            try {
                group.release();
            } catch (final IOException e) {
                System.getLogger(CriuPreparation.class.getName())
                        .log(System.Logger.Level.DEBUG, "a group is left: {0}", e.getMessage());
            }
        }
        groups.clear();
    }
}
