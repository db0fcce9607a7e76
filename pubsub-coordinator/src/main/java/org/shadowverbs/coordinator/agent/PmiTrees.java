// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiNews;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiState;

/**
 * What the trees of this host have said for their ranks, and what the coordinator has answered last. A tree is answered at
 * once, with what is known, and asks again: as long as it is connected to the agent no image can be made of it.
 */
final class PmiTrees {
    private final Consumer<Message> coordinator;
    private final Map<Key, PmiState> states = new LinkedHashMap<>();
    private final Map<Key, PmiNews> answers = new HashMap<>();

    private record Key(String space, int first) {
    }

    PmiTrees(final Consumer<Message> coordinator) {
        this.coordinator = coordinator;
    }

    /** Passes it on. @return the answer to the one before, or to none */
    synchronized PmiNews said(final PmiState state) {
        final Key key = new Key(state.space(), state.first());
        states.merge(key, state, PmiTrees::both);
        coordinator.accept(state);
        return answers.getOrDefault(key, new PmiNews(state.space(), state.first(), 0, 0, false, Map.of()));
    }

    /** The new one, with all that was put before. */
    private static PmiState both(final PmiState old, final PmiState state) {
        final Map<String, byte[]> put = new LinkedHashMap<>(old.put());
        put.putAll(state.put());
        return new PmiState(state.version(), state.space(), state.size(), state.number(), state.ranks(), put, state.wanted(),
                state.abort());
    }

    synchronized void answered(final PmiNews news) {
        answers.put(new Key(news.space(), news.first()), news);
    }

    /** A coordinator has come, or come back, that may know nothing of it. */
    synchronized void coordinatorCame() {
        states.values().forEach(coordinator);
    }
}
