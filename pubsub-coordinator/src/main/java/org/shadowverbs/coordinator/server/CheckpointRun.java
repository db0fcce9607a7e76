// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.protocol.HostMessages.Freeze;
import org.shadowverbs.coordinator.protocol.HostMessages.Frozen;
import org.shadowverbs.coordinator.protocol.HostMessages.Save;
import org.shadowverbs.coordinator.protocol.HostMessages.Saved;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RankMessages.Checkpoint;

/**
 * The checkpoint, from the request to the job running on: read {@link #attempt} from top to bottom. It is all or
 * nothing: until {@link #commit} returns, whatever happens ends in {@link #giveUp} and the job runs on.
 */
final class CheckpointRun {
    private static final int MOST_TRIES = 5;
    private static final Duration FREEZE_DEADLINE = Duration.ofSeconds(30);
    private static final Duration SAVE_DEADLINE = Duration.ofMinutes(11);

    private final Job job;
    private final Epoch epoch;
    private final Path directory;
    private final int keep;
    private final boolean kill;
    private final Report report;
    private final Duration deadline;

    private final Map<String, Long> phaseNanos = new LinkedHashMap<>();
    private long began;
    /** Of the epoch that this checkpoint is; 0 before it has begun. */
    private long number;
    private int ranks;
    private int rounds;
    private CheckpointFolder folder;
    private List<Manifest.HostPart> hosts = List.of();
    private long bytes;
    private boolean exchangesBegun;

    /** What has become of it. {@code folder} is null when there is no new checkpoint; {@code problem} may be empty. */
    record Outcome(Path folder, long epoch, int ranks, int rounds, long bytes, Map<String, Long> phaseNanos,
            long totalNanos, String problem) {
    }

    CheckpointRun(final Job job, final Path directory, final int keep, final boolean kill, final Report report) {
        this.job = job;
        epoch = job.epoch();
        this.directory = directory;
        this.keep = keep;
        this.kill = kill;
        this.report = report;
        this.deadline = epoch.phaseDeadline();
    }

    Outcome run() {
        began = System.nanoTime();
        for (int tries = 1;; tries++) {
            try {
                return attempt();
            } catch (Stopped e) {
                if (e.again() && tries < MOST_TRIES) {
                    report.line("the checkpoint begins again: " + e.getMessage());
                    continue;
                }
                job.log().add("checkpoint of epoch " + number + " failed: " + e.getMessage());
                return outcome(null, e.getMessage());
            }
        }
    }

    private Outcome attempt() throws Stopped {
        begin();
        try {
            exchange(Phase.ANNOUNCE);
            exchange(Phase.CLOSE);
            exchange(Phase.PAIRED);
            drain();
            exchange(Phase.DETACH);
            detached();
            freeze();
            save();
            commit();
        } catch (Stopped e) {
            giveUp(e.getMessage());
            throw e;
        } catch (RuntimeException | Error e) {
            // Whatever it is, the ranks wait behind closed gates.
            giveUp(e.toString());
            throw new Stopped(e.toString(), false);
        }
        return kill ? end() : resume();
    }

    private void begin() throws Stopped {
        phaseNanos.clear();
        rounds = 0;
        bytes = 0;
        exchangesBegun = false;
        ranks = epoch.begin();
        number = epoch.number();
        job.log().add("checkpoint of epoch " + number + " begins with " + ranks + " ranks");
        try {
            if (job.locked(() -> job.agents().isEmpty())) {
                throw new Stopped("no agent has joined this coordinator: there is nothing to save", false);
            }
            if (job.locked(() -> job.agents().stream().allMatch(a -> a.trees.isEmpty())) && ranks == 0) {
                throw new Stopped("no program runs in this job: there is nothing to save", false);
            }
            folder = CheckpointFolder.begin(directory, job.name(), number);
        } catch (IOException e) {
            job.endEpoch();
            throw new Stopped(e.getMessage(), false);
        } catch (Stopped e) {
            job.endEpoch();
            throw e;
        }
        exchangesBegun = true;
        epoch.toParticipants(new Checkpoint(number, epoch.deadlineSeconds(), Map.of("kill", Boolean.toString(kill))));
    }

