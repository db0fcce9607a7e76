// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.restart;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;

/** A program's clocks stand still while it does not exist, and never go back: through two restarts. */
final class ClocksSystemTest {
    private static final Duration COMMAND = Running.DEADLINE;
    private static final int DEADLINE_MILLIS = 2000;
    /** By how much the time of day may be slower than the clock that the pauses are measured by. */
    private static final long SLEW_MILLIS = 50;

    @ParameterizedTest
    @ValueSource(strings = {"hca", "ib2tcp"})
    void clocksGoOnFromWhereTheyStood(final String backend) throws Exception {
        try (Job job = Distribution.start()) {
            job.backend(backend);
            final Path stop = job.work().resolve("stop");
            final Running program = job.launch("clocks", job.program("clocks"), Integer.toString(DEADLINE_MILLIS),
                    stop.toString());
            job.awaitLines(program, "ready", 1);
            long gone = 0;
            Running running = program;
            for (int round = 0; round < 2; round++) {
                job.awaitRanks(1, running);
                final String folder = job.checkpoint("--kill").get("folder").asText();
                final long begin = System.nanoTime();
                // What sleeps would sleep no longer if its clock were the host's.
                job.await("a pause", () -> millisSince(begin) > DEADLINE_MILLIS);
                gone += millisSince(begin);
                running = job.restartAndAwait(folder, 1);
            }
            job.await("all sleepers", () -> program.lines("woken by") == 4, running);
            Files.createFile(stop);
            running.succeed(COMMAND);
            final List<String> last = program.output().lines().filter(line -> line.startsWith("gone ")).toList();
            assertEquals(1, last.size(), program.output());
            for (int clock = 1; clock <= 2; clock++) {
                final long missed = Long.parseLong(last.getFirst().split(" ")[clock]);
                assertTrue(missed >= gone - SLEW_MILLIS, last.getFirst() + "; it was away for " + gone + " ms");
            }
        }
    }

    private static long millisSince(final long nanoTime) {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - nanoTime);
    }
}
