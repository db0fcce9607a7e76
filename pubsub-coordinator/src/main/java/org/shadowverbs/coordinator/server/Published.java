// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.client.NumberedKeys;
import org.shadowverbs.coordinator.client.OwnKey;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.coordinator.store.PublishedStore;

/**
 * What ranks publish: values of an exchange, which go to the hosts that want them with its answer, and values that hold
 * for the epoch or for the whole job, which ranks look up. Guarded by the job's lock, which whoever calls it holds.
 *
 * <p>Those of the exchanges are on the heap, and none but those of the last two phases: a coordinator that takes the
 * place of this one has the ranks begin them anew. The others are in the store, and it finds them there.
 */
final class Published {
    private static final String JOB_SCOPE = "job/";
    private static final String EPOCH_SCOPE = "epoch-";

    private final PublishedStore store;
    /** What the exchanges of this epoch have brought, by phase; that of earlier ones is gone. */
    private final List<Map<String, byte[]>> exchanged = new ArrayList<>();
    /** The keys of what the present round of a drain has brought. */
    private final Set<String> changed = new HashSet<>();

    Published(final PublishedStore store) {
        this.store = store;
        for (int phase = 0; phase < Phase.values().length; phase++) {
            exchanged.add(new HashMap<>());
        }
    }

    // ---- of the job ----

    void put(final String key, final byte[] value) {
        store.put(JOB_SCOPE + key, value);
    }

    void remove(final String key) {
        store.remove(JOB_SCOPE + key);
    }

    /** Outside of an exchange: for the job, but with {@link RankLink#OF_EPOCH} for the epoch that goes on. */
    void publish(final String key, final byte[] value, final long epoch) {
        store.put((key.startsWith(RankLink.OF_EPOCH) ? scope(epoch) : JOB_SCOPE) + key, value);
    }

    /** Removes what the rank has said of itself. */
    void forget(final Rank rank) {
        for (final OwnKey key : OwnKey.values()) {
            remove(key.of(rank.number));
        }
    }

    /** The job's value of that key, or null. */
    byte[] get(final String key) {
        return store.get(JOB_SCOPE + key);
    }

    /** What there is of those keys: the job's value, or else that of the epoch. */
    Map<String, byte[]> lookup(final Collection<String> keys, final long epoch) {
        final Map<String, byte[]> found = new LinkedHashMap<>();
        keys.forEach(wish -> NumberedKeys.each(wish, key -> {
            byte[] value = get(key);
            if (value == null) {
                value = get(epoch, key);
            }
            if (value != null) {
                found.put(key, value);
            }
        }));
        return found;
    }

    // ---- of an epoch ----

    /** The value of that key in the epoch, or null. */
    byte[] get(final long epoch, final String key) {
        final byte[] value = exchanged(key);
        return value == null ? store.get(scope(epoch) + key) : value;
    }

    /**
     * What a coordinator that takes the place of this one must find, too.
     *
     * @return why it would not, or an empty string
     */
    String keep(final long epoch, final String key, final byte[] value) {
        store.put(scope(epoch) + key, value);
        return store.settle();
    }

    // ---- of its exchanges ----

    void exchanged(final Phase phase, final Map<String, byte[]> values) {
        exchanged.get(phase.ordinal()).putAll(values);
        if (phase == Phase.DRAIN) {
            changed.addAll(values.keySet());
        }
    }

    private byte[] exchanged(final String key) {
        byte[] value = null;
        for (int phase = exchanged.size() - 1; phase >= 0 && value == null; phase--) {
            final Map<String, byte[]> values = exchanged.get(phase);
            value = values.isEmpty() ? null : values.get(key);
        }
        return value;
    }

    /** What there is of what is wanted, by the ranks of a host that has been told nothing of it. */
    Map<String, byte[]> all(final Collection<String> wishes) {
        final Map<String, byte[]> found = new HashMap<>();
        wishes.forEach(wish -> NumberedKeys.each(wish, key -> {
            final byte[] value = exchanged(key);
            if (value != null) {
                found.put(key, value);
            }
        }));
        return found;
    }

    /**
     * What is new to the ranks of a host since the last round of a drain.
     *
     * @param wanted all keys that they want, those that they have wanted since then among them
     * @param more those
     */
    Map<String, byte[]> news(final Set<String> wanted, final Collection<String> more) {
        final Map<String, byte[]> found = all(more);
        // Of a large job a host wants a small part, and in a late round little has changed.
        final boolean wantsFew = wanted.size() < changed.size();
        final Set<String> other = wantsFew ? changed : wanted;
        for (final String key : wantsFew ? wanted : changed) {
            if (other.contains(key)) {
                found.put(key, exchanged(key));
            }
        }
        return found;
    }

    /** All have been told what they want. What went before the phase before this one nobody asks for any more. */
    void answered(final Phase phase) {
        changed.clear();
        for (int before = 0; before < phase.ordinal() - 1; before++) {
            if (before != Phase.DETACH.ordinal()) {
                exchanged.set(before, new HashMap<>());
            }
        }
    }

    /** Removes the values of all epochs: they are over. */
    void forgetEpochs() {
        store.removeAll(EPOCH_SCOPE);
    }

    /** Removes everything: the processes that have published it are no more. */
    void forgetAll() {
        begin();
        store.removeAll("");
    }

    /** The exchanges begin anew. */
    void begin() {
        exchanged.replaceAll(values -> new HashMap<>());
        changed.clear();
    }

    private static String scope(final long epoch) {
        return EPOCH_SCOPE + epoch + "/";
    }
}
