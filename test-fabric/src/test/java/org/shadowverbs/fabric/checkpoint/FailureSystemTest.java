// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.CriuWithObstacle;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/**
 * What goes wrong in a checkpoint ends the checkpoint and not the job: the command says what it was, the others go on,
 * and the checkpoint before is still good. Two programs of two ranks each run; harm comes to the first only.
 */
final class FailureSystemTest {
    private static final Duration COMMAND = Running.DEADLINE;
    private static final int EACH = 2;

    private Selfcheck selfcheck;
    private Running victim;
    private Running survivor;
    private int victims;

    /** Each time another program is the victim, and what survives goes on as if it had never been there. */
    @Test
    void ranksAreKilledWhileGatesCloseQueuesDrainAndImagesAreSaved() throws Exception {
        try (CriuWithObstacle criu = CriuWithObstacle.thatWaits(); Job job = Distribution.start(criu.environment())) {
            final String before = launchAndCheckpoint(job);
            ProcessHandle rank = rank(victim);
            signal("STOP", rank.pid()); // it never answers, so the others wait
            Running checkpoint = job.startCheckpoint();
            job.await("the checkpoint to begin", () -> job.stage().matches("ANNOUNCE|CLOSE"), checkpoint);
            signal("KILL", rank.pid());
            assertDied(job.failed(checkpoint), rank);
            othersWork();

            rank = rank(launchAnotherVictim(job));
            withholdCompletions(job, true);
            checkpoint = job.startCheckpoint();
            job.await("the drain", () -> "DRAIN".equals(job.stage()), checkpoint);
            signal("KILL", rank.pid());
            withholdCompletions(job, false);
            assertDied(job.failed(checkpoint), rank);
            othersWork();

            rank = rank(launchAnotherVictim(job));
            killWhileImagesAreSaved(job, criu, rank);
            othersGoOn(job);
            selfcheck.killRestartAndVerify(before);
        }
    }

    @Test
    void aRankInAJobRootIsKilledWhileImagesAreSaved() throws Exception {
        try (CriuWithObstacle criu = CriuWithObstacle.thatWaits();
                Job job = Distribution.startInJobRoot(criu.environment())) {
            final String before = launchAndCheckpoint(job);
            killWhileImagesAreSaved(job, criu, rank(victim));
            othersGoOn(job);
            selfcheck.killRestartAndVerify(before);
        }
    }

    private static void killWhileImagesAreSaved(final Job job, final CriuWithObstacle criu, final ProcessHandle rank)
            throws Exception {
        criu.put();
        final Running checkpoint = job.startCheckpoint();
        job.await("CRIU to be run", criu::isMet, checkpoint);
        signal("KILL", rank.pid());
        criu.remove();
        assertDied(job.failed(checkpoint), rank);
    }

    /** The checkpoint is safe; the others wait for it behind their gates, and then all go on. */
    @Test
    void aRankIsStoppedOnTheWayBack() throws Exception {
        try (CriuWithObstacle criu = CriuWithObstacle.thatWaits(); Job job = Distribution.start(criu.environment())) {
            job.startCoordinator("--ckptdir", job.checkpoints().toString(), "--deadline", "4");
            launch(job);
            final ProcessHandle rank = rank(victim);
            criu.put();
            final Running checkpoint = job.startCheckpoint("--detached");
            job.await("CRIU to be run", criu::isMet, checkpoint);
            signal("STOP", rank.pid()); // it is frozen, and stays where it is when it is thawed
            criu.remove();
            job.awaitLines(checkpoint, "did not finish PUBLISHED within 4 s; the way back begins again", 2);
            signal("CONT", rank.pid());
            final JsonNode result = job.checkpointed(checkpoint);
            assertTrue(Files.isDirectory(Path.of(result.get("folder").asText())), result.toString());
            assertTrue(result.get("late").get(0).asText().contains("pid " + rank.pid()), result.toString());
            selfcheck.work();
            job.checkpoint();
            selfcheck.work();
            selfcheck.stopAndVerify();
        }
    }

    /** All or nothing: what was restored ends, and the checkpoint is as good as before. */
    @Test
    void aRankThatCannotConnectAgainEndsTheRestart() throws Exception {
        try (Job job = Distribution.start()) {
            final Path conf = Files.createFile(job.work().resolve("conf-of-the-victim"));
            final Selfcheck victims = new Selfcheck(job, "env", "SV_HCA_CONF=" + conf, job.program("selfcheck"));
            victims.launch("victim", EACH);
            victims.awaitConnected();
            launch(job);
            final String folder = job.checkpoint().get("folder").asText();
            victims.killHard();
            selfcheck.killHard();
            Files.writeString(conf, "SV_HCA_FABRIC=/dev/null/none\n");
            job.startCoordinator();
            final Running failed = job.restart(folder);
            assertEquals(1, failed.awaitEnd(COMMAND), failed.errors());
            assertEquals(1, failed.lines("shadowverbs: restart: rank "), failed.errors());
            assertTrue(failed.errors().contains("cannot open device"), failed.errors());
            assertEquals(0, failed.lines("shadowverbs: restored "), failed.errors());
            job.await("all that was restored to end", () -> job.hasRanks(0));
            Files.writeString(conf, "");
            victims.killRestartAndVerify(folder);
            Selfcheck.verify(victim);
            Selfcheck.verify(survivor);
        }
    }

