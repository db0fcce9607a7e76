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
        final Arguments a = Arguments.parse("restart", args, Set.of("-h", "-p", "-i", "--backend"), Set.of());
        if (a.operands().size() != 1) {
            throw new UsageException("restart: one checkpoint folder is to be named (see shadowverbs help restart)");
        }
        final String backend = Backends.ofRestart("restart", a);
        final int interval = a.number("restart", "-i", 0, 1, 1_000_000_000);
        final Address wanted = Address.of("restart", a, environment);
        try {
            final Path folder = CheckpointFolder.resolve(Path.of(a.operands().getFirst()));
            final Manifest manifest = ManifestFile.read(folder);
            final ProcessCheckpointer checkpointer = new Criu();
            verify(checkpointer, folder, manifest);
            return restart(wanted, backend, interval, checkpointer, folder, manifest);
        } catch (ManifestException e) {
            throw new CommandException("restart: " + e.getMessage());
        } catch (IOException e) {
            throw new CommandException("restart: " + e);
        }
    }

    private static void verify(final ProcessCheckpointer checkpointer, final Path folder, final Manifest manifest)
            throws CommandException {
        for (final Manifest.HostPart part : manifest.hosts()) {
            final List<Finding> findings = checkpointer.verify(folder.resolve(part.directory()), part.images());
            if (!findings.isEmpty()) {
                throw new CommandException("restart: " + findings.getFirst() + (findings.size() > 1
                        ? " (and " + (findings.size() - 1) + " more)" : ""));
            }
        }
    }

    private int restart(final Address wanted, final String backend, final int interval,
            final ProcessCheckpointer checkpointer, final Path folder, final Manifest manifest)
            throws CommandException, IOException {
        final long start = System.nanoTime();
        final List<String> coordinator = new ArrayList<>();
        final Address address = coordinator(wanted, interval, folder, coordinator);
        if (Daemons.answers(RunDirectory.agentSocket(RunDirectory.make(RunDirectory.root(environment), address.host(),
                address.port())))) {
            throw new CommandException("restart: the coordinator at " + address + " has an agent on this host already;"
                    + " name another coordinator, or none");
        }
        try (Agent agent = new Agent(AgentCommand.options(address, backend, List.of(), coordinator),
                checkpointer, AgentCommand.store(address), manifest, folder)) {
            if (!agent.awaitJoined(JOIN_MILLIS)) {
                throw new CommandException("restart: " + (agent.refusal().isEmpty()
                        ? "no coordinator answers at " + address : agent.refusal()));
            }
            try (RestoredJob job = agent.restore(manifest)) {
                for (final String signal : List.of("INT", "TERM", "HUP")) {
                    Signals.handle(signal, job::signal);
                }
                System.err.println("shadowverbs: restored " + manifest.ranks()
                        + (manifest.ranks() == 1 ? " rank, " : " ranks, ") + Sizes.bytes(manifest.bytes()) + ", in "
                        + Sizes.seconds(System.nanoTime() - start) + "; coordinator at port " + address.port());
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
