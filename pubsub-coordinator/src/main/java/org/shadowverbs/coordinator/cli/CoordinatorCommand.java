// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.server.Coordinator;
import org.shadowverbs.coordinator.server.CoordinatorOptions;
import org.shadowverbs.coordinator.store.ChronicleStore;
import org.shadowverbs.coordinator.store.LazyStore;
import org.shadowverbs.coordinator.store.PublishedStore;

/** {@code coordinator}: in the foreground, or with {@code --daemon} as a process of its own. */
final class CoordinatorCommand {
    private static final int DEFAULT_KEEP = 2;
    private static final int DEFAULT_DEADLINE_SECONDS = 60;

    private final Map<String, String> environment;

    CoordinatorCommand(final Map<String, String> environment) {
        this.environment = environment;
    }

    int run(final List<String> args) throws UsageException, CommandException {
        final Arguments a = Arguments.parse("coordinator", args,
                Set.of("--port", "--port-file", "--address", "-i", "--ckptdir", "--keep", "--deadline"),
                Set.of("--daemon", "--exit-on-last", "--recover", "--train"));
        a.noOperands("coordinator");
        if (a.has("--train")) {
            return Training.run();
        }
        final int port = a.number("coordinator", "--port", Address.DEFAULT_PORT, 0, 65535);
        final int interval = a.number("coordinator", "-i", 0, 1, 1_000_000_000);
        final int keep = a.number("coordinator", "--keep", DEFAULT_KEEP, 1, 1_000_000);
        final int deadline = a.number("coordinator", "--deadline", DEFAULT_DEADLINE_SECONDS, 1, 86_400);
        final String portFile = a.value("--port-file", "");
        if (a.has("--daemon")) {
            return daemon(args, port);
        }
        try {
            return serve(a, port, portFile, interval, keep, deadline);
        } catch (IOException e) {
            throw new CommandException("coordinator: " + e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return 1;
        }
    }

    private int serve(final Arguments a, final int port, final String portFile, final int interval, final int keep,
            final int deadline) throws IOException, InterruptedException {
        final Path root = RunDirectory.root(environment);
        final String address = a.value("--address", "localhost");
        final String directory = a.value("--ckptdir", environment.getOrDefault("SHADOWVERBS_CKPTDIR", "."));
        // On other hosts nobody could read it: a job of several hosts has one when the user gives it.
        final boolean made = JobSecret.given(environment).isEmpty()
                && InetAddress.getByName(address).isLoopbackAddress();
        final String secret = made ? secret(root, port, a.has("--recover")) : JobSecret.given(environment);
        try (Coordinator coordinator = new Coordinator(new CoordinatorOptions(address, port,
                portFile.isEmpty() ? null : Path.of(portFile).toAbsolutePath(), root,
                Path.of(directory).toAbsolutePath().normalize(), Duration.ofSeconds(interval), keep,
                a.has("--exit-on-last"), secret, deadline, a.has("--recover")),
                run -> store(run, a.has("--recover")))) {
            if (made) {
                JobSecret.keep(coordinator.runDirectory(), secret);
            } else {
                JobSecret.forget(coordinator.runDirectory());
            }
            System.out.println("coordinator ready at port " + coordinator.port());
            System.out.close();
            Runtime.getRuntime().addShutdownHook(new Thread(coordinator::close));
            coordinator.await();
            return 0;
        }
    }

    /** A new one, or that of the coordinator in whose place this one is. */
    private static String secret(final Path root, final int port, final boolean recover) throws IOException {
        final String before = recover ? JobSecret.made(RunDirectory.make(root, port)) : "";
        return before.isEmpty() ? JobSecret.random() : before;
    }

    /** After a crash the file holds what had been published; a new job begins with an empty one. */
    private static PublishedStore store(final Path run, final boolean recover) {
        final Path file = run.resolve("published.map");
        try {
            if (!recover) {
                ChronicleStore.remove(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(file + " can't be removed", e);
        }
        return new LazyStore(() -> ChronicleStore.open(file), ChronicleStore.holdsValues(file));
    }

    private int daemon(final List<String> args, final int port) throws CommandException {
        final List<String> rest = new ArrayList<>(args);
        rest.remove("--daemon");
        final List<String> command = Installation.daemon("coordinator");
        command.addAll(rest);
        try {
            final Path root = RunDirectory.root(environment);
            System.out.println(Daemons.start("the coordinator", command,
                    RunDirectory.make(root, port).resolve("coordinator.err")));
            return 0;
        } catch (IOException e) {
            throw new CommandException("coordinator: " + e.getMessage());
        }
    }
}
