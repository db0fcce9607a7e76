// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/** What was done for processes that run, so that they stand still for a shorter time. Closed, it is undone, as far as it must be. */
public interface Preparation extends AutoCloseable {
    /** Nothing was done. */
    Preparation NOTHING = () -> { };

    @Override
    void close();
}
