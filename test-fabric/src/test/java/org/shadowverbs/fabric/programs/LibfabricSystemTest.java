// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.programs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.EnoughRounds;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Running;

/**
 * libfabric over its verbs provider with reliable datagrams, which needs no connection manager: through a checkpoint, and
 * killed and restarted, on the software HCA and on ib2tcp. The program checks what it receives, and says how it went at its end.
 */
final class LibfabricSystemTest {
    private static final int TICKS_A_SECOND = 100;
    private static final Duration PROGRAM_LIMIT = Running.DEADLINE;
    private static final List<String> PROGRAM = List.of("fi_pingpong", "-p", "verbs;ofi_rxd", "-e", "rdm", "-c", "-S", "64");

    /** So long the HCA takes for each request, until the restart: that takes less of the processors than many that are quick. */
    private static final String SLOWER = "SV_HCA_EXEC_DELAY_US=10000";

    /** So many iterations, in thousands, that it should take longer than two checkpoints; else there are more. On the HCA they are slow. */
    @ParameterizedTest
    @CsvSource({"hca, shadow0-dgram, 4", "ib2tcp, tcp0-dgram, 60"})
    void goesOnAfterCheckpointAndAfterRestart(final String backend, final String domain, final int thousands) throws Exception {
        EnoughRounds.from(thousands, n -> goesOn(backend, domain, n));
    }

    /** @return whether there were so many iterations that the programs had not ended before the second checkpoint had */
    private static boolean goesOn(final String backend, final String domain, final int thousands) throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", "scrambled"))) {
            job.backend(backend);
            job.configure(SLOWER);
            final String port = Integer.toString(LocalPort.free());
            final String iterations = thousands + "000";
            final Running server = job.launch("server", with("-I", iterations, "-d", domain, "-B", port));
            job.await("the server to listen", LocalPort.listens(Integer.parseInt(port)), server);
            final Running client = job.launch("client", with("-I", iterations, "-d", domain, "-P", port, "127.0.0.1"));
            job.awaitRanks(2, server, client);
            // Before, they speak over a socket with a time-out, from which a process that is stopped gets EINTR (signal(7)).
            job.await("the exchange to be under way", () -> polls(server) && polls(client), server, client);
            String folder = null;
            for (int i = 0; i < 2; i++) {
                final Running checkpoint = job.startCheckpoint();
                checkpoint.awaitEnd(PROGRAM_LIMIT);
                if (server.hasSucceeded() || client.hasSucceeded()) {
                    return false;
                }
                folder = job.checkpointed(checkpoint).get("folder").asText();
            }
            server.killHard();
            client.killHard();
            job.configure(""); // now they may come to their end
            job.restartAndAwait(folder, 2).succeed(PROGRAM_LIMIT);
            final String result = thousands < 1000 ? "=" + thousands + "k" : "=" + thousands / 1000 + "m";
            assertEquals(1, server.lines(result), server.output());
            assertEquals(1, client.lines(result), client.output());
            return true;
        }
    }

    /** By the first thread's time on a processor: it waits until the exchange begins, and polls from then on. */
    private static boolean polls(final Running program) {
        final String pid = Long.toString(program.pid());
        try {
            final String stat = Files.readString(Path.of("/proc", pid, "task", pid, "stat"));
            final String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
            return Integer.parseInt(fields[11]) + Integer.parseInt(fields[12]) >= TICKS_A_SECOND;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String[] with(final String... more) {
        return Stream.concat(PROGRAM.stream(), Stream.of(more)).toArray(String[]::new);
    }
}
