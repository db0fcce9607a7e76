// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.shadowverbs.coordinator.process.UserCommands;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.HostMessages.TreeState;
import org.shadowverbs.coordinator.protocol.LaunchMessages.RegisterTree;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.ProgramEnded;

/**
 * The programs that were launched on this host and have not ended, and the settings that they were launched with. A file
 * has them, too, for an agent that is started anew. Guarded by the agent's lock, which every method takes.
 */
final class LaunchedPrograms {
    /** That the status of a process may be known later than its end. */
    private static final long STATUS_MILLIS = 2_000;

    private final ReentrantLock lock;
    private final EventLog log;
    private final CoordinatorLink coordinator;
    private final StandIns standIns;
    private final FarOutput output;
    private final TreeFile file;
    /** By the pid on this host of the process that was launched. */
    private final Map<Long, Tree> trees = new LinkedHashMap<>();
    private final Map<String, String> settings = new LinkedHashMap<>();

    LaunchedPrograms(final ReentrantLock lock, final AgentOptions options, final EventLog log,
            final CoordinatorLink coordinator, final StandIns standIns, final FarOutput output) {
        this.lock = lock;
        this.standIns = standIns;
        this.output = output;
        this.log = log;
        this.coordinator = coordinator;
        file = new TreeFile(options.runDirectory());
    }

    /** Takes over those of an agent that was lost. */
    void findRunning() throws IOException {
        lock.lock();
        try {
            for (final Tree tree : file.stillRunning()) {
                trees.put(tree.hostPid(), tree);
                restoredBy(UserCommands.of(ProcFs.environment(tree.hostPid(), UserCommands.SAVE_VARIABLE),
                        ProcFs.environment(tree.hostPid(), UserCommands.RESTORE_VARIABLE)));
                ProcessWatch.start(tree.hostPid(), () -> ended(tree, null));
            }
        } finally {
            lock.unlock();
        }
    }

    /** Those that are saved by commands of their user will be so again. @param commands null: they are not */
    void restoredBy(final UserCommands commands) {
        lock.lock();
        try {
            settings.putAll(commands == null ? Map.of() : commands.settings());
        } finally {
            lock.unlock();
        }
    }

    /** Those by which the user has the programs saved; null: there are none. */
    UserCommands commands() {
        lock.lock();
        try {
            return UserCommands.of(settings);
        } finally {
            lock.unlock();
        }
    }

    /**
     * A program is launched: its process tells of it before it becomes the program.
     *
     * @return why it can't be one of the job's, or an empty text
     */
    String register(final RegisterTree m) throws IOException {
        lock.lock();
        try {
            if (!trees.isEmpty() && !Objects.equals(UserCommands.of(settings), UserCommands.of(m.settings()))) {
                return "programs of this job run on this host that were launched "
                        + (commands() == null ? "without --save and --restore"
                        : "with --save '" + commands().save() + "' --restore '" + commands().restore() + "'")
                        + "; all programs of a job on a host are saved in one way";
            }
            if (trees.isEmpty()) {
                settings.remove(UserCommands.SAVE);
                settings.remove(UserCommands.RESTORE);
            }
            settings.putAll(m.settings());
            add(new Tree(m.pid(), m.argv(), m.cwd()), m.settings(), null);
        } finally {
            lock.unlock();
        }
        log.add("launched: pid " + m.pid() + " " + String.join(" ", m.argv()));
        return "";
    }

    /** A program has come back on this host. @param status how it will have ended */
    void restored(final Tree tree, final CompletableFuture<Integer> status) throws IOException {
        add(tree, Map.of(), status);
    }

    private void add(final Tree tree, final Map<String, String> asked, final CompletableFuture<Integer> status) throws IOException {
        lock.lock();
        try {
            trees.put(tree.hostPid(), tree);
            file.write(trees.values());
            coordinator.send(new TreeState(tree, true, asked));
            ProcessWatch.start(tree.hostPid(), () -> ended(tree, status));
        } finally {
            lock.unlock();
        }
    }

    /** How it has ended is said before, by the launching commands that stood in for it, or here. */
    private void ended(final Tree tree, final CompletableFuture<Integer> status) {
        final Integer known = status == null ? null : status.copy().completeOnTimeout(null, STATUS_MILLIS, TimeUnit.MILLISECONDS).join();
        if (status == null) {
            standIns.awaitStatuses(Duration.ofMillis(STATUS_MILLIS));
        } else {
            flush();
        }
        lock.lock();
        try {
            if (trees.remove(tree.hostPid(), tree)) {
                if (known != null) {
                    coordinator.send(new ProgramEnded(String.join(" ", tree.argv()), known));
                }
                coordinator.send(new TreeState(tree, false, Map.of()));
            }
        } finally {
            lock.unlock();
        }
    }

    /** Its last words come before its end. */
    private void flush() {
        try {
            output.flush(Duration.ofMillis(STATUS_MILLIS));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** They are no more, and that is no news to the coordinator. */
    void clear() {
        lock.lock();
        try {
            trees.clear();
            file.write(List.of());
        } catch (IOException e) {
            log.add("the file of launched programs: " + e);
        } finally {
            lock.unlock();
        }
    }

    List<Tree> all() {
        lock.lock();
        try {
            return List.copyOf(trees.values());
        } finally {
            lock.unlock();
        }
    }

    /** The pids of the processes that were launched. */
    Set<Long> pids() {
        lock.lock();
        try {
            return new LinkedHashSet<>(trees.keySet());
        } finally {
            lock.unlock();
        }
    }

    Map<String, String> settings() {
        lock.lock();
        try {
            return Map.copyOf(settings);
        } finally {
            lock.unlock();
        }
    }

    /** Removes the file: no agent is to be started anew. */
    void forget() throws IOException {
        file.remove();
    }
}
