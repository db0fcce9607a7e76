// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Restored processes, which run until they end by themselves or this is closed. */
public interface RestoredTrees extends AutoCloseable {
    /**
     * The pids that the roots have on this host now, for {@link FreezeRequest} and signals from outside.
     *
     * @return by root name, as it was given to {@link FreezeRequest}
     */
    Map<String, Long> hostPids();

    /**
     * How each tree's topmost process ended, as soon as it has.
     *
     * @return by tree name ({@link TreeImage#name}); 0 to 255, or 128 + signal
     */
    Map<String, CompletableFuture<Integer>> exitStatuses();

    /**
     * How long the restore of each tree took.
     *
     * @return nanoseconds, in the order of {@link HostImages#trees}
     */
    List<Long> restoreNanos();

    /**
     * Sends a signal to the topmost process of every tree that still runs.
     *
     * @param signal the signal's number
     */
    void signal(int signal);

    /**
     * Waits until the topmost processes of all trees have ended.
     *
     * @param timeout how long to wait
     * @return whether they have ended
     * @throws InterruptedException if interrupted
     */
    default boolean await(final Duration timeout) throws InterruptedException {
        try {
            CompletableFuture.allOf(exitStatuses().values().toArray(CompletableFuture[]::new))
                    .get(timeout.toNanos(), TimeUnit.NANOSECONDS);
            return true;
        } catch (final TimeoutException e) {
            return false;
        } catch (final ExecutionException e) {
            throw new IllegalStateException(e); // They are never completed with an exception.
        }
    }

    /** Ends what still runs. It also happens when this process dies, in whatever way. */
    @Override
    void close();
}