    private void exchange(final Phase phase) throws Stopped {
        final long start = System.nanoTime();
        final Exchange first = epoch.complete(phase, 0, deadline);
        if (phase == Phase.CLOSE && !epoch.unanimous(first)) {
            epoch.complete(phase, 1, deadline); // whose the queue pairs are that several have open is known only now
        }
        phaseDone(phase.name(), start, ranksDone());
    }

    /** Rounds of bookmarks until nothing moves that can move. */
    private void drain() throws Stopped {
        final long start = System.nanoTime();
        final long end = start + deadline.toNanos();
        for (;;) {
            final Exchange round = epoch.complete(Phase.DRAIN, rounds, Duration.ofNanos(
                    Math.max(1, end - System.nanoTime())), deadline);
            rounds++;
            if (epoch.unanimous(round)) {
                break;
            }
            if (System.nanoTime() > end) {
                throw new Stopped(epoch.disagreement(round) + " did not finish DRAIN within " + Sizes.deadline(deadline)
                        + " (" + rounds + " rounds)", false);
            }
        }
        phaseDone("DRAIN", start, ranksDone() + ", " + rounds + (rounds == 1 ? " round" : " rounds"));
    }

    private void detached() throws Stopped {
        final long start = System.nanoTime();
        epoch.awaitState(MemberState.DETACHED, "DETACH", deadline);
        phaseNanos.merge("DETACH", System.nanoTime() - start, Long::sum);
    }

    private void freeze() throws Stopped {
        final long start = System.nanoTime();
        epoch.tellAgents("FREEZE", new Freeze(number));
        int trees = 0;
        for (final Message answer : epoch.awaitAgents("FREEZE", FREEZE_DEADLINE).values()) {
            trees += ((Frozen) answer).trees().size();
        }
        phaseDone("FREEZE", start, trees + (trees == 1 ? " tree" : " trees"));
    }

    private void save() throws Stopped {
        final long start = System.nanoTime();
        epoch.tellAgents("SAVE", new Save(number, folder.temporary().toString()));
        final List<Manifest.HostPart> parts = new ArrayList<>();
        for (final Map.Entry<AgentSession, Message> e : epoch.awaitAgents("SAVE", SAVE_DEADLINE).entrySet()) {
            final Saved saved = (Saved) e.getValue();
            if (saved.images().isEmpty()) {
                continue; // a host with no process of the job
            }
            try {
                final Manifest.HostPart part = ManifestFile.hostPart(saved.images());
                if (!Files.isDirectory(folder.temporary().resolve(part.directory()))) {
                    throw new Stopped("the images of host " + e.getKey().host() + " are not in " + directory
                            + " as this host sees it: the checkpoint directory must be shared by all hosts", false);
                }
                parts.add(part);
                bytes += saved.bytes();
            } catch (IOException x) {
                throw new Stopped("host " + e.getKey().host() + " described its images wrongly: " + x.getMessage(),
                        false);
            }
        }
        hosts = parts;
        phaseDone("SAVE", start, ranksDone() + ", " + Sizes.bytes(bytes));
    }

