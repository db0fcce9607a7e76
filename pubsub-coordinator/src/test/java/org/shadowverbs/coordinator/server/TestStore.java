// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.Set;
import java.util.TreeSet;
import org.shadowverbs.coordinator.store.MemoryStore;

/** Tells what it holds; outlives a coordinator, as Chronicle Map's file does. */
final class TestStore extends MemoryStore {
    Set<String> keys() {
        final Set<String> keys = new TreeSet<>();
        forEach((key, value) -> keys.add(key));
        return keys;
    }

    @Override
    public void close() {
    }
}
