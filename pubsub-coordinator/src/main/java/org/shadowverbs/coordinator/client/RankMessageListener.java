// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/** Receives what another rank tells this one, by {@link RankLink#tell} or when it has ended (EXIT_MESSAGES). */
public interface RankMessageListener {
    /**
     * Called by the thread that reads the link, in the order of sending; it must not wait for anything. Whatever comes before
     * the answer of an exchange has been heard before that exchange returns.
     */
    void hear(int from, byte[] what);
}
