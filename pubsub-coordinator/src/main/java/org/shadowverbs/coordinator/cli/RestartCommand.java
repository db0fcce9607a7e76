// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.agent.Agent;
import org.shadowverbs.coordinator.agent.RestoredJob;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.coordinator.levels.Resolution;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestException;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.manifest.Relocation;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.ChosenCheckpointer;
import org.shadowverbs.coordinator.process.Criu;
import org.shadowverbs.coordinator.process.Finding;
import org.shadowverbs.coordinator.process.HostAddress;
import org.shadowverbs.coordinator.process.ProcessCheckpointer;
import org.shadowverbs.coordinator.process.Progress;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.JobEnded;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.server.Sizes;
import org.shadowverbs.ib2tcp.system.Limits;

/**
 * {@code restart}: brings a job back and stays in the foreground until it ends. This process is the job's agent on this
 * host; the restored processes end with it, in whatever way it ends.
 */
final class RestartCommand extends CliCommand {
    private static final int JOIN_MILLIS = 30_000;
    private static final Duration ONE_LOOK = Duration.ofHours(1);
    private static final Duration AGENT_ENDS = Duration.ofSeconds(30);
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, String> environment;
    private final AddressOptions coordinator = new AddressOptions(this);
    private final IntervalOptions interval = new IntervalOptions(this);
    private final ImageOptions images = new ImageOptions(this);
    private final Backends backends = new Backends(this, "the one that the job had", "what the job had");
    private final Supplier<Integer> hosts = number(List.of("--hosts"), "N", 1, 1_000_000, 1, "this is one of N hosts that share"
            + " the job; restart is run on each, with the same -h and -p, and waits for the others");
    private final Supplier<List<String>> from = list("--from", "HOST,...",
            "take over what ran on these hosts (what ran on this one, or is left)");
    private final Supplier<String> directory = operand("CKPTDIR", "1", "the checkpoint");

    RestartCommand(final Map<String, String> environment) {
        super("brings a job back from a checkpoint", "From its folder, from a directory of checkpoints or from its \"latest\"."
                + " Stays in the foreground until the job ends; INT, TERM and HUP are passed on to the job.");
        footer("exit status: that of the job, or of this host's part of it");
        this.environment = environment;
    }

    @Override
    public Integer call() throws CommandException {
        final String named = backends.ofRestart();
        final Address wanted = coordinator.address(environment);
        if (hosts.get() > 1 && !wanted.named()) {
            throw new UsageException("restart: --hosts needs the coordinator that all of them join: -h HOST -p PORT");
        }
        if (hosts.get() == 1 && !from.get().isEmpty()) {
            throw new UsageException("restart: --from needs --hosts: how many hosts share the checkpoint");
        }
        try {
            final Path folder = CheckpointFolder.resolve(Path.of(directory.get()));
            refuseForeign(folder);
            final Manifest manifest = ManifestFile.read(folder);
            final String backend = backends.ofRestart(named, manifest);
            checkBases(folder, manifest);
            checkLimits(backend, manifest);
            return hosts.get() == 1 ? alone(wanted, backend, folder, manifest) : shared(wanted, backend, folder, manifest);
        } catch (ManifestException e) {
            throw new CommandException("restart: " + e.getMessage());
        } catch (IOException e) {
            throw new CommandException("restart: " + e);
        }
    }

    /**
     * Whoever can write the images chooses what the restored processes do, and as whom. The folder is a real path, so what is
     * found safe here stays so until it is read.
     */
    private static void refuseForeign(final Path folder) throws CommandException, IOException {
        final String problem = PrivateFiles.contentProblem(folder);
        if (!problem.isEmpty()) {
            throw new CommandException("restart: another user could have written this checkpoint, and would run what he likes"
                    + " as user " + System.getProperty("user.name") + ": " + problem + ". If you trust what is in it, restart a"
                    + " copy: (umask 077; cp -R " + folder + " FOLDER), FOLDER in a place that only you can write");
        }
    }

