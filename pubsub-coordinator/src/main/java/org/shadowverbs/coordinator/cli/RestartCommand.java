// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.agent.Agent;
import org.shadowverbs.coordinator.agent.RestoredJob;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestException;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.Criu;
import org.shadowverbs.coordinator.process.Finding;
import org.shadowverbs.coordinator.process.ProcessCheckpointer;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.server.Sizes;

/**
 * {@code restart}: brings a job back and stays in the foreground until it ends. This process is the job's agent on this
 * host; the restored processes end with it, in whatever way it ends.
 */
final class RestartCommand {
    private static final int JOIN_MILLIS = 30_000;
    private static final Duration ONE_LOOK = Duration.ofHours(1);

    private final Map<String, String> environment;

    RestartCommand(final Map<String, String> environment) {
        this.environment = environment;
    }

    int run(final List<String> args) throws UsageException, CommandException {
        final Arguments a = Arguments.parse("restart", args, Set.of("-h", "-p", "-i", "--backend", "--hosts", "--from"),
                Set.of());
        if (a.operands().size() != 1) {
            throw new UsageException("restart: one checkpoint folder is to be named (see shadowverbs help restart)");
        }
        final String backend = Backends.ofRestart("restart", a);
        final int interval = a.number("restart", "-i", 0, 1, 1_000_000_000);
        final int hosts = a.number("restart", "--hosts", 1, 1, 1_000_000);
        final List<String> from = a.has("--from") ? List.of(a.value("--from", "").split(",")) : List.of();
        final Address wanted = Address.of("restart", a, environment);
        if (hosts > 1 && !wanted.named()) {
            throw new UsageException("restart: --hosts needs the coordinator that all of them join: -h HOST -p PORT");
        }
        if (hosts == 1 && !from.isEmpty()) {
            throw new UsageException("restart: --from needs --hosts: how many hosts share the checkpoint");
        }
        try {
            final Path folder = CheckpointFolder.resolve(Path.of(a.operands().getFirst()));
            final Manifest manifest = ManifestFile.read(folder);
            return hosts == 1 ? alone(wanted, backend, interval, folder, manifest)
                    : shared(wanted, backend, hosts, from, folder, manifest);
        } catch (ManifestException e) {
            throw new CommandException("restart: " + e.getMessage());
        } catch (IOException e) {
            throw new CommandException("restart: " + e);
        }
    }

    private int alone(final Address wanted, final String backend, final int interval, final Path folder,
            final Manifest manifest) throws CommandException, IOException {
        final long start = System.nanoTime();
        final ProcessCheckpointer checkpointer = new Criu();
        final String problem = problem(checkpointer, folder, manifest);
        if (!problem.isEmpty()) {
            throw new CommandException("restart: " + problem);
        }
        final List<String> coordinator = new ArrayList<>();
        final Address address = coordinator(wanted, interval, folder, coordinator);
        refuseSecondAgent(address);
        return restore(address, backend, coordinator, checkpointer, folder, manifest, null, start);
    }

    /** One of several hosts: the coordinator says what this one is to restore, and when. */
    private int shared(final Address wanted, final String backend, final int hosts, final List<String> from,
            final Path folder, final Manifest manifest) throws CommandException, IOException {
        final Address address = coordinator(wanted, 0, folder, new ArrayList<>());
        refuseSecondAgent(address);
        final ProcessCheckpointer checkpointer = new Criu();
        try (SharedRestart shared = SharedRestart.join(address, AgentCommand.hostName(), hosts, from, folder, manifest)) {
            final Manifest share = shared.share();
            final long start = System.nanoTime();
            final String problem = problem(checkpointer, folder, share);
            if (!problem.isEmpty()) {
                shared.fail(problem);
                throw new CommandException("restart: " + problem);
            }
            return restore(address, backend, List.of(), checkpointer, folder, share, shared, start);
        }
    }

    /** The first thing that stands in the way of restoring it here, or an empty string. */
    private static String problem(final ProcessCheckpointer checkpointer, final Path folder, final Manifest manifest) {
        for (final Manifest.HostPart part : manifest.hosts()) {
            final List<Finding> findings = checkpointer.verify(folder.resolve(part.directory()), part.images());
            if (!findings.isEmpty()) {
                return findings.getFirst() + (findings.size() > 1 ? " (and " + (findings.size() - 1) + " more)" : "");
            }
        }
        return "";
    }

    private void refuseSecondAgent(final Address address) throws CommandException, IOException {
        if (Daemons.answers(RunDirectory.agentSocket(RunDirectory.make(RunDirectory.root(environment), address.host(),
                address.port())))) {
            throw new CommandException("restart: the coordinator at " + address + " has an agent on this host already;"
                    + " name another coordinator, or none");
        }
    }

    /** @param shared null when the whole job comes back on this host */
    private static int restore(final Address address, final String backend, final List<String> coordinatorCommand,
            final ProcessCheckpointer checkpointer, final Path folder, final Manifest manifest,
            final SharedRestart shared, final long start) throws CommandException, IOException {
        try (Agent agent = new Agent(AgentCommand.options(address, backend, List.of(), coordinatorCommand),
                checkpointer, AgentCommand.store(address), manifest, folder)) {
            if (!agent.awaitJoined(JOIN_MILLIS)) {
                throw new CommandException("restart: " + (agent.refusal().isEmpty()
                        ? "no coordinator answers at " + address : agent.refusal()));
            }
            if (shared != null) {
                shared.await(agent.mayRestore());
            }
            try (RestoredJob job = agent.restore(manifest)) {
                for (final String signal : List.of("INT", "TERM", "HUP")) {
                    Signals.handle(signal, job::signal);
                }
                System.err.println("shadowverbs: restored " + manifest.ranks()
                        + (manifest.ranks() == 1 ? " rank, " : " ranks, ") + Sizes.bytes(manifest.bytes()) + ", in "
                        + Sizes.seconds(System.nanoTime() - start) + "; coordinator at port " + address.port());
                if (shared != null) {
                    shared.awaitRunning();
                }
                while (!job.await(ONE_LOOK)) {
                    continue; // a job takes as long as it takes
                }
                return job.status();
            }
        } catch (CheckpointException e) {
            throw new CommandException("restart: " + e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return 1;
        }
    }

    /** The coordinator to join: the one that was named, or one of our own, at the default port when that is free. */
    private Address coordinator(final Address wanted, final int interval, final Path folder,
            final List<String> restartCommand) throws CommandException, IOException {
        if (wanted.named()) {
            if (CoordinatorClient.ping(wanted).isEmpty()) {
                throw new CommandException("restart: no coordinator answers at " + wanted
                        + "; start it there with: shadowverbs coordinator --daemon --port " + wanted.port());
            }
            return wanted;
        }
        final List<String> flags = new ArrayList<>(List.of("--exit-on-last", "--ckptdir",
                folder.getParent().toString()));
        if (interval > 0) {
            flags.addAll(List.of("-i", Integer.toString(interval)));
        }
        final boolean free = CoordinatorClient.ping(wanted).isEmpty();
        final Path errors = RunDirectory.make(RunDirectory.root(environment), free ? wanted.port() : 0)
                .resolve("coordinator.err");
        final String ready = Daemons.start("the coordinator",
                Daemons.coordinatorCommand(free ? wanted.port() : 0, flags), errors);
        final int port = Integer.parseInt(ready.substring(ready.lastIndexOf(' ') + 1));
        restartCommand.addAll(Daemons.coordinatorCommand(port, flags));
        restartCommand.add("--recover");
        return new Address(wanted.host(), port, false, environment);
    }
}
