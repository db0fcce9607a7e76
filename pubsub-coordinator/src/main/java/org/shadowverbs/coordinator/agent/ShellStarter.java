// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.RemoteShell;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.protocol.ShellMessages.Shell;
import org.shadowverbs.coordinator.protocol.ShellMessages.ShellFailed;
import org.shadowverbs.coordinator.protocol.ShellMessages.StartShell;

/**
 * Runs commands on this host for processes of others: by a {@code launch}, which stands in for the command in the job root. The launch
 * is this agent's child and of no tree.
 */
final class ShellStarter {
    private static final String LOOPBACK = "127.0.0.1";

    private final AgentOptions options;
    private final EventLog log;
    private final Consumer<Message> coordinator;
    private final String id;

    /** @param id this agent, as the coordinator knows it */
    ShellStarter(final AgentOptions options, final EventLog log, final Consumer<Message> coordinator, final String id) {
        this.options = options;
        this.log = log;
        this.coordinator = coordinator;
        this.id = id;
    }

    /** Starts it. The coordinator hears of it only when it can't be. */
    void start(final StartShell m) {
        try {
            final Path said = Files.createTempFile(options.runDirectory(), "shell-", ".err", PrivateFiles.FILE);
            try {
                launch(m, said).onExit().thenAccept(process -> ended(m, process.exitValue(), said));
            } catch (IOException | CheckpointException | RuntimeException e) {
                Files.deleteIfExists(said);
                throw e;
            }
        } catch (IOException | CheckpointException | RuntimeException e) {
            failed(m, e.getMessage());
        }
    }

    private Process launch(final StartShell m, final Path said) throws IOException, CheckpointException {
        final Shell shell = m.shell();
        // This process has a umask of its own.
        final ProcessBuilder builder = new ProcessBuilder("/bin/sh", "-c", "umask \"$0\" && exec \"$@\"",
                Integer.toOctalString(shell.umask() & 0777), RemoteShell.shadowverbs().toString(), "launch",
                "-h", options.coordinatorHost(), "-p", Integer.toString(options.coordinatorPort()), "--",
                RemoteShell.server().toString(), shell.command())
                .directory(folder(shell.directory()))
                .redirectInput(new File("/dev/null")).redirectOutput(said.toFile()).redirectError(said.toFile());
        final Map<String, String> environment = builder.environment();
        environment.clear();
        environment.putAll(HostEnvironment.here(shell.environment(), options.secret()));
        final List<String> callers = m.origin().equals(id) ? List.of(LOOPBACK) : m.callers();
        environment.put(RemoteShell.PLACE, shell.token() + " " + shell.port() + " " + String.join(" ", callers));
        log.add("for another host: " + shell.command());
        return builder.start();
    }

    /** That of the one that asks, as srun has it, if it is on this host, too. */
    private static File folder(final String directory) {
        return Stream.of(directory, System.getenv("HOME")).filter(Objects::nonNull).map(File::new).filter(File::isDirectory)
                .findFirst().orElse(new File("/"));
    }

    private void ended(final StartShell m, final int status, final Path said) {
        try {
            final List<String> lines = Files.readAllLines(said, StandardCharsets.UTF_8).stream().filter(line -> !line.isBlank()).toList();
            lines.forEach(line -> log.add("of a command for another host: " + line));
            if (status != 0) {
                failed(m, lines.isEmpty() ? "its launch ended with status " + status
                        : lines.getLast().replaceFirst("^shadowverbs: ", ""));
            }
            Files.deleteIfExists(said);
        } catch (IOException e) {
            failed(m, e.getMessage());
        }
    }

    private void failed(final StartShell m, final String problem) {
        coordinator.accept(new ShellFailed(m.id(), m.origin(), "on host " + options.host() + ": " + problem, false, ""));
    }
}
