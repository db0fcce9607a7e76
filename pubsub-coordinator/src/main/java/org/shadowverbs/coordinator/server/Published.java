// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.shadowverbs.coordinator.client.OwnKey;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.coordinator.store.PublishedStore;

/**
 * What ranks publish: ids of an epoch, which go to the hosts that want them with the answers of its exchanges, and values
 * that hold for the whole job, which ranks look up. Guarded by the job's lock, which whoever calls it holds.
 */
final class Published {
    private static final String JOB_SCOPE = "job/";
    private static final String EPOCH_SCOPE = "epoch-";

    private final PublishedStore store;
    /** How often each key of this epoch was published: an agent is sent only what it does not hold yet. */
    private final Map<String, Integer> versions = new HashMap<>();

    Published(final PublishedStore store) {
        this.store = store;
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
        for (final String key : keys) {
            byte[] value = get(key);
            if (value == null) {
                value = store.get(scope(epoch) + key);
            }
            if (value != null) {
                found.put(key, value);
            }
        }
        return found;
    }

    // ---- of an epoch ----

    void put(final long epoch, final Map<String, byte[]> values) {
        values.forEach((key, value) -> {
            versions.merge(key, 1, Integer::sum);
            store.put(scope(epoch) + key, value);
        });
    }

    /** The value of that key in the epoch, or null. */
    byte[] get(final long epoch, final String key) {
        return store.get(scope(epoch) + key);
    }

    /** What there is of those keys and the agent does not hold in this version; from here on it counts as held. */
    Map<String, byte[]> newTo(final AgentSession agent, final Collection<String> keys, final long epoch) {
        final Map<String, byte[]> values = new LinkedHashMap<>();
        for (final String key : keys) {
            final int version = versions.getOrDefault(key, 0);
            if (version == 0 || agent.holds.getOrDefault(key, 0) == version) {
                continue;
            }
            final byte[] value = store.get(scope(epoch) + key);
            if (value != null) {
                values.put(key, value);
                agent.holds.put(key, version);
            }
        }
        return values;
    }

    /** Removes the values of all epochs: they are over. */
    void forgetEpochs() {
        store.removeAll(EPOCH_SCOPE);
    }

    /** Removes everything: the processes that have published it are no more. */
    void forgetAll() {
        store.removeAll("");
    }

    /** What is published from here on is new to all agents. */
    void begin(final Collection<AgentSession> agents) {
        versions.clear();
        agents.forEach(a -> a.holds.clear());
    }

    private static String scope(final long epoch) {
        return EPOCH_SCOPE + epoch + "/";
    }
}
