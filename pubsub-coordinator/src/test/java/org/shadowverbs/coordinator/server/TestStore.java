// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.Set;
import java.util.TreeSet;
import org.shadowverbs.coordinator.store.JobStore;
import org.shadowverbs.coordinator.store.MemoryStore;
import org.shadowverbs.coordinator.store.PublishedStore;
import org.shadowverbs.coordinator.store.Seat;

/** Tells what it holds; outlives a coordinator, as Chronicle Map's file does. */
final class TestStore extends MemoryStore {
    Set<String> keys() {
        final Set<String> keys = new TreeSet<>();
        forEach((key, value) -> keys.add(key));
        return keys;
    }

    /** A job's that keeps nothing else. */
    JobStore ofJob() {
        final PublishedStore published = this;
        return new JobStore() {
            @Override
            public String before() {
                return null;
            }

            @Override
            public PublishedStore published() {
                return published;
            }

            @Override
            public void keep(final String state, final Seat seat) {
            }

            @Override
            public void decide(final String state, final Seat seat) {
            }

            @Override
            public void discard() {
            }

            @Override
            public void close() {
            }
        };
    }

    @Override
    public void close() {
    }
}
