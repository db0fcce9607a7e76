// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.server.Coordinator;
import org.shadowverbs.coordinator.server.CoordinatorOptions;
import org.shadowverbs.coordinator.store.ChronicleStore;
import org.shadowverbs.coordinator.store.LazyStore;
import org.shadowverbs.coordinator.store.PublishedStore;

/** {@code coordinator}: in the foreground, or with {@code --daemon} as a process of its own. */
final class CoordinatorCommand extends CliCommand {
    private final Map<String, String> environment;
    private final Supplier<Integer> port = number(List.of("-p", "--port"), "PORT", 0, 65535, Address.DEFAULT_PORT,
            "port to listen at, 0 for any free one (7790)");
    private final Supplier<Path> portFile = path("--port-file", "FILE", "write the port there once it listens");
    private final Supplier<String> address = text(List.of("--address"), "ADDR", "localhost",
            "address to listen at (localhost); 0.0.0.0 for a job of several hosts");
    private final Supplier<Boolean> background = flag("--daemon", "in the background; returns when it is ready");
    private final Supplier<Boolean> exitOnLast = flag("--exit-on-last", "end with the last program of the job");
    private final Supplier<Path> ckptdir = checkpointDirectory();
    private final IntervalOptions interval = new IntervalOptions(this);
    private final ImageOptions images = new ImageOptions(this);
    private final RecoverOptions recovery = new RecoverOptions(this, "--recover-job");
    private final Supplier<Integer> keep = number(List.of("--keep"), "N", 1, 1_000_000, 2,
            "how many checkpoints of the job are kept (2), beside the one that it was restarted from");
    private final Supplier<Integer> deadline = number(List.of("--deadline"), "SECONDS", 1, 86_400, 60,
            "how long a phase of a checkpoint may take, saving and restoring images how long without anything being written or"
                    + " read (60)");
    private final Supplier<Boolean> recover = flag("--recover",
            "go on with the job of a coordinator that was lost at this port");

    CoordinatorCommand(final Map<String, String> environment) {
        super("runs the coordinator of a job");
        footer("SHADOWVERBS_SECRET must be the same for all of a job. A coordinator of one host makes one when it is not set, and"
                + " the other commands of its user find it there.");
        this.environment = environment;
    }

    @Override
    public Integer call() throws CommandException {
        if (background.get()) {
            return daemon();
        }
        try {
            return serve();
        } catch (IOException e) {
            throw new CommandException("coordinator: " + e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return 1;
        }
    }

    private int serve() throws CommandException, IOException, InterruptedException {
        final Path root = RunDirectory.root(environment);
        // On other hosts nobody could read it: a job of several hosts has one when the user gives it.
        final boolean made = JobSecret.given(environment).isEmpty()
                && InetAddress.getByName(address.get()).isLoopbackAddress();
        final String secret = made ? secret(root) : JobSecret.given(environment);
        try (Coordinator coordinator = new Coordinator(new CoordinatorOptions(address.get(), port.get(),
                portFile.get() == null ? null : portFile.get().toAbsolutePath(), root,
                CheckpointDirectory.of(ckptdir.get(), environment),
                interval.interval(), recovery.options(), keep.get(), images.choice(),
                exitOnLast.get(), secret, deadline.get(), recover.get()), this::store)) {
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
    private String secret(final Path root) throws IOException {
        final String before = recover.get() ? JobSecret.made(RunDirectory.make(root, port.get())) : "";
        return before.isEmpty() ? JobSecret.random() : before;
    }

    /** After a crash the file holds what had been published; a new job begins with an empty one. */
    private PublishedStore store(final Path run) {
        final Path file = run.resolve("published.map");
        try {
            if (!recover.get()) {
                ChronicleStore.remove(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(file + " can't be removed", e);
        }
        return new LazyStore(() -> ChronicleStore.open(file), ChronicleStore.holdsValues(file));
    }

    private int daemon() throws CommandException {
        final List<String> service = Installation.daemon("coordinator");
        service.addAll(argumentsOfDaemon());
        try {
            final Path root = RunDirectory.root(environment);
            System.out.println(Daemons.start("the coordinator", service,
                    RunDirectory.make(root, port.get()).resolve("coordinator.err")));
            return 0;
        } catch (IOException e) {
            throw new CommandException("coordinator: " + e.getMessage());
        }
    }
}