    /** What it builds on is read as it is itself. */
    private static void checkBases(final Path folder, final Manifest manifest) throws CommandException, IOException {
        for (final String base : manifest.bases()) {
            final Path path = folder.resolveSibling(base);
            if (!Files.isDirectory(path)) {
                throw new CommandException("restart: " + folder + " has only what was written to since " + base
                        + ", which is not beside it");
            }
            refuseForeign(path.toRealPath());
        }
    }

    /** What ranks have used and the device does not have is said before anything is restored. */
    private static void checkLimits(final String backend, final Manifest manifest) throws CommandException {
        if (!BackendName.overTcp(backend)) {
            final String problem = backend.equals(BackendName.HCA) || manifest.needs().stream()
                    .noneMatch(needs -> needs.device().equals(BackendName.TCP_DEVICE)) ? HostDevices.problem(manifest) : "";
            if (!problem.isEmpty()) {
                throw new CommandException("restart: " + problem);
            }
            return;
        }
        for (final Needs needs : manifest.needs()) {
            final String beyond = needs.beyond(Limits.byName(), BackendName.TCP, false);
            if (!beyond.isEmpty()) {
                throw new CommandException("restart: rank " + needs.rank() + ": " + beyond);
            }
        }
    }

    private int alone(final Address wanted, final String backend, final Path folder, final Manifest manifest)
            throws CommandException, IOException {
        final long start = System.nanoTime();
        final ProcessCheckpointer checkpointer = new Criu();
        final String problem = problem(checkpointer, folder, manifest);
        if (!problem.isEmpty()) {
            throw new CommandException("restart: " + problem);
        }
        final List<String> coordinatorCommand = new ArrayList<>();
        final Address address = coordinator(wanted, folder, coordinatorCommand);
        takeAgentsPlace(address);
        final Relocation relocation = Relocation.of(manifest,
                List.of(new Relocation.Target(AgentCommand.hostName(), HostAddress.ofThisHost(), manifest)));
        requirePossible(relocation);
        return restore(address, backend, coordinatorCommand, checkpointer, folder, manifest, relocation, null, start);
    }

    /** One of several hosts: the coordinator says what this one is to restore, and when. */
    private int shared(final Address wanted, final String backend, final Path folder, final Manifest manifest)
            throws CommandException, IOException {
        final Address address = coordinator(wanted, folder, new ArrayList<>());
        takeAgentsPlace(address);
        final ProcessCheckpointer checkpointer = new Criu();
        try (SharedRestart shared = SharedRestart.join(address, AgentCommand.hostName(), hosts.get(), from.get(), folder, manifest)) {
            final SharedRestart.Shared share = shared.share();
            final long start = System.nanoTime();
            final String problem = share.relocation().problem().isEmpty() ? problem(checkpointer, folder, share.own())
                    : share.relocation().problem();
            if (!problem.isEmpty()) {
                shared.fail(problem);
                throw new CommandException("restart: " + problem);
            }
            return restore(address, backend, List.of(), checkpointer, folder, share.own(), share.relocation(), shared, start);
        }
    }

    private static void requirePossible(final Relocation relocation) throws CommandException {
        if (!relocation.problem().isEmpty()) {
            throw new CommandException("restart: " + relocation.problem());
        }
    }

    /** The first thing that stands in the way of restoring it here, or an empty string. */
    private static String problem(final ProcessCheckpointer checkpointer, final Path folder, final Manifest manifest)
            throws IOException {
        final Resolution levels = levels(folder, manifest, line -> System.err.println("shadowverbs: " + line));
        for (final Manifest.HostPart part : manifest.hosts()) {
            final Path directory;
            try {
                directory = levels.find(part).directory();
            } catch (CheckpointException e) {
                return e.getMessage();
            }
            final List<Finding> findings = new ChosenCheckpointer(checkpointer, () -> null).verify(directory, part.images());
            if (!findings.isEmpty()) {
                return findings.getFirst() + (findings.size() > 1 ? " (and " + (findings.size() - 1) + " more)" : "");
            }
        }
        return "";
    }

