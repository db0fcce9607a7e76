// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Does the same with many trees or files, with several at a time. */
final class Parallel {
    private static final long END_SECONDS = 60;

    private Parallel() {
    }

    /** What is done with each; it ends when its thread is interrupted. */
    interface Task<T, R> {
        R with(T one) throws IOException, CheckpointException, InterruptedException;
    }

    /** As many as are of use on this host. */
    static int threads() {
        return Runtime.getRuntime().availableProcessors();
    }

    /** Returns the results in order. When one fails, or the caller is interrupted, the others are ended first. */
    static <T, R> List<R> each(final List<T> all, final int threads, final Task<T, R> task)
            throws IOException, CheckpointException, InterruptedException {
        final List<R> results = new ArrayList<>();
        if (threads < 2 || all.size() < 2) {
            for (final T one : all) {
                results.add(task.with(one));
            }
            return results;
        }
        final ExecutorService pool = Executors.newFixedThreadPool(Math.min(threads, all.size()),
                Thread.ofPlatform().daemon().name("images-", 1).factory());
        try {
            final List<Future<R>> running = new ArrayList<>();
            for (final T one : all) {
                running.add(pool.submit(() -> task.with(one)));
            }
            for (final Future<R> one : running) {
                results.add(one.get());
            }
            return results;
        } catch (final ExecutionException e) {
            switch (e.getCause()) {
                case final IOException x -> throw x;
                case final CheckpointException x -> throw x;
                case final InterruptedException x -> throw x;
                case final RuntimeException x -> throw x;
                case final Error x -> throw x;
                default -> throw new IllegalStateException(e.getCause());
            }
        } finally {
            end(pool);
        }
    }

    private static void end(final ExecutorService pool) {
        pool.shutdownNow();
        final boolean interrupted = Thread.interrupted();
        try {
            if (!pool.awaitTermination(END_SECONDS, TimeUnit.SECONDS)) {
                System.getLogger(Parallel.class.getName())
                        .log(System.Logger.Level.WARNING, "work on images has not ended within {0} s", END_SECONDS);
            }
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
