// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.agent.Agent;
import org.shadowverbs.coordinator.agent.AgentOptions;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.process.Criu;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.server.Coordinator;
import org.shadowverbs.coordinator.server.CoordinatorOptions;
import org.shadowverbs.coordinator.server.ImageChoice;
import org.shadowverbs.coordinator.server.Interval;
import org.shadowverbs.coordinator.server.RecoveryOptions;
import org.shadowverbs.coordinator.store.ChronicleStore;
import org.shadowverbs.coordinator.store.EmbeddedStore;

/**
 * Loads what the commands need, once, while the build records an AOT cache of it; {@code tools/train.sh} starts it. Without a
 * cache they start as well, only slower.
 */
final class Training {
    private Training() {
    }

    /**
     * @param args {@code service}; or {@code commands} and the arguments of a launch, which comes last, for it does not come back
     *     where it is done
     */
    public static void main(final String[] args) throws IOException, InterruptedException, CommandException {
        final Path root = Files.createTempDirectory("shadowverbs-training");
        int status = 0;
        try {
            if (args[0].equals("service")) {
                coordinatorAndAgent(root);
                manifest(root);
                Main.line(Map.of());
            } else {
                // No JSON, as list uses it: every command loads all classes of the cache.
                Main.run(List.of("status"), System.getenv());
                status = Main.run(List.of(args).subList(1, args.length), System.getenv());
            }
        } finally {
            remove(root);
        }
        System.exit(status);
    }

    private static void coordinatorAndAgent(final Path root)
            throws IOException, InterruptedException, CommandException {
        try (Coordinator coordinator = new Coordinator(new CoordinatorOptions("localhost", 0, null, root, root,
                Interval.NONE, RecoveryOptions.NONE, 2, ImageChoice.USUAL, false, "", 10, false),
                (run, job) -> new EmbeddedStore(run, open(run.resolve("published.map")), false))) {
            final Address address = new Address("localhost", coordinator.port(), true,
                    Map.of("SHADOWVERBS_RUN_DIR", root.toString()));
            final TrainingJob job = new TrainingJob(address, Files.createDirectory(root.resolve("job")));
            final Path saved = withAgent(coordinator, address, job);
            if (saved != null) {
                report(job.restore(saved));
            }
        } catch (CoordinatorClient.Unreachable e) {
            throw new CommandException("training: " + e.getMessage());
        }
    }

    /** @return the checkpoint of the job; null: none could be made here, which is reported */
    private static Path withAgent(final Coordinator coordinator, final Address address, final TrainingJob job)
            throws IOException, InterruptedException, CommandException, CoordinatorClient.Unreachable {
        final Path run = coordinator.runDirectory();
        try (Agent agent = new Agent(new AgentOptions("localhost", coordinator.port(), "training", run,
                RunDirectory.agentSocket(run), "", false, "hca", "", List.of(), false, List.of(), List.of()), new Criu(),
                open(run.resolve("fetched.map")))) {
            if (!agent.awaitJoined(30_000)) {
                throw new CommandException("training: the agent did not join within 30 s");
            }
            for (final String command : List.of("ping", "status", "checkpoint")) {
                final Result result = CoordinatorClient.call(address, command, Map.of(), 30_000, line -> { });
                if (result.json().isEmpty()) {
                    throw new CommandException("training: no answer to " + command);
                }
            }
            try {
                return job.save();
            } catch (CommandException | IOException e) {
                report(e.getMessage());
                return null;
            }
        }
    }

    /** What could not be done here the cache does without. @param problem may be empty */
    private static void report(final String problem) {
        if (!problem.isEmpty()) {
            System.err.println("training: " + problem);
        }
    }

    private static ChronicleStore open(final Path file) {
        try {
            final ChronicleStore store = ChronicleStore.open(file);
            store.put("key", new byte[100]);
            store.get("key");
            store.removeAll("k");
            return store;
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static void manifest(final Path root) throws IOException {
        final Manifest.HostPart part = new Manifest.HostPart("training", "host",
                List.of(new Manifest.RankPart(0, "uid", 1, "rank 0", "program", 1, 1)),
                List.of(new Manifest.TreePart(1, "rank 0", List.of("program"), "/", null, null)),
                new HostImages("", "training", "", "", List.of(), List.of(), 0, 0, 0), List.of());
        final Path place = CheckpointFolder.begin(root, "training", 1).commit(new Manifest(Manifest.SCHEMA, "training",
                1, 0L, null, "", false, 0, Map.of("SAVE", 1L), 1, 0,
                List.of(ManifestFile.hostPart(ManifestFile.toJson(part))),
                List.of(), Manifest.History.NONE, ""), () -> { });
        ManifestFile.read(place);
    }

    private static void remove(final Path root) throws IOException {
        try (Stream<Path> all = Files.walk(root)) {
            for (final Path p : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(p);
            }
        }
    }
}
