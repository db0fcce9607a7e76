// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.protocol.HostMessages.Inspect;
import org.shadowverbs.coordinator.protocol.HostMessages.Inspected;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.RankMessages.Check;
import org.shadowverbs.coordinator.protocol.RankMessages.Checked;
import org.shadowverbs.coordinator.protocol.RankMessages.Peer;

/**
 * Asks ranks and hosts whether a checkpoint could be made now. No program is stopped, and nothing changes by it. Run by one thread;
 * answers come by others.
 */
final class Inspection {
    /** How often ranks are asked before what stands in the way is believed: connections are being made meanwhile. */
    private static final int LOOKS = 3;
    private static final long PAUSE_MILLIS = 500;

    private final Job job;
    private final Path directory;
    private final Duration deadline;
    private long question;
    private Map<Rank, CompletableFuture<Checked>> ranks = Map.of();
    private Map<AgentSession, CompletableFuture<Inspected>> hosts = Map.of();

    /**
     * What has become of it.
     *
     * @param reasons why no checkpoint can be made
     * @param silent who has not answered in time
     */
    record Answer(Instant at, List<String> reasons, List<String> silent) {
        boolean possible() {
            return reasons.isEmpty() && silent.isEmpty();
        }

        /** All that stands in the way of saying that it is possible. */
        List<String> all() {
            final List<String> all = new ArrayList<>(reasons);
            all.addAll(silent);
            return all;
        }
    }

    /** @param directory where checkpoints go */
    Inspection(final Job job, final Path directory, final Duration deadline) {
        this.job = job;
        this.directory = directory;
        this.deadline = deadline;
    }

    Answer run() throws InterruptedException {
        final long end = System.nanoTime() + deadline.toNanos();
        final List<String> reasons = new ArrayList<>(job.locked(this::ofTheJob));
        final List<String> silent = new ArrayList<>();
        final String folder = CheckpointFolder.problem(directory);
        if (!folder.isEmpty()) {
            reasons.add(folder);
        }
        final Set<String> listeners = new LinkedHashSet<>();
        reasons.addAll(askRanks(end, listeners, silent));
        reasons.addAll(askHosts(end, listeners, folder.isEmpty() ? CheckpointFolder.existing(directory).toString() : "", silent));
        return new Answer(Instant.now().truncatedTo(ChronoUnit.SECONDS), List.copyOf(reasons), List.copyOf(silent));
    }

    /** What a checkpoint is refused for before anybody is asked. */
    private List<String> ofTheJob() {
        if (job.agents().isEmpty()) {
            return List.of("no agent has joined this coordinator: there is nothing to save");
        }
        if (job.ranks().isEmpty() && job.agents().stream().allMatch(agent -> agent.trees.isEmpty())) {
            return List.of("no program runs in this job: there is nothing to save");
        }
        return job.epoch().obstacles();
    }

    // ---- ranks ----

    private Collection<String> askRanks(final long end, final Set<String> listeners, final List<String> silent)
            throws InterruptedException {
        final Set<String> reasons = new LinkedHashSet<>();
        for (int look = 0; look < LOOKS; look++) {
            job.locked(() -> {
                question++;
                ranks = new LinkedHashMap<>();
                job.ranks().stream().filter(rank -> rank.state == MemberState.RUNNING).forEach(rank -> {
                    ranks.put(rank, new CompletableFuture<>());
                    rank.agent.toRanks(List.of(rank.uid), new Check(question));
                });
                return null;
            });
            silent.clear();
            listeners.clear();
            final Set<String> found = new LinkedHashSet<>(ofRanks(end, listeners, silent));
            if (look == 0) {
                reasons.addAll(found);
            } else {
                reasons.retainAll(found);
            }
            if (reasons.isEmpty() || !silent.isEmpty()) {
                break;
            }
            Thread.sleep(PAUSE_MILLIS);
        }
        return reasons;
    }

    private List<String> ofRanks(final long end, final Set<String> listeners, final List<String> silent)
            throws InterruptedException {
        final List<String> reasons = new ArrayList<>();
        final Set<String> known = new HashSet<>();
        final Map<Rank, Checked> answers = new LinkedHashMap<>();
        boolean all = job.locked(job::hasAllItsRanks);
        for (final Map.Entry<Rank, CompletableFuture<Checked>> e : ranks.entrySet()) {
            final Checked answer = await(e.getValue(), end, e.getKey().toString(), silent);
            if (answer == null) {
                all = false;
                continue;
            }
            answers.put(e.getKey(), answer);
            known.addAll(answer.own());
            if (!answer.listener().isEmpty()) {
                listeners.add(answer.listener());
            }
        }
        for (final Map.Entry<Rank, Checked> e : answers.entrySet()) {
            e.getValue().problems().forEach(problem -> reasons.add(e.getKey() + ": " + problem));
            for (final Peer peer : e.getValue().peers()) {
                // One that is not known may have been of a process that has left.
                if (all && peer.keys().stream().noneMatch(known::contains)) {
                    reasons.add(e.getKey() + ": " + peer.queuePair()
                            + ": the peer is outside the job; start it by shadowverbs launch at this coordinator");
                }
            }
        }
        return reasons;
    }

    // ---- hosts ----

    private List<String> askHosts(final long end, final Set<String> listeners, final String folder, final List<String> silent)
            throws InterruptedException {
        job.locked(() -> {
            question++;
            hosts = new LinkedHashMap<>();
            job.agents().forEach(agent -> {
                hosts.put(agent, new CompletableFuture<>());
                agent.send(new Inspect(question, listeners, folder, Connections.addressesBut(agent, job.agents())));
            });
            return null;
        });
        final List<String> reasons = new ArrayList<>();
        final Connections connections = new Connections();
        for (final Map.Entry<AgentSession, CompletableFuture<Inspected>> e : hosts.entrySet()) {
            final String host = "host " + e.getKey().host();
            final Inspected answer = await(e.getValue(), end, host, silent);
            if (answer != null) {
                answer.problems().forEach(problem -> reasons.add(host + ": " + problem));
                connections.add(e.getKey(), answer.sockets());
            }
        }
        reasons.addAll(connections.problems());
        return reasons;
    }

    /** Returns null for who is gone, and for who does not answer, which is said. */
    private <T> T await(final CompletableFuture<T> answer, final long end, final String who, final List<String> silent)
            throws InterruptedException {
        try {
            return answer.get(Math.max(0, end - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            silent.add(who + " did not answer within " + Sizes.deadline(deadline) + " whether it can be saved");
            return null;
        } catch (ExecutionException e) {
            throw new IllegalStateException(e); // nobody completes one so
        }
    }

    // ---- answers; the job's lock is held ----

    void answered(final Rank rank, final Checked m) {
        final CompletableFuture<Checked> waiting = m.id() == question ? ranks.get(rank) : null;
        if (waiting != null) {
            waiting.complete(m);
        }
    }

    void answered(final AgentSession agent, final Inspected m) {
        final CompletableFuture<Inspected> waiting = m.id() == question ? hosts.get(agent) : null;
        if (waiting != null) {
            waiting.complete(m);
        }
    }

    /** It has left the job. */
    void gone(final Rank rank) {
        final CompletableFuture<Checked> waiting = ranks.get(rank);
        if (waiting != null) {
            waiting.complete(null);
        }
    }

    /** Its connection is lost. */
    void gone(final AgentSession agent) {
        final CompletableFuture<Inspected> waiting = hosts.get(agent);
        if (waiting != null) {
            waiting.complete(null);
        }
        ranks.forEach((rank, answer) -> {
            if (rank.agent == agent) {
                answer.complete(null);
            }
        });
    }
}
