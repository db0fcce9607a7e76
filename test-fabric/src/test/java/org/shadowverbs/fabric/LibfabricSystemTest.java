// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * libfabric over its verbs provider with reliable datagrams, which needs no connection manager: through a checkpoint, and
 * killed and restarted. The program checks what it receives, and says how it went at its end.
 */
@Timeout(400)
final class LibfabricSystemTest {
    private static final Duration PROGRAM_LIMIT = Duration.ofSeconds(200);
    /** So many that it takes longer than two checkpoints. */
    private static final String ITERATIONS = "40000";
    private static final String RESULT = "=40k";

    private static final String[] PROGRAM = {"fi_pingpong", "-p", "verbs;ofi_rxd", "-d", "shadow0-dgram", "-e", "rdm", "-c",
        "-S", "64", "-I", ITERATIONS};

    @Test
    void goesOnAfterCheckpointAndAfterRestart() throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", "scrambled"))) {
            final String port = Integer.toString(LocalPort.free());
            final Running server = job.launch("server", with("-B", port));
            job.await("the server to listen", LocalPort.listens(Integer.parseInt(port)), server);
            final Running client = job.launch("client", with("-P", port, "127.0.0.1"));
            job.awaitRanks(2, server, client);
            job.checkpoint();
            assertTrue(server.isRunning() && client.isRunning(), "the programs had ended before the first checkpoint had");
            final String folder = job.checkpoint().get("folder").asText();
            assertTrue(server.isRunning() && client.isRunning(), "the programs had ended before the second checkpoint had");
            server.killHard();
            client.killHard();
            job.restartAndAwait(folder, 2).succeed(PROGRAM_LIMIT);
            assertEquals(1, server.lines(RESULT), server.output());
            assertEquals(1, client.lines(RESULT), client.output());
        }
    }

    private static String[] with(final String... more) {
        final String[] all = java.util.Arrays.copyOf(PROGRAM, PROGRAM.length + more.length);
        System.arraycopy(more, 0, all, PROGRAM.length, more.length);
        return all;
    }
}
