// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.shadowverbs.coordinator.store.PublishedStore;

/** Tells what it holds; outlives a coordinator, as Chronicle Map's file does. */
final class TestStore implements PublishedStore {
    private final ConcurrentHashMap<String, byte[]> values = new ConcurrentHashMap<>();

    Set<String> keys() {
        return new TreeSet<>(values.keySet());
    }

    @Override
    public void put(final String key, final byte[] value) {
        values.put(key, value);
    }

    @Override
    public byte[] get(final String key) {
        return values.get(key);
    }

    @Override
    public void remove(final String key) {
        values.remove(key);
    }

    @Override
    public void removeAll(final String prefix) {
        values.keySet().removeIf(key -> key.startsWith(prefix));
    }

    @Override
    public void close() {
    }
}
