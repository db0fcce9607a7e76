// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class TrainingAgentTest {
    private static final Duration DEADLINE = Duration.ofSeconds(30);

    @TempDir
    private Path folder;

    private RankLink connect(final RankHello.State state) throws IOException {
        return RankLink.connect(folder.resolve("agent.sock"), new RankHello("uid", 1, 1, "program", 1, state, -1), DEADLINE, null);
    }

    private TrainingAgent agent() throws Exception {
        final Path pipe = folder.resolve("verdict");
        assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
        return new TrainingAgent(folder.resolve("agent.sock"), pipe);
    }

    @Test
    void leadsARankThroughACheckpoint() throws Exception {
        try (TrainingAgent agent = agent()) {
            final RankLink link = connect(RankHello.State.FRESH);
            final CompletableFuture<Void> checkpoint = CompletableFuture.runAsync(() -> {
                try {
                    agent.checkpoint(DEADLINE);
                } catch (IOException | InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            final long epoch = assertInstanceOf(CheckpointRequest.class, link.next()).epoch();
            final Reply reply = link.exchange(epoch, Phase.ANNOUNCE, 0,
                    new Contribution(Map.of("key", new byte[] {7}), Set.of("key", "other"), true, ""));
            assertEquals(Set.of("key"), reply.found().keySet());
            assertArrayEquals(new byte[] {7}, reply.found().get("key"));
            assertEquals(1, reply.ranks());
            assertTrue(reply.unanimous());
            final String line;
            try (RandomAccessFile pipe = new RandomAccessFile(link.verdictPipe().toFile(), "rw")) {
                link.detached(epoch);
                line = pipe.readLine();
            }
            link.close();
            assertEquals(Verdict.Outcome.RESUMED, Verdict.parse(line).outcome());
            final RankLink again = connect(RankHello.State.REATTACHING);
            assertEquals(epoch, again.epoch());
            again.done(epoch, 0);
            checkpoint.get(DEADLINE.toSeconds(), TimeUnit.SECONDS);
            again.close();
        }
    }

    @Test
    void saysThatNoRankCame() throws Exception {
        try (TrainingAgent agent = agent()) {
            final IOException e = assertThrows(IOException.class, () -> agent.checkpoint(Duration.ofMillis(1)));
            assertTrue(e.getMessage().contains("has not come"), e.getMessage());
        }
    }
}
