// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.users;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LiveFolder;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** What other users of the machine can read, and what they could make root run. */
final class OtherUsersSystemTest {
    private static final Duration COMMAND = Running.DEADLINE;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int SOMEBODY = 65534;

    /** The umask that is kindest to them; XRC's shared queue pairs are those whose ranks write files of their own. */
    @Test
    void nothingOfAJobIsForOthersWhateverTheUmask() throws Exception {
        try (Job job = Distribution.start()) {
            job.umask("0");
            job.startCoordinator();
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", 2, "--xrc");
            selfcheck.awaitConnected();
            selfcheck.work();
            final String folder = job.checkpoint().get("folder").asText();
            assertEquals(List.of(), openToOthers(job));
            selfcheck.killRestartAndVerify(folder);
            assertEquals(List.of(), openToOthers(job));
        }
    }

    private static List<String> openToOthers(final Job job) throws IOException {
        final List<String> open = new ArrayList<>();
        for (final Path root : List.of(job.checkpoints(), job.work().resolve("run"), job.fabric())) {
            LiveFolder.visit(root, (path, attributes) -> {
                final int mode = (int) Files.getAttribute(path, "unix:mode", LinkOption.NOFOLLOW_LINKS);
                final boolean ofTheTest = path.equals(job.fabric().resolve("conf"));
                if (!attributes.isSymbolicLink() && !ofTheTest && (mode & 077) != 0) {
                    open.add(Integer.toOctalString(mode) + " " + path);
                }
            });
        }
        return open;
    }

    /** Who knows where the coordinator listens, and not the job's secret; with and without root in the job. */
    @ParameterizedTest
    @ValueSource(ints = {0, 12345})
    void anotherUserNeitherSeesNorJoinsNorEndsAJob(final int owner) throws Exception {
        final Path own = Files.createTempDirectory("shadowverbs-other-");
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_SECRET", "known to this job alone"))) {
            Files.setAttribute(own, "unix:uid", SOMEBODY);
            if (owner != 0) {
                job.user(owner);
            }
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", 2);
            selfcheck.awaitConnected();
            final Path folder = Path.of(job.checkpoint().get("folder").asText());
            final String shadowverbs = Distribution.DIST.resolve("bin/shadowverbs") + " ";
            final String at = " " + String.join(" ", job.at());
            for (final String command : List.of("status" + at, "checkpoint" + at, "kill --now" + at, "quit" + at,
                    "launch" + at + " -- true")) {
                final String said = refusedOther(job, own, shadowverbs + command);
                assertTrue(said.contains("wrong job secret"), command + ": " + said);
            }
            refusedOther(job, own, shadowverbs + "restart " + folder);
            refusedOther(job, own, "cat " + folder.resolve("manifest.json"));
            refusedOther(job, own, "ls " + job.work().resolve("run"));
            refusedOther(job, own, "kill -9 " + program.pid());
            selfcheck.work();
            job.checkpoint();
            selfcheck.stopAndVerify();
        } finally {
            Job.remove(own);
        }
    }

    /** @return what it said */
    private static String refusedOther(final Job job, final Path own, final String command) throws Exception {
        final List<String> words = new ArrayList<>(Job.commandOf(SOMEBODY));
        words.addAll(List.of("env", "-u", "SHADOWVERBS_SECRET", "SHADOWVERBS_RUN_DIR=" + own, "TMPDIR=" + own, "sh", "-c",
                "cd " + own + " && " + command));
        final Running other = job.runCommandLine("other", words.toArray(String[]::new));
        assertTrue(other.awaitEnd(COMMAND) != 0, command + ": " + other.output());
        return other.errors();
    }

    @Test
    void aCheckpointThatOthersCanReadIsNamedAndOneThatTheyCouldHaveWrittenIsRefused() throws Exception {
        try (Job job = Distribution.start()) {
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", 2);
            selfcheck.awaitConnected();
            final Path folder = Path.of(job.checkpoint("--kill").get("folder").asText());

            final String chmod = "open to other users; close it with: chmod -R go= " + folder;
            assertFalse(job.succeed("list", job.checkpoints().toString()).contains("open"));
            Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
            assertTrue(job.succeed("list", job.checkpoints().toString()).contains(chmod));
            final JsonNode list = JSON.readTree(job.succeed("list", "--json", job.checkpoints().toString()));
            assertTrue(list.get("checkpoints").get(0).get("open").asBoolean());

            // What may be read may be restarted; what another may write may not, also when only a folder above it is his.
            final Path manifest = folder.resolve("manifest.json");
            Files.setAttribute(manifest, "unix:uid", SOMEBODY);
            refused(job, folder, manifest + " belongs to user " + SOMEBODY);
            Files.setAttribute(manifest, "unix:uid", 0);
            Files.setAttribute(job.checkpoints(), "unix:uid", SOMEBODY);
            refused(job, folder, job.checkpoints() + " belongs to user " + SOMEBODY);

            final Path copy = job.work().resolve("copy");
            job.runCommandLine("cp", "sh", "-c", "umask 077; cp -R " + folder + " " + copy).succeed(COMMAND);
            Files.setAttribute(job.checkpoints(), "unix:uid", 0);
            selfcheck.restartAndVerify(copy.toString());
        }
    }

    @Test
    void aFabricThatAnotherUserHasMadeIsRefused() throws Exception {
        try (Job job = Distribution.start()) {
            Files.setAttribute(job.fabric(), "unix:uid", SOMEBODY);
            final Running info = job.runNative("info", "ibv_devinfo");
            assertTrue(info.awaitEnd(COMMAND) != 0);
            assertTrue(info.errors().contains(job.fabric() + " belongs to another user"), info.errors());
        }
    }

    private static void refused(final Job job, final Path folder, final String problem) throws Exception {
        final Running restart = job.restart(folder.toString());
        assertEquals(1, restart.awaitEnd(COMMAND));
        assertEquals(1, restart.errors().lines().count(), restart.errors());
        assertTrue(restart.errors().contains(problem), restart.errors());
    }
}
