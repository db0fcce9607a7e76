// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Debian's perftest: as it is, under the preload with a checkpoint in the midst, and killed and restarted. It posts with ibv_wr_* where it can, and its two ends keep a TCP connection all the time.
 */
@Timeout(240)
final class PerftestSystemTest {
    private static final Duration ENDING = Duration.ofSeconds(60);
    private static final int NATIVE_SECONDS = 2;
    /** Long enough for two launches and a checkpoint on a busy machine. */
    private static final int SECONDS = 10;

    @ParameterizedTest
    @ValueSource(strings = {"ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_atomic_bw"})
    void measuresOnAfterCheckpointAndAfterRestart(final String program) throws Exception {
        try (Job job = Distribution.start()) {
            final int nativePort = LocalPort.free();
            final Running nativeServer =
                    job.runNative("native-server", command(program, NATIVE_SECONDS, nativePort));
            job.await("the server to listen", LocalPort.listens(nativePort), nativeServer);
            final Running nativeClient = job.runNative("native-client",
                    command(program, NATIVE_SECONDS, nativePort, "127.0.0.1"));
            nativeClient.succeed(ENDING);
            nativeServer.succeed(ENDING);
            assertPlausible(nativeClient);

            final List<Running> resumed = launch(job, "resumed", program);
            assertEquals(2, job.checkpoint().get("ranks").asInt());
            for (final Running one : resumed) {
                one.succeed(ENDING);
            }
            assertPlausible(resumed.getLast());

            final List<Running> restarted = launch(job, "restarted", program);
            final JsonNode checkpoint = job.checkpoint();
            assertEquals(2, checkpoint.get("ranks").asInt());
            final String folder = checkpoint.get("folder").asText();
            for (final Running one : restarted) {
                one.killHard();
            }
            job.startCoordinator();
            job.restart(folder).succeed(ENDING);
            assertPlausible(restarted.getLast());
        }
    }

    /** On the other transports, with events, inline, many queue pairs: the software HCA is slow until the restart. */
    @ParameterizedTest
    @ValueSource(strings = {
        "ib_send_bw -c XRC -b -n 20000 -t 4", "ib_send_bw -c UD -e -n 20000 -t 4", "ib_write_bw -c UC -q 16 -n 5000 -t 4",
        "ib_send_lat --use-srq -I 64 -s 64 -n 8000"
    })
    void endsAfterRestart(final String program) throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", "scrambled"))) {
            job.configure(Job.SLOW);
            final int port = LocalPort.free();
            final List<String> command = new ArrayList<>(List.of("stdbuf", "-oL"));
            command.addAll(List.of(program.split(" ")));
            command.addAll(List.of("-F", "-p", Integer.toString(port)));
            final Running server = job.launch("server", command.toArray(new String[0]));
            job.await("the server to listen", LocalPort.listens(port), server);
            command.add("127.0.0.1");
            final Running client = job.launch("client", command.toArray(new String[0]));
            job.awaitLines(client, "#bytes", 1);
            job.awaitRanks(2, server, client);
            final String folder = job.checkpoint("--kill").get("folder").asText();
            job.configure("");
            job.restartAndAwait(folder, 2).succeed(ENDING);
            assertPlausible(client);
        }
    }

    /** Server and client, in the midst of measuring. */
    private static List<Running> launch(final Job job, final String name, final String program) throws Exception {
        final int port = LocalPort.free();
        final Running server = job.launch(name + "-server", command(program, SECONDS, port));
        job.await("the server to listen", LocalPort.listens(port), server);
        final Running client = job.launch(name + "-client", command(program, SECONDS, port, "127.0.0.1"));
        job.awaitRanks(2, server, client);
        final double start = client.processorSeconds();
        job.await("the client to measure", () -> client.processorSeconds() > start + 0.5, server, client);
        return List.of(server, client);
    }

    private static String[] command(final String program, final int seconds, final int port,
            final String... more) {
        final List<String> command = new ArrayList<>(List.of(program, "-F", "-D", Integer.toString(seconds), "-p",
                Integer.toString(port)));
        if (!program.contains("atomic")) {
            command.addAll(List.of("-s", "4096"));
        }
        command.addAll(List.of(more));
        return command.toArray(new String[0]);
    }

    /**
     * The last line of the table has size, iterations and figures; of bandwidths in MB/s a slow one may be 0.00. On a busy
     * machine perftest may fail to find out how fast its clock is, says so, and prints figures that are none.
     */
    static void assertPlausible(final Running client) throws Exception {
        final String said = client.name() + ": " + client.output() + client.errors();
        final boolean clockUnknown = said.contains("Correlation coefficient");
        final String figure = clockUnknown ? "[-0-9.infa\\s]+" : "[0-9.\\s]+";
        final String row = client.output().lines().filter(l -> l.strip().matches("[0-9]+\\s+[0-9]+\\s+" + figure))
                .reduce((a, b) -> b).orElseThrow(() -> new AssertionError("no result: " + said));
        final String[] figures = row.strip().split("\\s+");
        assertTrue(Long.parseLong(figures[1]) > 10, said);
        if (clockUnknown) {
            return;
        }
        double sum = 0;
        for (int i = 2; i < figures.length; i++) {
            sum += Double.parseDouble(figures[i]);
        }
        assertTrue(sum > 0, said);
    }
}
