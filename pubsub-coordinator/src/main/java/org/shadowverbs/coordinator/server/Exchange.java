// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;

/** One barrier with publish/subscribe: who has contributed, what they want, whether they agree. */
final class Exchange {
    final Phase phase;
    final int round;
    private final Map<Rank, Contribute> contributions = new LinkedHashMap<>();

    Exchange(final Phase phase, final int round) {
        this.phase = phase;
        this.round = round;
    }

    void add(final Rank rank, final Contribute contribution) {
        contributions.put(rank, contribution);
    }

    /** Those of the participants that have not contributed. */
    List<Rank> missing(final Collection<Rank> participants) {
        final List<Rank> missing = new ArrayList<>();
        for (final Rank rank : participants) {
            if (!contributions.containsKey(rank)) {
                missing.add(rank);
            }
        }
        return missing;
    }

    boolean unanimous(final Collection<Rank> participants) {
        return disagreeing(participants).isEmpty();
    }

    List<Rank> disagreeing(final Collection<Rank> participants) {
        return participants.stream().filter(rank -> {
            final Contribute c = contributions.get(rank);
            return c != null && !c.agree();
        }).toList();
    }

    String note(final Rank rank) {
        final Contribute c = contributions.get(rank);
        return c == null ? "" : c.note();
    }

    /** The keys wanted by the participants of each agent: a value goes to a host once. */
    Map<AgentSession, Set<String>> wanted(final Collection<Rank> participants) {
        final Map<AgentSession, Set<String>> wanted = new HashMap<>();
        for (final Rank rank : participants) {
            final Contribute c = contributions.get(rank);
            final Set<String> keys = wanted.computeIfAbsent(rank.agent, a -> new LinkedHashSet<>());
            if (c != null) {
                keys.addAll(c.want());
            }
        }
        return wanted;
    }
}