    @Test
    void thereIsNoSpaceForTheImages() throws Exception {
        try (Job job = Distribution.start()) {
            final Path small = Files.createDirectory(job.work().resolve("small"));
            run("mount", "-t", "tmpfs", "-o", "size=8m", "none", small.toString());
            try {
                job.startCoordinator("--ckptdir", small.toString());
                launch(job);
                final String problem = job.failCheckpoint().get("problem").asText();
                assertTrue(problem.contains("No space left on device") || problem.contains("space"), problem);
                try (Stream<Path> left = Files.list(small)) {
                    assertEquals(List.of(), left.toList());
                }
                selfcheck.work();
                selfcheck.stopAndVerify();
            } finally {
                run("umount", "-l", small.toString());
            }
        }
    }

    @Test
    void theCoordinatorIsKilled() throws Exception {
        try (CriuWithObstacle criu = CriuWithObstacle.thatWaits(); Job job = Distribution.start(criu.environment())) {
            launchAndCheckpoint(job);
            killCoordinator(job);
            // By that name, too, it is there to be compared with: a number of a file is used again.
            final Path published = Files.createLink(job.work().resolve("published"), job.runDirectory().resolve("published.map"));
            final String secret = Files.readString(job.runDirectory().resolve("secret"));
            selfcheck.work();
            final Running orphaned = job.startCheckpoint();
            assertEquals(1, orphaned.awaitEnd(COMMAND));
            assertTrue(orphaned.errors().contains("no coordinator answers at 127.0.0.1:" + job.port()),
                    orphaned.errors());
            job.recoverCoordinator();
            job.awaitRanks(selfcheck.ranks(), victim, survivor);
            assertTrue(Files.isSameFile(published, job.runDirectory().resolve("published.map")));
            assertEquals(secret, Files.readString(job.runDirectory().resolve("secret")));

            criu.put();
            final Running checkpoint = job.startCheckpoint();
            job.await("CRIU to be run", criu::isMet, checkpoint);
            killCoordinator(job);
            assertEquals(1, checkpoint.awaitEnd(COMMAND), checkpoint.errors());
            criu.remove();
            job.recoverCoordinator();
            job.awaitRanks(selfcheck.ranks(), victim, survivor);
            selfcheck.work();
            selfcheck.killRestartAndVerify(job.checkpoint().get("folder").asText());
        }
    }

    /** And the one before is as good as it was, until it is damaged itself. */
    @Test
    void criuFailsAndDamagedCheckpointsAreRefusedByName() throws Exception {
        try (CriuWithObstacle criu = CriuWithObstacle.thatFails(); Job job = Distribution.start(criu.environment())) {
            final Path folder = Path.of(launchAndCheckpoint(job));
            criu.put();
            final String problem = job.failCheckpoint().get("problem").asText();
            assertTrue(problem.contains("CRIU"), problem);
            criu.remove();
            selfcheck.work();
            job.checkpoint();
            selfcheck.killHard();
            job.startCoordinator();
            final Path image;
            try (Stream<Path> files = Files.walk(folder)) {
                image = files.filter(f -> f.getFileName().toString().startsWith("pages-"))
                        .max(Comparator.comparing(f -> f.toFile().length())).orElseThrow();
            }
            damage(image);
            assertRefused(job, folder, image.toString());
            damage(image); // back again
            final Path manifest = folder.resolve("manifest.json");
            final byte[] whole = Files.readAllBytes(manifest);
            damage(manifest);
            assertRefused(job, folder, manifest.toString());
            Files.write(manifest, java.util.Arrays.copyOf(whole, whole.length / 2));
            assertRefused(job, folder, manifest.toString());
            Files.delete(manifest);
            assertRefused(job, folder, folder.toString());
            Files.write(manifest, whole);
            selfcheck.killRestartAndVerify(folder.toString());
        }
    }

    // ---- the job ----

    private void launch(final Job job) throws Exception {
        selfcheck = new Selfcheck(job);
        victim = selfcheck.launch("victim", EACH);
        survivor = selfcheck.launch("survivor", EACH);
        selfcheck.awaitConnected();
        selfcheck.work();
    }

    private String launchAndCheckpoint(final Job job) throws Exception {
        launch(job);
        return job.checkpoint().get("folder").asText();
    }

    /** One that is in no checkpoint yet. */
    private Running launchAnotherVictim(final Job job) throws Exception {
        final Selfcheck another = new Selfcheck(job);
        victim = another.launch("victim-" + ++victims, EACH);
        another.awaitConnected();
        another.work();
        return victim;
    }

    private void othersWork() throws Exception {
        selfcheck.work(survivor);
        assertTrue(victim.awaitEnd(COMMAND) != 0, "the peer of the killed rank did not notice");
    }

