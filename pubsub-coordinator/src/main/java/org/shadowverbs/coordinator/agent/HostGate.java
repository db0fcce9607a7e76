// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.RestoreGate;

/**
 * What the restored trees of this host wait at until those of all hosts are there. Safe for use by several threads; it has no deadline
 * of its own, for the coordinator has one, and its loss fails the gate.
 */
final class HostGate implements RestoreGate {
    private final AtomicInteger missing;
    private final Runnable whenAllHaveArrived;
    private final CompletableFuture<Void> open = new CompletableFuture<>();

    /**
     * @param parts how many restores on this host are to arrive
     * @param whenAllHaveArrived is run once, by the last of them
     */
    HostGate(final int parts, final Runnable whenAllHaveArrived) {
        missing = new AtomicInteger(parts);
        this.whenAllHaveArrived = whenAllHaveArrived;
    }

    @Override
    public void arrived() {
        if (missing.decrementAndGet() == 0) {
            whenAllHaveArrived.run();
        }
    }

    @Override
    public boolean await(final Duration timeout) throws CheckpointException, InterruptedException {
        try {
            open.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
            return true;
        } catch (TimeoutException e) {
            return false;
        } catch (ExecutionException e) {
            throw new CheckpointException(e.getCause().getMessage(), e.getCause());
        }
    }

    /** The processes of all hosts are there. */
    void open() {
        open.complete(null);
    }

    /** Those of another part, or of another host, will not come. */
    void fail(final String why) {
        open.completeExceptionally(new CheckpointException(why));
    }
}
