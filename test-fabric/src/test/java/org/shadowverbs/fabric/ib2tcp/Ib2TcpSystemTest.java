// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.ib2tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** Jobs on the verbs device over TCP: from their first line, and after a restart of what ran on an HCA, and back. */
final class Ib2TcpSystemTest {
    private static final int RANKS = 2;
    /** What moves on a connection before it is cut, in bytes: without progress queue pairs run out of retries, as they should. */
    private static final int PROGRESS = 1 << 16;

    @Test
    void checkpointsAndRunsOn() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", RANKS);
            selfcheck.awaitConnected();
            selfcheck.work();
            job.checkpoint();
            selfcheck.work();
            selfcheck.stopAndVerify();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"--events", "--srq --rnr"})
    void restartsWhatRanOnAnHca(final String options) throws Exception {
        killAndRestart("hca", "ib2tcp", options.split(" "));
    }

    @ParameterizedTest
    @ValueSource(strings = {"--rnr", "--srq --extended --share 100"})
    void whatRanOnTcpRestartsOnAnHca(final String options) throws Exception {
        killAndRestart("ib2tcp", "hca", options.split(" "));
    }

    /** What is lost with a connection is sent again, and what had taken effect does not take effect again. */
    @ParameterizedTest
    @ValueSource(strings = {"--share 25 --events", "--share 25 --srq --rnr"})
    void survivesConnectionsThatAreCut(final String options) throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", 4, options.split(" "));
            selfcheck.awaitConnected();
            cut(job, program, 100);
            selfcheck.work();
            selfcheck.stopAndVerify();
        }
    }

    /** Also after a restart for which no backend is named; and connections are those of this job alone. */
    @Test
    void isChosenWhereThereIsNoDevice() throws Exception {
        Assumptions.assumeFalse(Files.exists(Path.of("/sys/class/infiniband")), "this host may have a verbs device");
        try (Job job = Distribution.start()) {
            job.backend(null);
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", RANKS);
            selfcheck.awaitConnected();
            assertEquals(1, program.lines("verbs go over TCP"), program.errors());
            assertSecretIsKept(program);
            cut(job, program, 1);
            final String folder = job.checkpoint().get("folder").asText();
            selfcheck.killHard();
            final Running restarted = job.restartAndAwait(folder, RANKS);
            selfcheck.work(restarted);
            cut(job, restarted, 1);
            selfcheck.stop(restarted);
            Selfcheck.verify(program);
        }
    }

    /** In its environment, which only its user can read, and on no command line. */
    private static void assertSecretIsKept(final Running program) throws Exception {
        final Path process = Path.of("/proc", Long.toString(program.pid()));
        final String secret = Stream.of(Files.readString(process.resolve("environ")).split("\0"))
                .filter(v -> v.startsWith("SHADOWVERBS_SECRET=")).findFirst().orElseThrow().split("=", 2)[1];
        assertEquals(64, secret.length());
        assertEquals("r--------", PosixFilePermissions.toString(
                Files.getPosixFilePermissions(process.resolve("environ"))));
        for (final ProcessHandle any : ProcessHandle.allProcesses().toList()) {
            assertFalse(any.info().commandLine().orElse("").contains(secret));
        }
    }

    private static void cut(final Job job, final Running program, final int cuts) throws Exception {
        final List<String> cut = new ArrayList<>(List.of(job.program("cut-tcp"), "--cuts", Integer.toString(cuts), "--moved",
                Integer.toString(PROGRESS)));
        program.descendants().forEach(rank -> cut.add(Long.toString(rank.pid())));
        job.runCommandLine("cut-tcp-" + program.name(), cut.toArray(new String[0])).succeed(Running.DEADLINE);
    }

    @Test
    void eightProcessesRunForAWhile() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", 8, "--seconds", "4", "--share", "100");
            program.succeed(Running.DEADLINE);
            Selfcheck.verify(program);
        }
    }

    private static void killAndRestart(final String first, final String second, final String... options)
            throws Exception {
        try (Job job = Distribution.start()) {
            job.backend(first);
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", RANKS, options);
            selfcheck.awaitConnected();
            selfcheck.work();
            final String folder = job.checkpoint().get("folder").asText();
            selfcheck.work();
            job.backend(second);
            selfcheck.killRestartAndVerify(folder);
        }
    }
}
