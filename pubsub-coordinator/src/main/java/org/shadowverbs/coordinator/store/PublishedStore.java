// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

/** Published values by key. Safe for use by several threads. */
public interface PublishedStore extends AutoCloseable {
    /** In place of the value that the key has. */
    void put(String key, byte[] value);

    /** The value, or null. */
    byte[] get(String key);

    /** Does nothing when the key has no value. */
    void remove(String key);

    /** Removes every key that begins so. */
    void removeAll(String prefix);

    /**
     * Waits until it is open, or cannot be opened; most are at once.
     *
     * @throws IllegalStateException it was not within a minute
     */
    default void awaitOpen() {
    }

    /**
     * Waits, for a few seconds at most and for {@link #awaitOpen} before, until what was put outlives what the store is to outlive.
     *
     * @return why it does not, or an empty string
     */
    default String settle() {
        return "";
    }

    @Override
    void close();

    /** Closes it and removes what outlives it, for a job that has ended. To be called when it is open. */
    default void discard() {
        close();
    }
}
