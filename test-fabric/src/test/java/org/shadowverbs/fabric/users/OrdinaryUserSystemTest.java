// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.users;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** A user without any privilege: his jobs are saved and come back as root's do, and what he cannot have he is told by name. */
final class OrdinaryUserSystemTest {
    private static final Duration COMMAND = Running.DEADLINE;
    private static final int SOMEBODY = 12345;

    /** The test asks the job as root, who takes no secret from a file of the user's. */
    private static Job start() throws Exception {
        final Job job = Distribution.start(Map.of("SHADOWVERBS_SECRET", "known to this test alone"));
        job.user(SOMEBODY);
        return job;
    }

    @ParameterizedTest
    @CsvSource({"hca, hca", "hca, ib2tcp", "ib2tcp, ib2tcp"})
    void goesOnAfterCheckpointAndAfterTwoRestarts(final String first, final String second) throws Exception {
        try (Job job = start()) {
            job.backend(first);
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", 2);
            selfcheck.awaitConnected();
            selfcheck.work();
            assertTrue(job.checkpoint("--pre-copy").at("/phase_ms/pre_copy").isNumber());
            selfcheck.work();
            assertTrue(job.succeed("status", job.at().toArray(String[]::new)).contains("job root "));
            String folder = job.checkpoint("--kill", "--pre-copy").get("folder").asText();
            assertEquals(137, program.awaitEnd(COMMAND));
            assertEquals(SOMEBODY, Files.getAttribute(Path.of(folder, "manifest.json"), "unix:uid"));
            job.backend(second);
            final Running restarted = job.restartAndAwait(folder, 2);
            selfcheck.work(restarted);
            folder = job.checkpoint("--kill").get("folder").asText();
            restarted.awaitEnd(COMMAND);
            selfcheck.restartAndVerify(folder);
        }
    }

    /** Each rank by a launch of its own: they are one tree. */
    @Test
    void ranksThatWereLaunchedSideBySideGoOn() throws Exception {
        try (Job job = start()) {
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launchOneByOne(2);
            selfcheck.awaitConnected();
            selfcheck.work();
            final String folder = job.checkpoint().get("folder").asText();
            selfcheck.work();
            selfcheck.killRestartAndVerify(folder);
        }
    }

    /** What their own memory is to two programs that share a file: see neighbours. */
    @Test
    void systemVMemoryIsRefusedByName() throws Exception {
        try (Job job = start()) {
            final Path file = job.work().resolve("shared");
            final Path stop = job.work().resolve("stop");
            final Running program = job.launch("neighbour", job.program("neighbours"), "0", file.toString(), stop.toString());
            job.await("the memory", () -> Files.exists(file) && program.descendants().size() == 1, program);
            job.await("its first turn", () -> sharedCount(file) == 1, program);
            final String problem = job.failCheckpoint().get("problem").asText();
            assertTrue(problem.contains("System V shared memory"), problem);
            Files.createFile(stop);
            program.succeed(COMMAND);
        }
    }

    private static long sharedCount(final Path file) {
        try {
            final byte[] count = Files.readAllBytes(file);
            return count.length == 0 ? 0 : count[0];
        } catch (java.io.IOException e) {
            return 0;
        }
    }

    @Test
    void anOpenTcpConnectionIsRefusedByName() throws Exception {
        try (Job job = start()) {
            final Running program = job.launch("talker", "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/" + job.port()
                    + "; echo open; exec sleep 1000");
            job.awaitLines(program, "open", 1);
            final String problem = job.failCheckpoint().get("problem").asText();
            assertTrue(problem.contains("a TCP connection to 127.0.0.1:" + job.port() + " cannot be saved without root's"
                    + " rights"), problem);
        }
    }

    /** As where the site has forbidden them: no more may be made in the namespace that the launch is in. */
    @Test
    void withoutUserNamespacesLaunchSaysSoAtOnce() throws Exception {
        try (Job job = start()) {
            final String launch = Distribution.DIST.resolve("bin/shadowverbs") + " launch " + String.join(" ", job.at()) + " -- true";
            final Running refused = job.runCommandLine("refused", "setpriv", "--reuid", "12345", "--regid", "12345",
                    "--clear-groups", "unshare", "--user", "--map-user=12345", "--keep-caps", "sh", "-c",
                    "echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --inh-caps -all --ambient-caps -all " + launch);
            assertEquals(1, refused.awaitEnd(COMMAND));
            assertTrue(refused.errors().contains("a user namespace: No space left on device"), refused.errors());
            assertTrue(refused.errors().contains("run the job as root"), refused.errors());
        }
    }
}