    /** Works on, is checkpointed without the victim's ranks, and ends with every operation intact. */
    private void othersGoOn(final Job job) throws Exception {
        othersWork();
        job.checkpoint();
        selfcheck.stop(survivor);
        Selfcheck.verify(survivor);
    }

    /** In a job root the program itself descends from what was started, too; its ranks are younger. */
    private static ProcessHandle rank(final Running program) {
        return program.descendants().getLast();
    }

    /** One side of ibv_rc_pingpong under the preload, the other not: it cannot be saved, is named, and ends as if nobody had tried. */
    @Test
    void aPeerOutsideTheJobIsRefusedWithoutHarm() throws Exception {
        try (Job job = Distribution.start()) {
            job.configure(Job.SLOW);
            final int port = LocalPort.free();
            final List<String> command = new ArrayList<>(
                    List.of("ibv_rc_pingpong", "-c", "-n", "5000", "-p", Integer.toString(port)));
            final Running outside = job.runNative("outside", command.toArray(new String[0]));
            job.await("the server to listen", LocalPort.listens(port), outside);
            command.add("127.0.0.1");
            final Running inside = job.launch("inside", command.toArray(new String[0]));
            job.awaitRanks(1, inside, outside);
            job.await("traffic", () -> inside.processorSeconds() > 1, inside, outside);
            final List<String> words = new ArrayList<>(job.at());
            words.add("--check");
            final Running check = job.runCommand("checkpoint", words.toArray(new String[0]));
            assertEquals(1, check.awaitEnd(COMMAND));
            assertTrue(check.errors().contains("rank 0 (host ") && check.errors().contains("the peer is outside the job"),
                    check.errors());
            for (int i = 0; i < 3; i++) {
                final String problem = job.failed(job.startCheckpoint()).get("problem").asText();
                assertTrue(problem.contains("the peer is outside the job"), problem);
            }
            job.set("exec_delay_us=0");
            for (final Running program : List.of(inside, outside)) {
                assertEquals(0, program.awaitEnd(COMMAND), program.errors());
                assertEquals(1, program.lines("5000 iters in"), program.output() + program.errors());
            }
        }
    }

    /** No device to go back to: the program is told so by every verb, can destroy what it has, and is not harmed otherwise. */
    @Test
    void aProcessThatCannotBeReattachedCanStillDestroyItsObjects() throws Exception {
        try (Job job = Distribution.start()) {
            final Path go = job.work().resolve("go");
            final Running program = job.launch("lost-device", job.program("lost-device"), go.toString());
            job.awaitLines(program, "READY", 1);
            job.awaitRanks(1, program);
            job.configure("SV_HCA_DEVICES=0");
            final Running checkpoint = job.startCheckpoint("--detached");
            job.await("the line about it", () -> program.lines("this process cannot be reattached: this host has no RDMA device") == 1,
                    program);
            checkpoint.awaitEnd(COMMAND);
            Files.createFile(go);
            assertEquals(0, program.awaitEnd(COMMAND), program.output() + program.errors());
            assertEquals(1, program.lines("DONE ok"), program.output() + program.errors());
        }
    }

    private static void assertDied(final JsonNode result, final ProcessHandle rank) {
        final String problem = result.get("problem").asText();
        assertTrue(problem.contains("pid " + rank.pid()), problem);
        // Whoever notices first says it: the one that saves it may.
        assertTrue(problem.contains("died") || problem.contains("has ended while it was saved"), problem);
    }

    private static void withholdCompletions(final Job job, final boolean on) throws Exception {
        job.set("withhold_polls=" + (on ? "1000000000" : "0"));
    }

    private static void killCoordinator(final Job job) throws Exception {
        final List<Long> pids = job.coordinatorPids();
        assertEquals(1, pids.size(), pids.toString());
        signal("KILL", pids.getFirst());
        // Not by its handle: where nobody reaps orphans, what is left of it counts as alive.
        job.await("the coordinator's end", () -> job.coordinatorPids().isEmpty());
    }

    private static void assertRefused(final Job job, final Path folder, final String name) throws Exception {
        final Running restart = job.restart(folder.toString());
        assertEquals(1, restart.awaitEnd(COMMAND));
        assertTrue(restart.errors().contains(name), restart.errors());
        assertEquals(1, restart.errors().lines().count(), restart.errors());
        assertEquals(0, job.status().get("ranks").size());
    }

    /** Inverts a byte in the middle. */
    private static void damage(final Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            final java.nio.ByteBuffer one = java.nio.ByteBuffer.allocate(1);
            final long middle = channel.size() / 2;
            channel.read(one, middle);
            one.put(0, (byte) ~one.get(0)).flip();
            channel.write(one, middle);
        }
    }

    private static void signal(final String name, final long pid) throws Exception {
        run("kill", "-" + name, Long.toString(pid));
    }

    private static void run(final String... command) throws IOException, InterruptedException {
        final int status = new ProcessBuilder(command).inheritIO().start().waitFor();
        assertEquals(0, status, String.join(" ", command));
    }
}
