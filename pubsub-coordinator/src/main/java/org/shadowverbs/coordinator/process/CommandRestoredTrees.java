// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.system.Libc;

/** Trees that the user's commands have brought back. Each command runs as long as its tree, and ends with its status. */
final class CommandRestoredTrees implements RestoredTrees {
    /** Where the command writes the pid of the tree's topmost process when all of the tree is there. */
    static final String PID_FILE = "SHADOWVERBS_PID_FILE";
    /** Lines "OLD NEW": a FIFO that a process had open, and the one that it is to have open in its place. */
    static final String FIFOS = "SHADOWVERBS_FIFOS";

    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(5);
    private static final int SIGKILL = 9;
    private static final int SIGCONT = 18;

    private final UserCommands commands;
    private final RestoreRequest request;
    private final Map<String, Process> running = new LinkedHashMap<>();
    /** Also when the command has ended without waiting for it. */
    private final Map<String, ProcessHandle> tops = new LinkedHashMap<>();
    private final Map<String, Long> hostPids = new LinkedHashMap<>();
    private final Map<String, CompletableFuture<Integer>> exitStatuses = new LinkedHashMap<>();
    private final List<Long> restoreNanos = new ArrayList<>();

    private CommandRestoredTrees(final UserCommands commands, final RestoreRequest request) {
        this.commands = commands;
        this.request = request;
    }

    static CommandRestoredTrees restore(final UserCommands commands, final RestoreRequest request) throws CheckpointException {
        CommandRestoredTrees restored = new CommandRestoredTrees(commands, request);
        try {
            restored.restore();
            final CommandRestoredTrees result = restored;
            restored = null;
            return result;
        } catch (final IOException e) {
            throw new CheckpointException("restore: " + e.getMessage(), e);
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("restore: interrupted", e);
        } finally {
            if (restored != null) {
                restored.close();
            }
        }
    }

    private void restore() throws IOException, CheckpointException, InterruptedException {
        final Path work = Files.createTempDirectory("shadowverbs-restore-", PrivateFiles.FOLDER);
        try {
            final long start = System.nanoTime();
            for (final TreeImage tree : request.images().trees()) {
                start(tree, work);
            }
            for (final TreeImage tree : request.images().trees()) {
                arrive(tree, work);
                restoreNanos.add(System.nanoTime() - start);
            }
            if (request.gate() != null) {
                request.gate().arrived();
                while (!request.gate().await(Duration.ofMillis(100))) {
                    continue; // The gate has a deadline of its own.
                }
            }
        } finally {
            for (final TreeImage tree : request.images().trees()) {
                Files.deleteIfExists(pidFile(tree, work));
            }
            Files.delete(work);
        }
    }

    private static Path pidFile(final TreeImage tree, final Path work) {
        return work.resolve(tree.directory());
    }

    private void start(final TreeImage tree, final Path work) throws IOException, CheckpointException {
        final StringBuilder fifos = new StringBuilder();
        for (final ProcessImage process : tree.processes()) {
            for (final ExternalDescriptor pipe : process.externals()) {
                final Path now = request.pipes().get(pipe.inode());
                if (now == null) {
                    throw new CheckpointException(tree.name() + ": nothing was given in place of " + pipe.target());
                }
                fifos.append(pipe.target()).append(' ').append(now).append('\n');
            }
        }
        final Path folder = request.imageDirectory().resolve(tree.directory()).toAbsolutePath();
        // In a session of its own: signals to the group of this process are passed on to the tree, and must not end the command.
        final ProcessBuilder builder = new ProcessBuilder("setsid", CommandCheckpointer.SHELL.toString(), "-c", commands.restore())
                .directory(folder.toFile())
                .redirectInput(stream(0))
                .redirectOutput(stream(1))
                .redirectError(stream(2));
        builder.environment().putAll(Map.of(CommandFrozenTrees.PID, Long.toString(tree.rootPid()),
                CommandFrozenTrees.FOLDER, folder.toString(), PID_FILE, pidFile(tree, work).toString(),
                FIFOS, fifos.toString()));
        final Process process = builder.start();
        running.put(tree.name(), process);
        exitStatuses.put(tree.name(), process.onExit().thenApply(Process::exitValue));
    }

