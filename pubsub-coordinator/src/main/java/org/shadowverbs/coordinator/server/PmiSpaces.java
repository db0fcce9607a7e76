// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiNews;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiRank;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiState;

/**
 * The barriers and values of ranks whose launcher did not come back with them. Barriers are counted: one is over when all have
 * entered it, or when it was over for one of them before the checkpoint. So each is over once, whoever of its ranks had left it
 * by then. Guarded by the job's lock, which whoever calls it holds.
 */
final class PmiSpaces {
    private final Map<String, Space> spaces = new HashMap<>();

    private static final class Space {
        private final Map<Integer, PmiRank> ranks = new TreeMap<>();
        private final Map<String, byte[]> values = new HashMap<>();
    }

    PmiNews answer(final PmiState state) {
        final Space space = spaces.computeIfAbsent(state.space(), name -> new Space());
        for (final PmiRank rank : state.ranks()) {
            space.ranks.merge(rank.rank(), rank, (a, b) -> new PmiRank(a.rank(), Math.max(a.entered(), b.entered()),
                    Math.max(a.passed(), b.passed())));
        }
        space.values.putAll(state.put());
        final boolean all = space.ranks.size() >= state.size();
        long over = space.ranks.values().stream().mapToLong(PmiRank::passed).max().orElse(0);
        if (all) {
            over = Math.max(over, space.ranks.values().stream().mapToLong(PmiRank::entered).min().orElse(0));
        }
        final Map<String, byte[]> found = new HashMap<>(space.values);
        found.keySet().retainAll(state.wanted());
        return new PmiNews(state.space(), state.first(), state.number(), over, all, found);
    }

    /** What comes now comes from another checkpoint. */
    void clear() {
        spaces.clear();
    }
}
