// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.time.Duration;

/**
 * What restored trees wait at before their processes run: a TCP connection is there again when both of its ends are, and an end that
 * speaks before is answered that there is no such connection.
 */
public interface RestoreGate {
    /**
     * All trees of the request are there. Called once.
     *
     * @throws CheckpointException if others can't come
     */
    void arrived() throws CheckpointException;

    /**
     * Waits until the others are there, too.
     *
     * @param timeout how long
     * @return whether they are
     * @throws CheckpointException if they can't come
     * @throws InterruptedException if interrupted
     */
    boolean await(Duration timeout) throws CheckpointException, InterruptedException;
}
