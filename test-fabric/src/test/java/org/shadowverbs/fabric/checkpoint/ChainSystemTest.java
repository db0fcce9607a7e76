// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** Checkpoints that have only what was written to since the one before, of memory that processors and the device write to. */
final class ChainSystemTest {
    private static final int RANKS = 4;
    private static final ObjectMapper JSON = new ObjectMapper();

    @Test
    void comesBackFromAChainAndNamesWhatIsDamagedInIt() throws Exception {
        try (Job job = Distribution.start()) {
            job.startCoordinator("--full-every", "4", "--keep", "2", "--compress", "lz4");
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("churn", 2, "--churn", "--shared-memory");
            selfcheck.launch("threads", 2, "--threads", "2", "--srq");
            selfcheck.awaitConnected();
            final List<JsonNode> made = new ArrayList<>();
            // Whole, and three that build on it; whole again, and two that build on that.
            for (int i = 0; i < 7; i++) {
                selfcheck.work();
                made.add(i % 3 == 2 ? job.checkpoint("--pre-copy") : job.checkpoint());
                assertEquals(i == 2 || i == 5, made.get(i).at("/phase_ms/pre_copy").isNumber(), made.get(i)::toString);
            }
            final JsonNode listed = list(job);
            // Two are kept, and what they build on.
            assertEquals(List.of("5", "6", "7"), listed.findValuesAsText("epoch"));
            assertEquals(0, listed.get(0).path("bases").size());
            assertEquals(2, listed.get(2).path("bases").size());
            assertTrue(listed.get(2).path("bases").get(0).asText().endsWith("-5"), listed::toString);
            assertTrue(made.get(3).path("image_bytes").asLong() < made.get(0).path("image_bytes").asLong(), made::toString);
            selfcheck.killHard();

            final Path base = Path.of(listed.get(0).path("folder").asText());
            final Path pages;
            try (var files = Files.walk(base)) {
                pages = files.filter(file -> file.getFileName().toString().startsWith("pages-")).max((a, b) ->
                        Long.compare(a.toFile().length(), b.toFile().length())).orElseThrow();
            }
            try (RandomAccessFile file = new RandomAccessFile(pages.toFile(), "rw")) {
                file.seek(file.length() / 2);
                final int old = file.read();
                file.seek(file.length() / 2);
                file.write(old ^ 1);
                for (final JsonNode one : list(job)) {
                    assertTrue(one.path("problem").asText().contains(pages + " is damaged"), one::toString);
                }
                job.startCoordinator();
                final Running refused = job.restart(made.getLast().path("folder").asText());
                refused.awaitEnd(Duration.ofMinutes(2));
                assertTrue(refused.errors().contains(pages + " is damaged"), refused.errors());
                file.seek(file.length() / 2);
                file.write(old);
            }
            for (final JsonNode one : list(job)) {
                assertFalse(one.hasNonNull("problem"), one::toString);
            }
            selfcheck.restartAndVerify(made.getLast().path("folder").asText());
        }
    }

    private static JsonNode list(final Job job) throws Exception {
        final Running list = job.runCommand("list", "--json", job.checkpoints().toString());
        list.awaitEnd(Duration.ofMinutes(2));
        return JSON.readTree(list.output()).path("checkpoints");
    }
}
