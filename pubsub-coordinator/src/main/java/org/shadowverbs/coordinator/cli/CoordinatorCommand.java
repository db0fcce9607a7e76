// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.server.Coordinator;
import org.shadowverbs.coordinator.server.CoordinatorOptions;
import org.shadowverbs.coordinator.store.ChronicleStore;
import org.shadowverbs.coordinator.store.EmbeddedStore;
import org.shadowverbs.coordinator.store.JobStore;
import org.shadowverbs.coordinator.store.LazyStore;
import org.shadowverbs.coordinator.store.RedisStore;
import org.shadowverbs.coordinator.store.StorePlace;
import org.shadowverbs.coordinator.system.Autogroup;

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
    private final StoreOptions store = new StoreOptions(this, "what the job must not lose with this host is kept there, and another"
            + " host's agent starts a coordinator when this one is lost");
    private final Supplier<String> takeover = text(List.of("--takeover"), "JOB", null, "with --store: take the place of the job's"
            + " coordinator, once that has not been heard of for 5 s; agents do so by themselves");
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
        final StorePlace place = store.place(environment);
        if (place == null && takeover.get() != null) {
            throw new UsageException("coordinator: --takeover needs --store URI");
        }
        if (place != null && recover.get()) {
            throw new UsageException("coordinator: with --store a job goes on by --takeover JOB, not by --recover");
        }
        if (background.get()) {
            return daemon();
        }
        Autogroup.comeFirst();
        try {
            return serve(place);
        } catch (IOException e) {
            throw new CommandException("coordinator: " + e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return 1;
        }
    }

    private int serve(final StorePlace place) throws CommandException, IOException, InterruptedException {
        final Path root = RunDirectory.root(environment);
        // On other hosts nobody could read it: a job of several hosts has one when the user gives it.
        final boolean made = JobSecret.given(environment).isEmpty()
                && InetAddress.getByName(address.get()).isLoopbackAddress();
        final String secret = made ? secret(root) : JobSecret.given(environment);
        try (Coordinator coordinator = new Coordinator(new CoordinatorOptions(address.get(), freePort(),
                portFile.get() == null ? null : portFile.get().toAbsolutePath(), root,
                CheckpointDirectory.of(ckptdir.get(), environment),
                interval.interval(), recovery.options(), keep.get(), images.choice(),
                exitOnLast.get(), secret, deadline.get(), recover.get()), (run, job) -> place == null ? embedded(run)
                : RedisStore.open(place, takeover.get() == null ? job : takeover.get(), takeover.get() != null))) {
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
        final String before = recover.get() || takeover.get() != null ? JobSecret.made(RunDirectory.make(root, port.get())) : "";
        return before.isEmpty() ? JobSecret.random() : before;
    }

    /** Where the one before has listened, if nobody does on this host: users know that port. */
    private int freePort() {
        if (takeover.get() == null) {
            return port.get();
        }
        try (ServerSocket socket = new ServerSocket()) {
            socket.setReuseAddress(true);
            socket.bind(new InetSocketAddress(address.get(), port.get()));
            return port.get();
        } catch (IOException e) {
            return 0;
        }
    }

    /** After a crash the file holds what had been published; a new job begins with an empty one. */
    private JobStore embedded(final Path run) throws IOException {
        final Path file = run.resolve("published.map");
        if (!recover.get()) {
            ChronicleStore.remove(file);
        }
        return new EmbeddedStore(run, new LazyStore(() -> ChronicleStore.open(file), ChronicleStore.holdsValues(file)), recover.get());
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
