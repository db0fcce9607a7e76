// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** What signals to the launching command, and to the program, do to a job. */
@Timeout(480)
final class LaunchSignalsSystemTest {
    /** The program has its own use for SIGUSR1, and gets it when it is sent to the program. */
    @Test
    void aSignalTakesACheckpointAndAnotherOneEndsTheJobToo() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("hca", "--checkpoint-signals");
            final Path go = job.work().resolve("go");
            final Running launch = job.launch("program", "sh", "-c", "trap 'echo signal' USR1; echo $$; until [ -e " + go
                    + " ]; do sleep 0.05; done; echo done");
            job.awaitLines(launch, "", 1);
            signal("USR1", launch.pid());
            job.await("a checkpoint", () -> launch.lines("shadowverbs: checkpoint " + job.checkpoints()) == 1, launch);
            assertEquals(0, launch.lines("signal"), launch.output());
            signal("USR1", program(job));
            job.awaitLines(launch, "signal", 1);
            signal("USR2", launch.pid());
            assertEquals(75, launch.awaitEnd(Running.DEADLINE), launch.errors());
            Files.createFile(go);
            job.startCoordinator();
            job.backend("hca");
            job.restart(job.checkpoints().toString()).succeed(Running.DEADLINE);
            assertEquals(1, launch.lines("done"), launch.output());
        }
    }

    /** The user's own end is no failure. */
    @Test
    void aJobThatHealsItselfEndsWhenItsUserSaysSo() throws Exception {
        try (Job job = Distribution.start()) {
            job.startCoordinator("--exit-on-last", "--recover-job", "3");
            job.backend("hca");
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running launch = selfcheck.launch("program", 2);
            selfcheck.awaitConnected();
            job.checkpoint();
            signal("KILL", job.status().get("ranks").get(0).get("pid").asLong());
            job.await("its recovery", () -> launch.lines("shadowverbs: recovered in ") == 1, launch);
            signal("INT", launch.pid());
            launch.awaitEnd(Running.DEADLINE);
            assertEquals(0, launch.lines("2 of at most 3"), launch.errors());
            job.await("the end of the agent", () -> job.agentPids().isEmpty());
        }
    }

    /** Its ranks are stopped, and so is the job. */
    @Test
    void aJobThatHangsIsBroughtBack() throws Exception {
        try (Job job = Distribution.start()) {
            job.startCoordinator("--exit-on-last", "--recover-job", "1", "--hang-after", "4");
            job.backend("hca");
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running launch = selfcheck.launch("program", 2);
            selfcheck.awaitConnected();
            selfcheck.work();
            job.checkpoint();
            for (final JsonNode rank : job.status().get("ranks")) {
                signal("STOP", rank.get("pid").asLong());
            }
            job.await("its recovery", () -> launch.lines("shadowverbs: recovered in ") == 1, launch);
            assertTrue(launch.errors().contains("no rank has posted or completed a request for 4 s"), launch.errors());
            selfcheck.work();
            selfcheck.stopAndVerify();
        }
    }

    private static long program(final Job job) throws Exception {
        for (final JsonNode agent : job.status().get("agents")) {
            for (final JsonNode program : agent.get("programs")) {
                return ProcessHandle.of(program.get("pid").asLong()).orElseThrow().children().findFirst().orElseThrow().pid();
            }
        }
        throw new AssertionError("no program: " + job.status());
    }

    private static void signal(final String name, final long pid) throws Exception {
        assertEquals(0, new ProcessBuilder("kill", "-" + name, Long.toString(pid)).inheritIO().start().waitFor());
    }
}
