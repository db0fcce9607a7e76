// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A job of the benchmark's own: a coordinator on a port of its own, and what runs under it. */
final class BenchJob implements AutoCloseable {
    private final BenchRuns runs;
    private final List<String> coordinator;
    private final int port;

    private BenchJob(final BenchRuns runs, final int port) {
        this.runs = runs;
        this.port = port;
        coordinator = List.of("-h", "127.0.0.1", "-p", Integer.toString(port));
    }

    /** @param options of the coordinator */
    static BenchJob start(final BenchRuns runs, final String... options) throws BenchException, InterruptedException {
        final Path file = runs.work().resolve("port");
        try {
            Files.deleteIfExists(file);
            final List<String> command = new ArrayList<>(List.of("coordinator", "--daemon", "--port", "0", "--port-file",
                    file.toString()));
            command.addAll(List.of(options));
            runs.command("coordinator", command);
            return new BenchJob(runs, Integer.parseInt(Files.readString(file).strip()));
        } catch (IOException | NumberFormatException e) {
            throw new BenchException("the coordinator left no port in " + file + ": " + e.getMessage());
        }
    }

    int port() {
        return port;
    }

    BenchProcess launch(final String what, final List<String> program) throws BenchException {
        final List<String> arguments = with("launch", "--ckptdir", images().toString(), "--test-fabric", "--");
        arguments.addAll(program);
        return runs.startCommand(what, arguments);
    }

    /** Checkpoints the job, which runs on; what the command printed as JSON. */
    String checkpoint(final String option) throws BenchException, InterruptedException {
        return runs.command("checkpoint", option.isEmpty() ? with("checkpoint", "--json") : with("checkpoint", "--json", option));
    }

    /** Waits until so many processes have used verbs, and their agent knows. */
    void awaitRanks(final int ranks) throws BenchException, InterruptedException {
        final long end = System.nanoTime() + BenchRuns.RUN_DEADLINE.toNanos();
        while (runs.command("status", with("status")).split("running  memory", -1).length <= ranks) {
            if (System.nanoTime() > end) {
                throw new BenchException("the ranks do not come");
            }
        }
    }

    /** Checkpoints the job and kills it; the folder of the checkpoint. */
    String checkpointAndKill() throws BenchException, InterruptedException {
        final String[] lines = runs.command("checkpoint", with("checkpoint", "--kill")).strip().split("\n");
        return lines[lines.length - 1];
    }

    /** Checkpoints the job, which runs on with the devices that it has. */
    void checkpoint() throws BenchException, InterruptedException {
        final String said = runs.command("checkpoint", with("checkpoint"));
        if (!said.contains("devices stay open")) {
            throw new BenchException("the devices did not stay open: " + said);
        }
    }

    BenchProcess restart(final String checkpoint) throws BenchException {
        return runs.startCommand("restart", with("restart", checkpoint));
    }

    /** Ends the coordinator and whatever is left under it. */
    @Override
    public void close() throws BenchException {
        try {
            runs.command("quit", with("quit"));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private Path images() {
        return runs.work().resolve("images");
    }

    private List<String> with(final String command, final String... more) {
        final List<String> arguments = new ArrayList<>();
        arguments.add(command);
        arguments.addAll(coordinator);
        arguments.addAll(List.of(more));
        return arguments;
    }
}
