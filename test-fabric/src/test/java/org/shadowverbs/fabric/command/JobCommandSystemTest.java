// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.command;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** One line, run again and again under a time limit: {@code shadowverbs job}. */
final class JobCommandSystemTest {
    private static final Duration COMMAND = Running.DEADLINE;
    private static final int AGAIN = 75;
    private static final int SOMEBODY = 12345;

    private static Running run(final Job job, final String... command) throws Exception {
        return job.runCommand("job", Stream.concat(Stream.of("--ckptdir", job.checkpoints().toString(), "--"), Stream.of(command))
                .toArray(String[]::new));
    }

    private static void signal(final Running program, final String name) throws Exception {
        assertEquals(0, new ProcessBuilder("kill", "-" + name, Long.toString(program.pid())).start().waitFor());
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aProgramEndsOnceWhereverItIsInterrupted(final boolean root) throws Exception {
        try (Job job = Distribution.start()) {
            if (!root) {
                job.user(SOMEBODY);
            }
            final Path stop = job.work().resolve("stop");
            final String[] line = {Distribution.DIST.resolve("bin/shadowverbs").toString(), "launch", "--backend", "hca", "--test-fabric", "--", job.program("selfcheck"),
                    "-n", "2", "--stop-file", stop.toString(), "--json"};
            final Running first = run(job, line);
            job.awaitLines(first, ": connected: ", 2);
            new Selfcheck(job).work(first);
            signal(first, "USR1");
            assertEquals(AGAIN, first.awaitEnd(COMMAND), first.errors());
            assertTrue(first.errors().contains("job: saved in " + job.checkpoints()), first.errors());

            final Running second = run(job, line);
            job.awaitLines(second, "restored 2 ranks", 1);
            new Selfcheck(job).work(second);
            signal(second, "TERM");
            assertEquals(AGAIN, second.awaitEnd(COMMAND), second.errors());

            final Running third = run(job, line);
            job.awaitLines(third, "restored 2 ranks", 1);
            new Selfcheck(job).work(third);
            Files.createFile(stop);
            third.succeed(COMMAND);
            Selfcheck.verify(first); // it goes on with its file

            final Running fourth = run(job, line);
            fourth.succeed(COMMAND);
            assertEquals("", fourth.output());
            assertTrue(fourth.errors().contains("has ended with status 0 already"), fourth.errors());
        }
    }

    @Test
    void theStatusIsTheProgramsAndOneThatFailedIsRunAgain() throws Exception {
        try (Job job = Distribution.start()) {
            final Running failed = run(job, "sh", "-c", "echo run; exit 7");
            assertEquals(7, failed.awaitEnd(COMMAND), failed.errors());
            final Running again = run(job, "sh", "-c", "echo run; exit 7");
            assertEquals(7, again.awaitEnd(COMMAND), again.errors());
            assertEquals(1, again.lines("run"));
            assertEquals(127, run(job, "no-such-program").awaitEnd(COMMAND));
            final Running requeued = job.runCommand("job", "--requeue", "true");
            assertEquals(1, requeued.awaitEnd(COMMAND));
            assertTrue(requeued.errors().contains("there is no SLURM_JOB_ID"), requeued.errors());
        }
    }

    /** A connection to this process cannot be saved. */
    @Test
    void whatCannotBeSavedIsSaidAndTheLastCheckpointStays() throws Exception {
        try (Job job = Distribution.start(); ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            final Path open = job.work().resolve("open");
            final Path close = job.work().resolve("close");
            final Path end = job.work().resolve("end");
            final String[] line = {"bash", "-c", "until [ -e '" + open + "' ]; do sleep 0.1; done; exec 3<>/dev/tcp/127.0.0.1/"
                    + server.getLocalPort() + "; echo open; until [ -e '" + close + "' ]; do sleep 0.1; done; exec 3>&-; echo closed;"
                    + " until [ -e '" + end + "' ]; do sleep 0.1; done"};
            final Running first = run(job, line);
            job.awaitLines(first, "coordinator at ", 1);
            signal(first, "USR1");
            assertEquals(AGAIN, first.awaitEnd(COMMAND), first.errors());
            final Path good = job.checkpoints().resolve("latest").toRealPath();

            Files.createFile(open);
            final Running second = run(job, line);
            job.awaitLines(second, "restored 0 ranks", 1);
            job.await("the program to go on, with its file", () -> first.lines("open") == 1, second);
            signal(second, "TERM");
            assertEquals(128 + 15, second.awaitEnd(COMMAND), second.errors());
            assertEquals(1, second.lines("a TCP connection to 127.0.0.1:" + server.getLocalPort()), second.errors());
            assertEquals(1, second.lines("the last one is as good as before"), second.errors());
            assertEquals(good, job.checkpoints().resolve("latest").toRealPath());

            final Running third = run(job, line);
            job.awaitLines(third, "restored 0 ranks", 1);
            job.await("the program to go on", () -> first.lines("open") == 1, third);
            signal(third, "USR1");
            job.awaitLines(third, "a TCP connection to", 1);
            Files.createFile(close);
            assertEquals(AGAIN, third.awaitEnd(COMMAND), third.errors());
            assertFalse(good.equals(job.checkpoints().resolve("latest").toRealPath()));

            Files.createFile(end);
            final Running fourth = run(job, line);
            fourth.succeed(COMMAND);
            assertEquals(List.of("open", "closed"), first.output().lines().toList());
        }
    }

    @Test
    void twoOfOneDirectoryAreRefused() throws Exception {
        try (Job job = Distribution.start()) {
            final Running first = run(job, "sh", "-c", "echo runs; exec sleep 1000");
            job.awaitLines(first, "runs", 1);
            final Running second = run(job, "true");
            assertEquals(1, second.awaitEnd(COMMAND));
            assertTrue(second.errors().contains("another one runs with the checkpoints in"), second.errors());
            signal(first, "TERM");
            assertEquals(AGAIN, first.awaitEnd(COMMAND), first.errors());
        }
    }
}
