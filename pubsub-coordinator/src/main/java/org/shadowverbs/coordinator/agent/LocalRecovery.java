// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.client.AgentPlace;
import org.shadowverbs.coordinator.client.JobBackend;
import org.shadowverbs.coordinator.client.ReceiverRegister;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.manifest.Portions;
import org.shadowverbs.coordinator.manifest.Relocation;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.HostAddress;
import org.shadowverbs.coordinator.process.RestoreStreams;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Recover;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Recovering;
import org.shadowverbs.coordinator.protocol.RestartMessages.Share;
import org.shadowverbs.coordinator.store.PublishedStore;

/**
 * What an agent does when the coordinator brings the job back: it ends what is left of it on this host, and restores this host's
 * share itself, as whatever a recovery needs is to run already. {@link #end} and {@link #prepare} run on the thread of the steps; the
 * restore has a thread of its own, so that it can be given up.
 */
final class LocalRecovery {
    private static final Duration RESTORE_ENDS = Duration.ofSeconds(60);

    private final AgentOptions options;
    private final EventLog log;
    private final LocalRanks ranks;
    private final LaunchedPrograms programs;
    private final ImageWorker images;
    private final Restorer restorer;
    private final StandIns standIns;
    private final HostLevels levels;
    private final PublishedStore fetched;
    private final Supplier<Set<Long>> roots;
    private final RestoreStreams otherwise;

    private volatile Prepared prepared;
    private volatile Thread restoring;
    private volatile RestoredJob running;

    /** What is to come back on this host. */
    private record Prepared(Path folder, Manifest own, Relocation relocation) {
    }

    /**
     * @param fetched what the coordinator has sent for all ranks of this host
     * @param roots the processes here that were launched, or are ranks
     * @param otherwise what restored processes write to where no launching command is
     */
    LocalRecovery(final AgentOptions options, final EventLog log, final LocalRanks ranks, final LaunchedPrograms programs,
            final ImageWorker images, final Restorer restorer, final StandIns standIns, final HostLevels levels,
            final PublishedStore fetched, final Supplier<Set<Long>> roots, final RestoreStreams otherwise) {
        this.options = options;
        this.log = log;
        this.ranks = ranks;
        this.programs = programs;
        this.images = images;
        this.restorer = restorer;
        this.standIns = standIns;
        this.levels = levels;
        this.fetched = fetched;
        this.roots = roots;
        this.otherwise = otherwise;
    }

    /** Whether processes that were restored here end with this agent. */
    boolean hasRestored() {
        return running != null;
    }

    /** Whether a restore has been asked for and is not over. */
    boolean isUnderWay() {
        return prepared != null;
    }

    /** Sends the signal to what was restored here. */
    void signal(final int signal) {
        final RestoredJob job = running;
        if (job != null) {
            job.signal(signal);
        }
    }

    // ---- the end of what is left ----

    /** A restore that goes on is to come to an end, whatever that is. For any thread; {@link #end} is to follow. */
    void giveUp(final String why) {
        standIns.endedByAgent();
        restorer.fail(why);
        final Thread thread = restoring;
        if (thread != null) {
            thread.interrupt();
        }
    }

    /** Ends all processes of the job on this host, and forgets them. Returns what could not be done, or an empty text. */
    String end() {
        String problem = "";
        try {
            problem = images.kill();
            awaitRestore();
            final RestoredJob job = running;
            final boolean gone = images.terminate(ImageWorker.SIGKILL, roots.get(), log);
            if (job != null) {
                job.close();
            }
            if (!gone && problem.isEmpty()) {
                problem = "some process of the job does not end";
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            problem = "interrupted";
        }
        running = null;
        prepared = null;
        restorer.forget();
        programs.clear();
        ranks.clear();
        fetched.removeAll("");
        try {
            ReceiverRegister.clear(options.runDirectory());
            JobBackend.forget(options.socket());
            AddressBook.forget(options.socket());
        } catch (IOException e) {
            log.add("after the end of the job's processes: " + e);
        }
        return problem;
    }

    private void awaitRestore() throws InterruptedException {
        final Thread thread = restoring;
        if (thread != null) {
            thread.join(RESTORE_ENDS.toMillis());
        }
    }

    // ---- the restore ----

    /** Learns what is to come back here. Returns the answer to the coordinator. */
    Message prepare(final Recover m, final String job) {
        try {
            final Path folder = Path.of(m.folder());
            refuseForeign(folder);
            final Manifest manifest = ManifestFile.read(folder);
            for (final String base : manifest.bases()) {
                refuseForeign(folder.resolveSibling(base).toRealPath());
            }
            if (!manifest.checksum().equals(m.checksum())) {
                throw new IOException("this host sees another checkpoint at " + folder);
            }
            final List<Manifest.HostPart> portions = Portions.of(manifest);
            final List<Relocation.Target> targets = new ArrayList<>();
            for (final Share s : m.shares()) {
                targets.add(new Relocation.Target(s.host(),
                        s.addresses().stream().map(a -> new HostAddress(a.device(), a.address())).toList(),
                        Portions.only(manifest, s.portions().stream().map(portions::get).toList())));
            }
            final Relocation relocation = Relocation.of(manifest, targets);
            if (!relocation.problem().isEmpty()) {
                throw new IOException(relocation.problem());
            }
            final Manifest own = targets.get(m.own()).share();
            ranks.expect(own, manifest.backend() == null ? Verdict.SAME_BACKEND : manifest.backend());
            findLaunched(own, job);
            levels.expect(m.local(), m.holders());
            prepared = new Prepared(folder, own, relocation);
            return new Recovering(m.epoch(), ranks.welcomed().stream().map(LocalRank::member).toList());
        } catch (IOException | RuntimeException e) {
            return new StepFailed(m.epoch(), "RECOVER", String.valueOf(e.getMessage()));
        }
    }

    private static void refuseForeign(final Path folder) throws IOException {
        final String foreign = PrivateFiles.contentProblem(folder);
        if (!foreign.isEmpty()) {
            throw new IOException("another user could have written this checkpoint: " + foreign);
        }
    }

    /** Processes that have not used verbs yet look for their agent where they were launched. */
    private void findLaunched(final Manifest own, final String job) {
        own.hosts().stream().flatMap(part -> part.trees().stream()).map(Manifest.TreePart::agent).filter(Objects::nonNull)
                .distinct().map(Path::of).forEach(place -> {
                    try {
                        AgentPlace.move(place, job, options.socket());
                    } catch (IOException e) {
                        log.add("processes that have not used verbs yet will not find this agent: " + place + ": " + e);
                    }
                });
    }

    /** Restores what was prepared, in the background; the coordinator hears what has come of it. */
    void restore() {
        final Prepared now = prepared;
        final Thread thread = Thread.ofPlatform().daemon().name("recovery").unstarted(() -> restore(now));
        restoring = thread;
        thread.start();
    }

    private void restore(final Prepared now) {
        try {
            running = restorer.restore(now.folder(), now.own(), now.relocation(), (number, target) -> {
                final Path path = standIns.descriptor(number, target);
                return path == null ? otherwise.of(number, target) : path;
            }, () -> { });
            log.add("restored " + now.own().ranks() + " ranks of " + now.folder());
        } catch (CheckpointException | RuntimeException e) {
            log.add("not restored: " + e.getMessage()); // the coordinator has been told
        } finally {
            restoring = null;
        }
    }

    /** The restored ranks of all hosts run. */
    void runs() {
        prepared = null;
    }
}
