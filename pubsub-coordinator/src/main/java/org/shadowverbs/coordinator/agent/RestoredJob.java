// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.process.RestoredTrees;

/** The restored processes of all source hosts of a checkpoint. */
public final class RestoredJob implements AutoCloseable {
    private final Map<Manifest.HostPart, List<RestoredTrees>> byHost = new LinkedHashMap<>();

    void add(final Manifest.HostPart part, final RestoredTrees trees) {
        byHost.computeIfAbsent(part, p -> new ArrayList<>()).add(trees);
    }

    /** The pid here of a root of that host, or null. */
    Long hostPid(final Manifest.HostPart part, final String root) {
        return byHost.getOrDefault(part, List.of()).stream().map(trees -> trees.hostPids().get(root)).filter(Objects::nonNull)
                .findFirst().orElse(null);
    }

    private Stream<RestoredTrees> all() {
        return byHost.values().stream().flatMap(List::stream);
    }

    /** How the tree of that root ends, when that is its topmost process; else null. */
    CompletableFuture<Integer> exitStatus(final Manifest.HostPart part, final String root) {
        return byHost.getOrDefault(part, List.of()).stream().map(trees -> trees.exitStatuses().get(root)).filter(Objects::nonNull)
                .findFirst().orElse(null);
    }

    /** How many process trees there are. */
    public int trees() {
        return all().mapToInt(t -> t.exitStatuses().size()).sum();
    }

    /** Sends it to the topmost process of every tree that still runs. */
    public void signal(final int signal) {
        all().forEach(trees -> trees.signal(signal));
    }

    /** Waits for all of them to end, and returns whether they have. */
    public boolean await(final Duration timeout) throws InterruptedException {
        final long end = System.nanoTime() + timeout.toNanos();
        for (final RestoredTrees trees : all().toList()) {
            if (!trees.await(Duration.ofNanos(Math.max(0, end - System.nanoTime())))) {
                return false;
            }
        }
        return true;
    }

    /** The first status that is not 0 of those that have ended, else 0. */
    public int status() {
        for (final RestoredTrees trees : all().toList()) {
            for (final CompletableFuture<Integer> status : trees.exitStatuses().values()) {
                final int s = status.getNow(0);
                if (s != 0) {
                    return s;
                }
            }
        }
        return 0;
    }

    /** Ends what still runs. */
    @Override
    public void close() {
        all().forEach(RestoredTrees::close);
    }
}
