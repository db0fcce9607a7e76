// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.Relocation;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.RestoreStreams;
import org.shadowverbs.coordinator.protocol.HostMessages.Release;
import org.shadowverbs.coordinator.protocol.HostMessages.Released;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.ProgramEnded;

/** Brings back what of a checkpoint comes to this host, be it by a restart or by a recovery. One at a time. */
final class Restorer {
    private final ReentrantLock lock;
    private final AgentOptions options;
    private final CoordinatorLink coordinator;
    private final LocalRanks ranks;
    private final LaunchedPrograms programs;
    private final ImageWorker images;
    private final Supplier<Duration> deadline;
    /** What restored processes wait at; null: they do not. */
    private volatile HostGate gate;

    /**
     * @param lock the agent's
     * @param deadline how long nothing may be read
     */
    Restorer(final ReentrantLock lock, final AgentOptions options, final CoordinatorLink coordinator, final LocalRanks ranks,
            final LaunchedPrograms programs, final ImageWorker images, final Supplier<Duration> deadline) {
        this.lock = lock;
        this.options = options;
        this.coordinator = coordinator;
        this.ranks = ranks;
        this.programs = programs;
        this.images = images;
        this.deadline = deadline;
    }

    /**
     * Restores the processes of ranks that are {@link LocalRanks#expect expected}, and gives the ranks their verdict. They run when it
     * returns.
     *
     * @param folder the checkpoint's
     * @param manifest what of it comes back on this host
     * @param relocation of the whole job
     * @param streams where what they write goes
     * @param whenThere runs as soon as they are there, under the agent's lock
     * @throws CheckpointException when some cannot be; the coordinator is told, and none run
     */
    RestoredJob restore(final Path folder, final Manifest manifest, final Relocation relocation, final RestoreStreams streams,
            final Runnable whenThere) throws CheckpointException {
        final RestoredJob running;
        try {
            gate = relocation.connected() && !manifest.hosts().isEmpty()
                    ? new HostGate(ImageWorker.restores(manifest), () -> coordinator.send(new Thawed(ranks.epoch(), images.readNanos())))
                    : null;
            tellAddresses(relocation);
            running = images.restore(folder, manifest, ranks.welcomed(), deadline.get(), relocation, streams, gate);
        } catch (CheckpointException e) {
            coordinator.send(new StepFailed(ranks.epoch(), "THAW", e.getMessage()));
            throw e;
        }
        lock.lock();
        try {
            whenThere.run();
            for (final Manifest.HostPart part : manifest.hosts()) {
                for (final Manifest.TreePart t : part.trees()) {
                    final Long hostPid = running.hostPid(part, t.root());
                    if (hostPid != null) {
                        programs.restored(new Tree(hostPid, t.argv(), t.cwd()), running.exitStatus(part, t.root()));
                    } else if (running.exitStatus(part, t.root()) != null) {
                        // It has ended already.
                        running.exitStatus(part, t.root()).thenAccept(status -> coordinator.send(
                                new ProgramEnded(String.join(" ", t.argv()), status)));
                    }
                }
                ranks.restored(part, running);
            }
        } catch (IOException e) {
            running.close();
            throw new CheckpointException(e.getMessage(), e);
        } finally {
            lock.unlock();
        }
        coordinator.send(gate == null ? new Thawed(ranks.epoch(), images.readNanos()) : new Released(ranks.epoch()));
        return running;
    }

    /** Before any process runs that asks for it. */
    private void tellAddresses(final Relocation relocation) throws CheckpointException {
        try {
            final AddressBook book = AddressBook.of(relocation);
            if (book.routes().isEmpty()) {
                AddressBook.forget(options.socket());
            } else {
                book.write(options.socket());
            }
        } catch (IOException e) {
            throw new CheckpointException("the addresses of the job's hosts can't be told: " + e.getMessage(), e);
        }
    }

    /** The processes of all hosts are there. */
    void release(final Release m) {
        if (gate != null) {
            gate.open(); // and restore() answers when they run
        } else {
            coordinator.send(new Released(m.epoch()));
        }
    }

    /** Those of other hosts will not come. */
    void fail(final String why) {
        final HostGate here = gate;
        if (here != null && !why.isEmpty()) {
            here.fail(why);
        }
    }

    /** What was restored is no more. */
    void forget() {
        gate = null;
    }
}