    private void commit() throws Stopped {
        final long start = System.nanoTime();
        epoch.stage("COMMIT");
        final Map<String, Long> millis = new LinkedHashMap<>();
        phaseNanos.forEach((phase, nanos) -> millis.put(phase, nanos / 1_000_000));
        try {
            folder.commit(new Manifest(Manifest.SCHEMA, job.name(), number,
                    Instant.now().truncatedTo(ChronoUnit.SECONDS).toString(), kill,
                    (System.nanoTime() - began) / 1_000_000, millis, ranks, bytes, hosts, ""));
        } catch (IOException e) {
            throw new Stopped("COMMIT failed: " + e, false);
        }
        epoch.nothingStopsFromHere();
        job.log().add("checkpoint " + folder.place() + " is safe: " + bytes + " bytes");
        try {
            CheckpointFolder.prune(directory, job.name(), keep)
                    .forEach(old -> job.log().add("removed old checkpoint " + old));
        } catch (IOException e) {
            report.line("warning: an old checkpoint could not be removed: " + e);
        }
        phaseDone("COMMIT", start, "");
    }

    /** The checkpoint is safe and the job was to end with it. */
    private Outcome end() {
        final long start = System.nanoTime();
        String problem = "";
        try {
            epoch.tellAgents("THAW", new Thaw(number, epoch.attempt(), "", "", true));
            requireAll(epoch.awaitAgents("THAW", FREEZE_DEADLINE));
        } catch (Stopped e) {
            problem = e.getMessage();
        }
        phaseDone("KILL", start, "");
        final Outcome outcome = outcome(folder.place(), problem);
        job.endEpoch();
        return outcome;
    }

    /** The checkpoint is safe: thaw, and every rank opens its devices again. */
    private Outcome resume() {
        final long start = System.nanoTime();
        final String problem = thawAndReattach("resumed", "", true);
        phaseDone("REATTACH", start, ranksDone());
        final Outcome outcome = outcome(folder.place(), problem);
        job.endEpoch();
        return outcome;
    }

    /** No checkpoint comes of it: what was written is removed and the job runs on as before. */
    private void giveUp(final String why) {
        final boolean reattach = epoch.drainBegun();
        epoch.nothingStopsFromHere();
        job.log().add("epoch " + number + " is given up: " + why);
        if (exchangesBegun) {
            final String problem = thawAndReattach("aborted", why, reattach);
            if (!problem.isEmpty()) {
                report.line("after the checkpoint was given up: " + problem);
            }
        }
        try {
            folder.discard();
        } catch (IOException e) {
            report.line("warning: " + folder.temporary() + " could not be removed: " + e);
        }
        job.endEpoch();
    }

    /** Returns what went wrong, or an empty string. */
    private String thawAndReattach(final String outcome, final String why, final boolean reattach) {
        final List<String> before = epoch.deaths();
        try {
            new Reattachment(epoch, deadline).run(outcome, why, reattach);
        } catch (Stopped e) {
            return e.getMessage();
        }
        final List<String> deaths = new ArrayList<>(epoch.deaths());
        deaths.removeAll(before);
        return deaths.isEmpty() ? "" : String.join("; ", deaths);
    }

    private static String firstFailure(final Map<AgentSession, Message> answers) {
        for (final Map.Entry<AgentSession, Message> e : answers.entrySet()) {
            if (e.getValue() instanceof StepFailed f) {
                return f.step() + " failed on host " + e.getKey().host() + ": " + f.reason();
            }
        }
        return "";
    }

    /** Turns a step that failed on some host into what stops. */
    static void requireAll(final Map<AgentSession, Message> answers) throws Stopped {
        final String failure = firstFailure(answers);
        if (!failure.isEmpty()) {
            throw new Stopped(failure, false);
        }
    }

    private String ranksDone() {
        return epoch.participants() + "/" + ranks + (ranks == 1 ? " rank" : " ranks");
    }

    private void phaseDone(final String phase, final long start, final String what) {
        final long nanos = System.nanoTime() - start;
        phaseNanos.merge(phase, nanos, Long::sum);
        report.line(String.format(Locale.ROOT, "%-9s %9s  %s", phase, Sizes.seconds(nanos), what).stripTrailing());
    }

    private Outcome outcome(final Path place, final String problem) {
        return new Outcome(place, number, ranks, rounds, bytes, new LinkedHashMap<>(phaseNanos),
                System.nanoTime() - began, problem);
    }
}
