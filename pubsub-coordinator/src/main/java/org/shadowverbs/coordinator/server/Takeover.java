// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;

/**
 * What a coordinator does first that is in the place of one that was lost with its host, perhaps: it finishes or removes the
 * checkpoint that was under way, and finds out who has come, and which processes are lost. On the conductor's thread.
 */
final class Takeover {
    /** Agents look for their coordinator several times a second, so whoever has not come by then does not live. */
    private static final Duration AGENTS_COME = Duration.ofSeconds(3);
    /** From when all others have: an agent on the host of the coordinator that was lost has noticed that first, if it lives. */
    private static final Duration ITS_OWN_COMES = Duration.ofMillis(1_500);

    private final Job job;
    private final JobState before;
    private final Path directory;

    Takeover(final Job job, final JobState before, final Path directory) {
        this.job = job;
        this.before = before;
        this.directory = directory;
    }

    void run() {
        finishCheckpoint();
        final boolean heals = job.locked(() -> job.recoveryOptions().asked());
        // Hosts that were cut off have ended their processes by then.
        final Duration cutOff = heals ? Duration.ofMillis(job.locked(() -> job.recoveryOptions().lostAfterMillis())) : Duration.ZERO;
        awaitAgents(id -> !id.startsWith(before.host() + "-"), AGENTS_COME.plus(cutOff));
        awaitAgents(id -> true, ITS_OWN_COMES);
        final Set<String> lost = new LinkedHashSet<>(before.busyHosts());
        job.locked(() -> {
            job.agents().stream().filter(agent -> !agent.trees.isEmpty()).forEach(agent -> lost.remove(agent.host()));
            job.ranks().forEach(rank -> lost.remove(rank.agent.host()));
            return null;
        });
        job.lostWithCoordinator(lost, before.recovering());
    }

    private void awaitAgents(final Predicate<String> which, final Duration time) {
        final Set<String> expected = before.agents().stream().filter(which).collect(Collectors.toSet());
        try {
            job.epoch().await(() -> job.haveJoined(expected), time, () -> "not all agents have come");
        } catch (Stopped e) {
            job.log().add(e.getMessage() + " within " + Sizes.deadline(time));
        }
    }

    /** It is valid when that was decided, wherever its folder is. Else none comes of it. */
    private void finishCheckpoint() {
        try {
            if (before.decided() > job.lineage().last() && CheckpointFolder.finish(directory, job.name(), before.decided())) {
                job.lineage().made(before.decided());
                job.log().add("checkpoint of epoch " + before.decided() + " is finished: it had been decided");
            }
            job.epoch().nextAbove(CheckpointFolder.clean(directory, job.name()));
        } catch (IOException | UncheckedIOException e) {
            job.log().add("the checkpoint under way could not be finished or removed: " + e);
        }
    }
}
