// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;

/** The store on the heap, for a coordinator that need not outlive its process. */
public class MemoryStore implements PublishedStore {
    private final ConcurrentHashMap<String, byte[]> values = new ConcurrentHashMap<>();

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

    int size() {
        return values.size();
    }

    /** What is put meanwhile may be left out. */
    public void forEach(final BiConsumer<String, byte[]> action) {
        values.forEach(action);
    }

    @Override
    public void close() {
        values.clear();
    }
}
