// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.client.Phase;

/** One barrier with publish/subscribe: who has contributed, what they want, whether they agree. */
final class Exchange {
    final Phase phase;
    final int round;
    private final Set<Rank> contributed = new HashSet<>();
    private final Set<Rank> against = new LinkedHashSet<>();
    private final Map<Rank, String> notes = new HashMap<>();
    private final Map<AgentSession, Set<String>> wanted = new HashMap<>();

    Exchange(final Phase phase, final int round) {
        this.phase = phase;
        this.round = round;
    }

    /** The rank takes part in what its host has said. */
    void add(final Rank rank, final boolean agrees, final String note) {
        contributed.add(rank);
        if (agrees) {
            against.remove(rank);
        } else {
            against.add(rank);
        }
        notes.put(rank, note);
    }

    /** What ranks of that host want besides. */
    void want(final AgentSession agent, final Set<String> more) {
        wanted.computeIfAbsent(agent, a -> new LinkedHashSet<>()).addAll(more);
    }

    boolean lacks(final Rank rank) {
        return !contributed.contains(rank);
    }

    boolean unanimous(final Collection<Rank> participants) {
        return against.isEmpty() || disagreeing(participants).isEmpty();
    }

    List<Rank> disagreeing(final Collection<Rank> participants) {
        return participants.stream().filter(against::contains).toList();
    }

    String note(final Rank rank) {
        return notes.getOrDefault(rank, "");
    }

    /** What the ranks of that host want: a value goes to a host once. */
    Set<String> wanted(final AgentSession agent) {
        return wanted.getOrDefault(agent, Set.of());
    }
}
