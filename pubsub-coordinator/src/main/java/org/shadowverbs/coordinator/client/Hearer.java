// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/** What another rank tells this one, with {@link RankLink#tell} or as its last will. */
public interface Hearer {
    /**
     * Called by the thread that reads the link, in the order in which it was sent: not to wait there for anything. What comes
     * before the answer of an exchange has been heard before that returns.
     */
    void hear(int from, byte[] what);
}
