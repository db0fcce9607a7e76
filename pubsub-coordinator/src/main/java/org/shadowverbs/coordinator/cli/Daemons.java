// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.store.StorePlace;

/**
 * Starts coordinator and agent. A daemon writes one line to its standard output when it is ready and then closes that;
 * one that ends without has said why on its standard error.
 */
final class Daemons {
    private static final int START_SECONDS = 60;

    private final Map<String, String> environment;

    Daemons(final Map<String, String> environment) {
        this.environment = environment;
    }

    /** Starts one and returns its ready line. */
    static String start(final String what, final List<String> command, final Path errors) throws CommandException {
        return start(what, command, errors, Map.of());
    }

    /** @param more in its environment */
    static String start(final String what, final List<String> command, final Path errors, final Map<String, String> more)
            throws CommandException {
        // The daemon's parent ends at once; a shell stays for its ready line, since Java stops reading what a process
        // writes when that process, not the last one that holds the pipe, has ended.
        final List<String> piped = new ArrayList<>(List.of("/bin/sh", "-c", "\"$0\" \"$@\" | head -n 1"));
        piped.addAll(command);
        final Process process;
        try {
            PrivateFiles.makeEmpty(errors);
            final ProcessBuilder builder = new ProcessBuilder(piped)
                    .redirectInput(ProcessBuilder.Redirect.from(new File("/dev/null")))
                    .redirectError(errors.toFile());
            builder.environment().putAll(more);
            process = builder.start();
        } catch (IOException e) {
            throw new CommandException(what + " can't be started: " + e.getMessage());
        }
        final CompletableFuture<String> line = CompletableFuture.supplyAsync(() -> {
            try (BufferedReader out = new BufferedReader(
                    new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
                return out.readLine();
            } catch (IOException e) {
                return null;
            }
        });
        try {
            final String ready = line.get(START_SECONDS, TimeUnit.SECONDS);
            if (ready != null) {
                return ready;
            }
            final List<String> said = Files.readAllLines(errors);
            throw new CommandException(what + " did not start: " + (said.isEmpty() ? "it said nothing"
                    : said.getLast().replaceFirst("^shadowverbs: ", "")));
        } catch (TimeoutException e) {
            throw new CommandException(what + " was not ready within " + START_SECONDS + " s");
        } catch (InterruptedException | ExecutionException | IOException e) {
            throw new CommandException(what + " could not be waited for: " + e);
        }
    }

    /**
     * Sees to it that the coordinator of that port of this host runs, and the agent.
     *
     * @param store where the coordinator keeps what it must not lose; null: on this host
     * @return the agent's socket
     */
    Path ensure(final Address address, final List<String> coordinatorFlags, final StorePlace store) throws CommandException {
        try {
            final Path root = RunDirectory.root(environment);
            final Path directory = RunDirectory.make(root, address.host(), address.port());
            final Path socket = RunDirectory.agentSocket(directory);
            if (answers(socket)) {
                return socket;
            }
            // One of several simultaneous launches starts the daemons; the others find them.
            try (FileChannel file = FileChannel.open(directory.resolve("start.lock"),
                    Set.of(StandardOpenOption.CREATE, StandardOpenOption.WRITE), PrivateFiles.FILE);
                    FileLock lock = file.lock()) {
                if (lock.isValid() && !answers(socket)) {
                    startBoth(address, coordinatorFlags, store, directory);
                }
                return socket;
            }
        } catch (IOException e) {
            throw new CommandException(e.getMessage());
        }
    }

    private static void startBoth(final Address address, final List<String> coordinatorFlags, final StorePlace store,
            final Path directory)
            throws CommandException {
        final List<String> restart = coordinatorCommand(address.port(), coordinatorFlags);
        if (CoordinatorClient.ping(address).isEmpty()) {
            start("the coordinator", restart, directory.resolve("coordinator.err"),
                    store == null ? Map.of() : store.environment());
        }
        final List<String> agent = new ArrayList<>(Installation.daemon("agent", "-h", address.host(), "-p",
                Integer.toString(address.port()), "--"));
        if (!address.named() && store == null) {
            agent.addAll(restart);
            agent.add("--recover");
        }
        start("the agent", agent, directory.resolve("agent.err"));
    }

    static List<String> coordinatorCommand(final int port, final List<String> flags) throws CommandException {
        final List<String> command = Installation.daemon("coordinator", "--port", Integer.toString(port));
        command.addAll(flags);
        return command;
    }

    /** Whether an agent listens there: a socket file alone may be that of a dead one. */
    static boolean answers(final Path socket) {
        if (!Files.exists(socket)) {
            return false;
        }
        try (FrameChannel channel = FrameChannel.connect(socket)) {
            return channel.isOpen();
        } catch (IOException e) {
            return false;
        }
    }
}
