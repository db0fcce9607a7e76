// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.jobroot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;

/** Programs that a launcher starts side by side, each by a launch of its own, live in one job root. */
final class JobRootSystemTest {
    private static final Duration COMMAND = Running.DEADLINE;

    private static Job start() throws Exception {
        return Distribution.startInJobRoot(Map.of());
    }

    @Test
    void twoLaunchesThatShareMemoryAreOneImage() throws Exception {
        try (Job job = start()) {
            final Path stop = job.work().resolve("stop");
            final String[] names = {job.program("neighbours"), "0", job.work().resolve("shared").toString(), stop.toString()};
            final Running first = job.launch("first", names);
            names[1] = "1";
            final Running second = job.launch("second", names);
            job.awaitLines(first, "turn", 1);
            assertEquals(1, job.status().get("agents").get(0).get("programs").size());
            job.checkpoint();
            final long before = second.lines("turn");
            job.await("turns", () -> second.lines("turn") > before, first, second);
            final String folder = job.checkpoint("--kill").get("folder").asText();
            assertEquals(137, first.awaitEnd(COMMAND));
            assertEquals(137, second.awaitEnd(COMMAND));

            final Running restarted = job.restartAndAwait(folder, 0);
            final long killed = first.lines("turn");
            job.await("turns after the restart", () -> first.lines("turn") > killed + 1, restarted);
            final String again = job.checkpoint("--kill").get("folder").asText();
            restarted.awaitEnd(COMMAND);
            final Running twice = job.restartAndAwait(again, 0);
            final long then = second.lines("turn");
            job.await("turns after the second restart", () -> second.lines("turn") > then + 1, twice);
            Files.createFile(stop);
            twice.succeed(COMMAND);
            assertEquals(1, first.lines("done"), first.output() + first.errors());
            assertEquals(1, second.lines("done"), second.output() + second.errors());
        }
    }

    @Test
    void theStandInEndsAsItsProgramDoes() throws Exception {
        try (Job job = start()) {
            assertEquals(7, job.launch("status", "sh", "-c", "exit 7").awaitEnd(COMMAND));
            assertEquals(128 + 11, job.launch("segfault", "sh", "-c", "kill -SEGV $$").awaitEnd(COMMAND));
            final Running words = job.launch("words", "sh", "-c", "pwd; echo to stderr >&2; ulimit -n; umask");
            words.succeed(COMMAND);
            assertTrue(words.output().startsWith(job.work().toString() + "\n"), words.output());
            assertEquals("to stderr\n", words.errors());
        }
    }

    @Test
    void signalsGoToTheProgram() throws Exception {
        try (Job job = start()) {
            final Running program = job.launch("signals", "sh", "-c",
                    "trap 'echo USR1' USR1; trap 'echo CONT' CONT; trap 'echo TERM; exit 9' TERM; echo ready; while :; do sleep 0.1; done");
            job.awaitLines(program, "ready", 1);
            signal(program, "USR1");
            job.awaitLines(program, "USR1", 1);
            signal(program, "TSTP");
            job.await("the stand-in to stop", () -> state(program.pid()) == 'T', program);
            assertTrue(program.descendants().stream().anyMatch(p -> state(p.pid()) == 'T'));
            signal(program, "CONT");
            job.awaitLines(program, "CONT", 1);
            signal(program, "TERM");
            assertEquals(9, program.awaitEnd(COMMAND));
            assertEquals(1, program.lines("TERM"));
        }
    }

    @Test
    void aProgramEndsWithItsStandIn() throws Exception {
        try (Job job = start()) {
            final Running program = job.launch("killed", "sh", "-c", "echo ready; while :; do sleep 0.1; done");
            job.awaitLines(program, "ready", 1);
            final ProcessHandle inside = program.descendants().getFirst();
            signal(program, "KILL");
            assertEquals(137, program.awaitEnd(COMMAND));
            job.await("the end of the program", () -> !inside.isAlive());
        }
    }

    private static void signal(final Running program, final String name) throws Exception {
        assertEquals(0, new ProcessBuilder("kill", "-" + name, Long.toString(program.pid())).start().waitFor());
    }

    private static char state(final long pid) {
        try {
            final String stat = Files.readString(Path.of("/proc", Long.toString(pid), "stat"));
            return stat.charAt(stat.lastIndexOf(')') + 2);
        } catch (IOException e) {
            return 'X';
        }
    }
}
