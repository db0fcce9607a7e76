// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

/** Published values by key. Safe for use by several threads. */
public interface PublishedStore extends AutoCloseable {
    void put(String key, byte[] value);

    /** The value, or null. */
    byte[] get(String key);

    /** Removes every key that begins so. */
    void removeAll(String prefix);

    @Override
    void close();
}
