// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;

/** Programs that use verbs for the first time after a restart: the backend is the job's, whatever their launch had said. */
final class LateVerbsSystemTest {
    private static final Duration ENDING = Running.DEADLINE;

    @Test
    void openTheBackendThatTheRestartHasChosen() throws Exception {
        try (Job job = Distribution.start()) {
            final Path go = job.work().resolve("go");
            final Path ready = job.work().resolve("ready");
            final Running late = job.launch("late", "sh", "-c", ": >'" + ready + "'; until [ -e '" + go
                    + "' ]; do sleep 0.1; done; ibv_devices; exec ibv_devices");
            job.await("the program runs", () -> Files.exists(ready), late);
            final Running first = job.startCheckpoint("--kill");
            final String folder = job.checkpointed(first).get("folder").asText();
            assertTrue(first.errors().contains("the checkpoint has 0 ranks"), first.errors());
            late.awaitEnd(ENDING);

            // Restarted under another coordinator: neither agent nor backend are what the program's environment says.
            job.backend("ib2tcp");
            job.startCoordinator();
            final Running tcp = job.restart(folder);
            job.await("the program is restored", () -> hasProgram(job), tcp);
            final String second = job.checkpoint("--kill").get("folder").asText();
            tcp.awaitEnd(ENDING);

            // What was chosen once holds from then on.
            job.backend(null);
            job.startCoordinator();
            final Running again = job.restart(second);
            job.await("the program is restored again", () -> hasProgram(job), again);
            Files.createFile(go);
            again.succeed(ENDING);
            assertEquals(2, late.output().lines().filter(line -> line.contains("tcp0")).count(),
                    late.output() + again.errors());
        }
    }

    private static boolean hasProgram(final Job job) {
        try {
            for (final JsonNode agent : job.status().get("agents")) {
                if (!agent.get("programs").isEmpty()) {
                    return true;
                }
            }
            return false;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
