// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;

/** Programs that take part in their checkpoints, by {@code shadowverbs_program.h}. */
final class ProgramSystemTest {
    private static List<String> lines(final Running program) throws IOException {
        return program.output().lines().toList();
    }

    private static void awaitLine(final Job job, final Running program, final String line, final int times, final Running runs)
            throws Exception {
        job.await("\"" + line + "\" of " + program.name(), () -> program.lines(line) >= times, runs);
    }

    private static void awaitLine(final Job job, final Running program, final String line, final int times) throws Exception {
        awaitLine(job, program, line, times, program);
    }

    private static List<Path> checkpoints(final Job job) throws IOException {
        try (Stream<Path> all = Files.list(job.checkpoints())) {
            return all.filter(p -> p.getFileName().toString().startsWith("ckpt-")).sorted().toList();
        }
    }

    @Test
    void aProgramAsksLearnsOfTheRestartAndPutsCheckpointsOff() throws Exception {
        try (Job job = Distribution.start()) {
            final Running bare = job.runNative("bare", job.program("takes-part"), "available", "callbacks", "section", "/", "checkpoint",
                    "together", "3", "verbs");
            bare.succeed(Running.DEADLINE);
            assertEquals(List.of("available 0", "section", "section ends", "checkpoint 0", "together 0", "verbs", "done"), lines(bare));

            job.startCoordinator("--deadline", "3");
            final Path first = job.work().resolve("first");
            final Path second = job.work().resolve("second");
            final Path third = job.work().resolve("third");
            final Path last = job.work().resolve("last");
            final Running program = job.launch("program", job.program("takes-part"), "available", "verbs", "callbacks", "checkpoint",
                    "verbs", "wait", first.toString(), "section", second.toString(), "refuse", "7", "wait", third.toString(), "refuse", "0",
                    "wait", last.toString(), "verbs");
            awaitLine(job, program, "checkpoint 1", 1);
            final List<String> until = List.of("available 1", "verbs", "before b", "before a");
            assertEquals(Stream.concat(until.stream(), Stream.of("after a 1", "after b 1", "checkpoint 1")).toList(),
                    lines(program).subList(0, 7));
            assertEquals(1, checkpoints(job).size());

            // A section is waited for. Its program is told before, and after it.
            Files.createFile(first);
            awaitLine(job, program, "section", 1);
            final Running waits = job.startCheckpoint();
            awaitLine(job, program, "before a", 2);
            Files.createFile(second);
            job.checkpointed(waits);
            awaitLine(job, program, "refuse 7", 1);
            assertEquals(List.of("verbs", "section", "before b", "before a", "section ends", "after a 1", "after b 1"),
                    lines(program).stream().filter(line -> !line.startsWith("refuse")).toList().subList(7, 14));
            // A callback has something against it.
            final String refused = job.failCheckpoint().get("problem").asText();
            assertTrue(refused.startsWith("rank 0 (") && refused.contains("a callback of the program's has returned 7"), refused);
            Files.createFile(third);
            awaitLine(job, program, "refuse 0", 1);

            // The same call returns in the process that is restarted from it, and the program goes on from there.
            job.startCoordinator("--deadline", "3");
            Files.delete(first);
            Files.delete(second);
            Files.delete(third);
            final Running restart = job.restart(checkpoints(job).getFirst().toString());
            awaitLine(job, program, "checkpoint 2", 1, restart);
            assertEquals(Stream.concat(until.stream(), Stream.of("after a 2", "after b 2", "checkpoint 2")).toList(),
                    lines(program).subList(0, 7));
            // One that does not end within the deadline is named, and the program goes on.
            Files.createFile(first);
            awaitLine(job, program, "section", 1, restart);
            final String problem = job.failCheckpoint().get("problem").asText();
            assertTrue(problem.startsWith("rank 0 ("), problem);
            assertTrue(problem.matches(".*, waiting for thread [0-9]+ to call shadowverbs_delay_end, did not finish ANNOUNCE within 3 s.*"),
                    problem);
            awaitLine(job, program, "after b 3", 1, restart);
            Files.createFile(second);
            Files.createFile(third);
            Files.createFile(last);
            restart.succeed(Running.DEADLINE);
            assertTrue(lines(program).containsAll(List.of("section ends", "done")), program.output());
        }
    }

    /** One has no verbs: by its call it becomes a rank. And sections that can only end together are no obstacle. */
    @Test
    void processesAskTogetherAndHaveSectionsThatNeedEachOther() throws Exception {
        try (Job job = Distribution.start()) {
            final Path second = job.work().resolve("second");
            final Path go = job.work().resolve("go");
            final Path stop = job.work().resolve("stop");
            final String program = "'" + job.program("takes-part") + "' ";
            final Running both = job.launch("both", "sh", "-c", program + "together 2 wait '" + go + "' checkpoint & " + program
                    + "verbs wait '" + second + "' together 2 wait '" + go + "' & wait");
            job.awaitRanks(2, both);
            // One that comes in between does not end the call of one of them alone.
            job.checkpoint();
            assertFalse(both.output().contains("together"), both.output());
            Files.createFile(second);
            awaitLine(job, both, "together 1", 2);
            final List<Path> made = checkpoints(job);
            assertEquals(2, made.size());

            final Running restart = job.restartAndAwait(made.getLast().toString(), 2);
            awaitLine(job, both, "together 2", 2, restart);
            Files.createFile(go);
            awaitLine(job, both, "checkpoint 1", 1, restart);
            restart.succeed(Running.DEADLINE);
            assertEquals(2, both.lines("done"));
            assertFalse(both.output().contains("together 1"), both.output());

            job.startCoordinator();
            final Running inStep = job.launch("in-step", job.program("takes-part"), "in-step", stop.toString());
            awaitLine(job, inStep, "in step", 2);
            job.checkpoint();
            job.checkpoint();
            final Running again = job.restartAndAwait(job.checkpoint("--kill").get("folder").asText(), 2);
            job.checkpoint();
            Files.createFile(stop);
            again.succeed(Running.DEADLINE);
            assertEquals(2, inStep.lines("in step to the end"));
        }
    }
}
