// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;

/**
 * A job for the training of the services' AOT cache: two ranks on the software HCA under a coordinator of this process, which are
 * saved twice and restored. What an agent does for its first checkpoint is a thousand classes, most of them of calls of
 * native functions.
 */
final class TrainingJob {
    private static final int RANKS = 2;
    private static final long DEADLINE_MILLIS = 60_000;
    private static final long PAUSE_MILLIS = 50;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Address address;
    private final Path root;
    private final Path stop;

    /** @param root an empty folder, for its files */
    TrainingJob(final Address address, final Path root) {
        this.address = address;
        this.root = root;
        stop = root.resolve("stop");
    }

    /**
     * Launches it, saves it, and saves it once more to its end.
     *
     * @return the folder of the last checkpoint
     * @throws CommandException it could not be, and why; nothing of it is left
     * @throws IOException likewise
     */
    Path save() throws CommandException, CoordinatorClient.Unreachable, IOException, InterruptedException {
        final Path output = root.resolve("output");
        final ProcessBuilder launch = new ProcessBuilder(Installation.command().toString(), "launch", "-h", address.host(), "-p",
                Integer.toString(address.port()), "--backend", "hca", "--test-fabric", "--",
                Installation.home().resolve("programs/selfcheck").toString(), "-n", Integer.toString(RANKS), "--stop-file",
                stop.toString()).redirectErrorStream(true).redirectOutput(output.toFile());
        launch.environment().putAll(address.environment());
        launch.environment().put("SV_HCA_FABRIC", Files.createDirectory(root.resolve("fabric")).toString());
        final Process program = launch.start();
        try {
            awaitRanks(program, output);
            call("checkpoint", Map.of("check", "true"));
            call("checkpoint", Map.of());
            final String folder = call("checkpoint", Map.of("kill", "true")).path("folder").asText();
            if (!program.waitFor(DEADLINE_MILLIS, TimeUnit.MILLISECONDS)) {
                throw new CommandException("the program did not end within " + DEADLINE_MILLIS / 1000 + " s");
            }
            return Path.of(folder);
        } finally {
            // Also what a job root has, which is no descendant of the launch.
            call("kill", Map.of("now", "true"));
            program.destroyForcibly();
        }
    }

    /**
     * Restores it, by a command that is this host's agent; it ends at once.
     *
     * @return why it could not be, or an empty string
     */
    String restore(final Path folder) throws IOException {
        Files.createFile(stop);
        final int status = Main.run(List.of("restart", "-h", address.host(), "-p", Integer.toString(address.port()), "--backend",
                "hca", folder.toString()), address.environment());
        return status == 0 ? "" : "the restart ended with status " + status;
    }

    private void awaitRanks(final Process program, final Path output)
            throws CommandException, CoordinatorClient.Unreachable, IOException, InterruptedException {
        final long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(DEADLINE_MILLIS);
        while (call("status", Map.of()).path("ranks").size() < RANKS) {
            if (!program.isAlive() || System.nanoTime() > end) {
                throw new CommandException("waited for " + RANKS + " ranks; their program said: "
                        + Files.readString(output).strip());
            }
            Thread.sleep(PAUSE_MILLIS);
        }
    }

    private JsonNode call(final String command, final Map<String, String> arguments)
            throws CommandException, CoordinatorClient.Unreachable, IOException {
        final Result result = CoordinatorClient.call(address, command, arguments, DEADLINE_MILLIS, line -> { });
        if (result.status() != 0) {
            throw new CommandException(command + ": " + result.text());
        }
        return JSON.readTree(result.json());
    }
}