    /** What is this process's own is inherited: opened anew, it would be written to from the beginning. */
    private ProcessBuilder.Redirect stream(final int number) {
        final Path path = request.streams().of(number, "");
        if (path.equals(Path.of("/proc", Long.toString(ProcessHandle.current().pid()), "fd", Integer.toString(number)))) {
            return ProcessBuilder.Redirect.INHERIT;
        }
        return number == 0 ? ProcessBuilder.Redirect.from(path.toFile()) : ProcessBuilder.Redirect.appendTo(path.toFile());
    }

    /** Waits until a tree is there, and has all its processes run. */
    private void arrive(final TreeImage tree, final Path work) throws IOException, CheckpointException {
        final Path file = pidFile(tree, work);
        final String subject = tree.name() + ": the restore command ";
        final long deadline = System.nanoTime() + request.deadline().toNanos();
        String text = "";
        while (!text.endsWith("\n")) {
            // Asked first: what it has written before its end counts.
            final boolean ended = !running.get(tree.name()).isAlive();
            text = Files.exists(file) ? Files.readString(file) : "";
            if (!text.endsWith("\n")) {
                if (ended) {
                    throw new CheckpointException(subject + "has ended (status " + running.get(tree.name()).exitValue()
                            + ") and has not written the pid of what it has brought back to $" + PID_FILE);
                }
                if (System.nanoTime() - deadline > 0) {
                    throw new CheckpointException(subject + "has not written the pid of what it brings back to $" + PID_FILE
                            + " within " + request.deadline().toSeconds() + " s");
                }
                LockSupport.parkNanos(POLL_NANOS);
            }
        }
        if (!text.strip().matches("[1-9][0-9]{0,9}")) {
            throw new CheckpointException(subject + "has written no pid to $" + PID_FILE + ": " + text.strip());
        }
        final long top = Long.parseLong(text.strip());
        tops.put(tree.name(), ProcessHandle.of(top).orElseThrow(() -> new CheckpointException(subject
                + "has written pid " + top + " to $" + PID_FILE + ", which is not there")));
        final ProcessTree now = ProcessTree.outline(List.of(new ProcessRoot(tree.name(), top))).getFirst();
        final Map<Long, Long> byOwnPid = new LinkedHashMap<>();
        now.members().forEach(member -> byOwnPid.put(member.ids().ownPid(), member.ids().pid()));
        byOwnPid.put(tree.rootPid(), top);
        for (final ProcessImage process : tree.processes()) {
            final Long pid = byOwnPid.get(process.pid());
            if (pid == null && !process.root().isEmpty()) {
                throw new CheckpointException(process.root() + ": the restore command has not brought it back, or not as pid "
                        + process.pid() + " below " + top);
            }
            if (!process.root().isEmpty()) {
                hostPids.put(process.root(), pid);
            }
        }
        // They were saved while they were stopped.
        now.hostPids().forEach(pid -> Libc.signal(pid, SIGCONT));
    }

    @Override
    public Map<String, Long> hostPids() {
        return Map.copyOf(hostPids);
    }

    @Override
    public Map<String, CompletableFuture<Integer>> exitStatuses() {
        return Map.copyOf(exitStatuses);
    }

    @Override
    public List<Long> restoreNanos() {
        return List.copyOf(restoreNanos);
    }

    @Override
    public void signal(final int signal) {
        tops.values().stream().filter(ProcessHandle::isAlive).forEach(top -> Libc.signal(top.pid(), signal));
    }

    @Override
    public void close() {
        tops.forEach((name, top) -> {
            if (top.isAlive()) {
                try {
                    ProcessTree.outline(List.of(new ProcessRoot(name, top.pid()))).getFirst().hostPids()
                            .forEach(each -> Libc.signal(each, SIGKILL));
                } catch (final CheckpointException e) {
                    System.getLogger(CommandRestoredTrees.class.getName()).log(System.Logger.Level.DEBUG, "{0}", e.getMessage());
                }
            }
        });
        running.values().forEach(process -> {
            try {
                if (process.isAlive()) {
                    CriuCommand.end(process.toHandle());
                }
            } catch (final IOException e) {
                process.destroyForcibly();
            }
        });
    }
}