    /** Where this host finds the images; from others nothing can be fetched, as no agent is there. */
    static Resolution levels(final Path folder, final Manifest manifest, final Consumer<String> user) throws IOException {
        return new Resolution(folder, Resolution.read(folder, manifest, user), AgentCommand.hostName(), (copy, part) -> null, user,
                Progress.UNTOLD);
    }

    /** This process will be the agent of this host. */
    private void takeAgentsPlace(final Address address) throws CommandException, IOException {
        final Path socket = RunDirectory.agentSocket(RunDirectory.make(RunDirectory.root(environment), address.host(),
                address.port()));
        final String problem = new FormerAgent(socket, AgentCommand.hostName(), () -> status(address)).end(AGENT_ENDS);
        if (!problem.isEmpty()) {
            throw new CommandException("restart: the coordinator at " + address + " has an agent on this host already, " + problem
                    + "; end it with: shadowverbs quit -h " + address.host() + " -p " + address.port()
                    + "; or name another coordinator, or none");
        }
    }

    private static JsonNode status(final Address address) throws CommandException, IOException {
        try {
            return JSON.readTree(CoordinatorClient.call(address, "status", Map.of(), AGENT_ENDS.toMillis(), line -> { }).json());
        } catch (CoordinatorClient.Unreachable e) {
            throw new CommandException("restart: " + e.getMessage());
        }
    }

    /** @param shared null when the whole job comes back on this host */
    private static int restore(final Address address, final String backend, final List<String> coordinatorCommand,
            final ProcessCheckpointer checkpointer, final Path folder, final Manifest manifest, final Relocation relocation,
            final SharedRestart shared, final long start) throws CommandException, IOException {
        try (Agent agent = new Agent(AgentCommand.options(address, backend, List.of(), false, coordinatorCommand),
                checkpointer, AgentCommand.store(address), manifest, folder)) {
            if (!agent.awaitJoined(JOIN_MILLIS)) {
                throw new CommandException("restart: " + (agent.refusal().isEmpty()
                        ? address.nobodyAnswers() : agent.refusal()));
            }
            if (shared != null) {
                shared.await(agent.mayRestore());
            }
            try (RestoredJob job = agent.restore(manifest, relocation)) {
                for (final String signal : List.of("INT", "TERM", "HUP")) {
                    Signals.handle(signal, job::signal);
                }
                SharedRestart.awaitRunning(agent.running(), shared);
                System.err.println("shadowverbs: restored " + manifest.ranks()
                        + (manifest.ranks() == 1 ? " rank, " : " ranks, ") + Sizes.bytes(manifest.bytes()) + ", in "
                        + Sizes.seconds(System.nanoTime() - start) + "; coordinator at port " + address.port());
                while (!job.await(ONE_LOOK)) {
                    continue; // a job takes as long as it takes
                }
                final CompletableFuture<Integer> whole = agent.jobEnded();
                final int status = whole == null ? JobEnded.NOBODY_KNOWS : whole.join();
                return status == JobEnded.NOBODY_KNOWS ? job.status() : status;
            }
        } catch (CheckpointException e) {
            throw new CommandException("restart: " + e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return 1;
        }
    }

    /** The coordinator to join: the one that was named, or one of our own, at the default port when that is free. */
    private Address coordinator(final Address wanted, final Path folder, final List<String> restartCommand)
            throws CommandException, IOException {
        if (wanted.named()) {
            if (CoordinatorClient.ping(wanted).isEmpty()) {
                throw new CommandException("restart: " + wanted.nobodyAnswers() + "; start it there with: " + wanted.start());
            }
            return wanted;
        }
        final List<String> flags = new ArrayList<>(List.of("--exit-on-last", "--ckptdir",
                folder.getParent().toString()));
        flags.addAll(interval.flags());
        flags.addAll(images.flags());
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
