// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.shadowverbs.coordinator.client.NumberedKeys;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.Codec;
import org.shadowverbs.coordinator.protocol.RankMessages.Answer;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;

/**
 * The answer to an exchange, which comes to a host once, cut to what each of its ranks wants. Ranks that want the same
 * get the same bytes, which are made once.
 */
public final class HostAnswer {
    private final Answer answer;
    private final boolean continues;
    private final Function<String, byte[]> fetched;
    private final Map<Set<String>, byte[]> frames = new HashMap<>();

    /** What a rank has asked for. Guarded by the agent's lock. */
    public static final class Wishes {
        /** The keys that an answer for the host is cut to: those of the last contribution, in a drain those of all. */
        private Set<String> wanted = Set.of();
        /** Those of the wanted keys that were not asked for before. */
        private Set<String> asked = Set.of();

        /** @throws IllegalArgumentException nobody understands one of them */
        public void are(final Contribute c) {
            c.want().forEach(NumberedKeys::check);
            if (!Phase.continues(c.phase(), c.round())) {
                asked = c.want();
                wanted = c.phase() == Phase.DRAIN.ordinal() ? keys(c.want()) : Set.of();
                return;
            }
            asked = keys(c.want());
            asked.removeAll(wanted);
            wanted.addAll(asked);
        }
    }

    private static Set<String> keys(final Set<String> wishes) {
        final Set<String> keys = new LinkedHashSet<>();
        wishes.forEach(wish -> NumberedKeys.each(wish, keys::add));
        return keys;
    }

    /** @param fetched what earlier rounds of a drain have brought */
    public HostAnswer(final Answer answer, final Function<String, byte[]> fetched) {
        this.answer = answer;
        this.fetched = fetched;
        continues = Phase.continues(answer.phase(), answer.round());
    }

    /**
     * The frame for a rank: what it has asked for now, and, in a drain, of what it has asked for before what is new.
     */
    public byte[] of(final Wishes wishes) {
        return continues ? frame(added(wishes)) : frames.computeIfAbsent(wishes.asked, asked -> frame(found(asked)));
    }

    private Map<String, byte[]> added(final Wishes wishes) {
        final Map<String, byte[]> found = new LinkedHashMap<>();
        for (final String key : wishes.asked) {
            final byte[] value = fetched.apply(key);
            if (value != null) {
                found.put(key, value);
            }
        }
        answer.found().forEach((key, value) -> {
            if (wishes.wanted.contains(key)) {
                found.put(key, value);
            }
        });
        return found;
    }

    private Map<String, byte[]> found(final Set<String> asked) {
        final Map<String, byte[]> found = new LinkedHashMap<>();
        asked.forEach(wish -> NumberedKeys.each(wish, key -> {
            final byte[] value = answer.found().get(key);
            if (value != null) {
                found.put(key, value);
            }
        }));
        return found;
    }

    private byte[] frame(final Map<String, byte[]> found) {
        return Codec.frame(new Answer(answer.epoch(), answer.attempt(), answer.phase(), answer.round(), found,
                answer.unanimous(), answer.ranks(), answer.runs(), answer.departed()));
    }
}
