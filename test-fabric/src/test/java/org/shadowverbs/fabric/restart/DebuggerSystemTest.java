// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.restart;

import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** A restarted process is one like any other: a debugger stops it, sees its threads' stacks, and lets it go on. */
final class DebuggerSystemTest {
    private static final int RANKS = 2;

    @ParameterizedTest
    @ValueSource(strings = {"hca", "ib2tcp"})
    void inspectsRestartedRanks(final String backend) throws Exception {
        try (Job job = Distribution.start()) {
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", RANKS);
            selfcheck.awaitConnected();
            final String folder = job.checkpoint().get("folder").asText();
            selfcheck.killHard();
            job.backend(backend);
            final Running restarted = job.restartAndAwait(folder, RANKS);
            selfcheck.work(restarted);
            int inspected = 0;
            for (final ProcessHandle process : restarted.descendants()) {
                if (process.info().command().orElse("").endsWith("/selfcheck")) {
                    inspect(job, process.pid());
                    inspected++;
                }
            }
            assertTrue(inspected >= RANKS, inspected + " processes inspected");
            selfcheck.work(restarted);
            selfcheck.stop(restarted);
            Selfcheck.verify(program);
        }
    }

    private static void inspect(final Job job, final long pid) throws Exception {
        final Running gdb = job.runCommandLine("gdb-" + pid, "gdb", "-nx", "-p", Long.toString(pid), "-batch", "-ex",
                "thread apply all bt 8");
        gdb.succeed(Running.DEADLINE);
        assertTrue(gdb.lines("#0 ") > 0, gdb.output() + gdb.errors());
    }
}
