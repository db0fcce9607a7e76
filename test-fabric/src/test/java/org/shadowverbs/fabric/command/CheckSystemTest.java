// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.command;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** What would make every checkpoint of a job fail is said while its programs run, and they are not disturbed. */
final class CheckSystemTest {
    private static final Duration COMMAND = Running.DEADLINE;
    private static final int SOMEBODY = 12345;
    private static final String SAID = "shadowverbs: no checkpoint of this job can be made as it is: ";

    private static Job start(final boolean root) throws Exception {
        final Job job = Distribution.start(Map.of("SHADOWVERBS_SECRET", "known to this test alone"));
        if (!root) {
            job.user(SOMEBODY);
        }
        return job;
    }

    private static String[] at(final Job job, final String... more) {
        return Stream.concat(job.at().stream(), Stream.of(more)).toArray(String[]::new);
    }

    /** Devices, the links of the ranks to each other, and those to their agent are no reason. */
    @ParameterizedTest
    @CsvSource({"hca, true", "hca, false", "ib2tcp, true", "ib2tcp, false"})
    void aJobThatCanBeSavedIsNotDisturbed(final String backend, final boolean root) throws Exception {
        try (Job job = start(root)) {
            job.backend(backend);
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", 2);
            selfcheck.awaitConnected();
            selfcheck.work();
            assertEquals("a checkpoint can be made now\n", job.succeed("checkpoint", at(job, "--check")));
            selfcheck.work();
            assertTrue(job.status().get("check").get("possible").asBoolean(), job.status()::toString);
            assertFalse(Files.exists(job.checkpoints()));
            assertFalse(program.errors().contains(SAID), program.errors());
            final String folder = job.checkpoint("--kill").get("folder").asText();
            selfcheck.restartAndVerify(folder);
        }
    }

    @ParameterizedTest
    @CsvSource({"true", "false"})
    void whatStandsInTheWayIsSaidToWhoHasLaunched(final boolean root) throws Exception {
        try (Job job = start(root); ServerSocket other = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            final Path close = job.work().resolve("close");
            final Running program = job.launch("talker", "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/" + other.getLocalPort()
                    + "; until [ -e '" + close + "' ]; do sleep 0.1; done; exec 3>&-; echo closed; exec sleep 1000");
            other.setSoTimeout((int) COMMAND.toMillis());
            final Socket talker = other.accept();
            job.await("the line", () -> program.lines(SAID) > 0, program);
            final String connection = "a TCP connection to 127.0.0.1:" + other.getLocalPort();
            final String line = program.errors().lines().filter(l -> l.startsWith(SAID)).findFirst().orElseThrow();
            assertTrue(line.contains(connection) && line.contains("fd 3"), line);

            final Running check = job.runCommand("checkpoint", at(job, "--check"));
            assertEquals(1, check.awaitEnd(COMMAND));
            assertEquals(1, check.errors().lines().count(), check.errors());
            assertTrue(check.errors().startsWith("shadowverbs: host ") && check.errors().contains(connection), check.errors());
            assertTrue(job.succeed("status", at(job)).contains("no checkpoint could be made at "));
            assertTrue(job.status().get("check").get("reasons").get(0).asText().contains(connection));

            Files.createFile(close);
            job.awaitLines(program, "closed", 1);
            talker.close();
            final JsonNode answer = new ObjectMapper().readTree(job.succeed("checkpoint", at(job, "--check", "--json")));
            assertTrue(answer.get("check").get("possible").asBoolean(), answer::toString);
            assertEquals(1, program.lines(SAID), program.errors());
            job.checkpoint();
        }
    }
}
