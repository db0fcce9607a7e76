// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.CheckpointKinds;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;

/**
 * The single cases of gate, drain, refill and replay: each program stands where it is difficult (its READY), is
 * checkpointed there, and checks afterwards that everything happened exactly once. All modes of a program run side by
 * side, from one shell: one launch and one image for all.
 */
final class PairSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    /** After 4 s of SENDs that wait for a receive: 6 times the longest timer, 655 ms. */
    private static final String RETRIES_THAT_RUN_OUT = "many --mode sends --count 4 --rnr-retry 6 --rnr-timer 0";

    /** One of the programs. @param file what it says */
    private record Case(String name, Path file) {
        String said() {
            try {
                return Files.readString(file);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        long lines(final String text) {
            return said().lines().filter(line -> line.contains(text)).count();
        }
    }

    /** @param shell has started them, and ends when they have, with status 0 if all have; one alone is in its place */
    private record Cases(Running shell, List<Case> each) {
        /** Waits for the end. @param running what it is that of: the shell, or the restart of it */
        void assertDone(final Running running) throws Exception {
            final int status = running.awaitEnd(ENDING);
            for (final Case one : each) {
                assertEquals(2, one.lines("DONE ok "), () -> one.name() + ": " + one.said());
            }
            assertEquals(0, status, running.output() + running.errors());
        }
    }

    /**
     * The checkpoint that the programs have gone on from to their ends is the one that they are restarted from. Devices stay open,
     * where finite retries would run out meanwhile, too: those connections are reset. A restart makes everything anew, as a
     * resume from the other kind does.
     */
    @ParameterizedTest
    @ValueSource(strings = {
        "rnr-wait --mode infinite, rnr-wait --mode infinite --signaled, rnr-wait --mode infinite --zero-length,"
                + "rnr-wait --mode finite, rnr-wait --mode finite --signaled, no-remote-write --mode arrived,"
                + "no-remote-write --mode blocked, no-remote-write --mode blocked --signaled, full-queue --mode last-signaled,"
                + RETRIES_THAT_RUN_OUT + ","
                + "full-queue --mode unsignaled, full-queue --signaled",
        "unread --mode all, unread --mode partly, in-error --mode fallen, in-error --mode limits, peer-left, extended-cq --mode plain,"
                + "extended-cq --mode timestamps, unreliable --mode uc, unreliable --mode ud, memory-window --mode type-2,"
                + "memory-window --mode type-1, memory-window --mode invalid",
        "sleeper --mode event, sleeper --mode epoll, sleeper --mode pending, unsignaled-tail --mode plain,"
                + "unsignaled-tail --mode inline, many --mode quiet, many --mode sends --count 512",
        "datagram, device, pacing, new-objects, held-sends --mode signaled, held-sends --mode tail,"
                + "held-sends --mode shared, held-sends --mode begun, xrc, many --mode blocked",
        // Of more threads than there are processors, none of which sleeps.
        "threads --mode signaled, threads --mode every-fourth", "many --mode busy --count 128",
        "xrc --signaled, xrc --mode opened, xrc --mode shared, xrc --mode shared --signaled, xrc --mode crossed,"
                + "xrc --mode crossed --signaled, xrc --mode landed, xrc --mode landed --signaled",
        "xrc --mode left, xrc --mode left --signaled, xrc --mode opened-by-sender, xrc --mode opened-by-sender --signaled, xrc --mode inherited,"
                + "xrc --mode inherited --signaled"
    })
    void goesOnAfterResumeAndAfterRestart(final String cases) throws Exception {
        try (Job job = Distribution.start()) {
            final Path go = job.work().resolve("go");
            job.kinds(CheckpointKinds.attached());
            if (cases.contains(RETRIES_THAT_RUN_OUT)) {
                // A timer lasts at least as long as it says, and a busy machine may take more than 4 s to begin a checkpoint.
                job.configure("SV_HCA_RNR_SLOWER=6");
            }
            final Cases programs = launch(job, go, cases.split(", *"));
            final JsonNode checkpoint = job.checkpoint();
            assertTrue(checkpoint.get("attached").asBoolean(), checkpoint.toString());
            if (cases.contains(RETRIES_THAT_RUN_OUT)) {
                assertTrue(checkpoint.get("queue_pairs_reset").asInt() > 0, checkpoint.toString());
            }
            final String folder = checkpoint.get("folder").asText();
            Files.createFile(go);
            programs.assertDone(programs.shell());
            Files.delete(go);
            restart(job, "hca", folder, go, programs);
        }
    }

    /** CRIU does not make their unlinked file again once their folder is gone, as it is after their ends: so there are two launches. */
    @Test
    void memoryThatBothRanksMapGoesOnAfterResumeAndAfterRestart() throws Exception {
        try (Job job = Distribution.start()) {
            final String[] cases = {"share-map --mode run", "share-map --mode rest"};
            final Path go = job.work().resolve("resumed");
            final Cases programs = launch(job, go, cases);
            job.checkpoint();
            Files.createFile(go);
            programs.assertDone(programs.shell());
            restart(job, "hca", cases);
        }
    }

    /**
     * Nobody acknowledges these messages. In the drain's second round, in which all connections settle, the receiver looks at
     * once. The sender's four completion queues take 200 ms, in which the device executes the rest of what it has sent.
     */
    @Test
    void messagesOfUcThatArriveBetweenTwoLooksAreNotLost() throws Exception {
        try (Job job = Distribution.start()) {
            job.configure("SV_HCA_EXEC_DELAY_US=320000");
            restart(job, "hca", "unreliable --mode uc-paced --poll-delay 50000");
        }
    }

    @ParameterizedTest
    @CsvSource({"hca, ib2tcp", "ib2tcp, hca"})
    void goesOnOnTheOtherBackend(final String first, final String second) throws Exception {
        try (Job job = Distribution.start()) {
            job.backend(first);
            final String[] cases = {"memory-window --mode type-2", "memory-window --mode type-1",
                "memory-window --mode invalid", "unreliable --mode uc", "unreliable --mode ud",
                "extended-cq --mode timestamps", "datagram --mode group", "datagram --mode unicast",
                "held-sends --mode tail", "held-sends --mode shared", "held-sends --mode begun", "xrc --signaled", "xrc --mode opened",
                "xrc --mode shared", "in-error --mode fallen", "in-error --mode limits", "peer-left"};
            restart(job, second, cases);
        }
    }

    /** What the new device cannot give is said, and the queue pairs go on without. */
    @Test
    void rateLimitsAreLostOnADeviceWithoutPacketPacing() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("hca");
            final Case program = restart(job, "ib2tcp", "pacing").each().getFirst();
            for (final int rate : new int[] {9000, 12000}) {
                assertEquals(2, program.lines(" goes on without its rate limit of " + rate
                        + " kbit/s: the device has no packet pacing"), program::said);
            }
        }
    }

    /** Over ib2tcp a shared receive queue of another process is out of reach: the restart says so, and sends nothing. */
    @Test
    void whatReachesQueuesOfOtherProcessesDoesNotGoOverToIb2tcp() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("hca");
            final Path go = job.work().resolve("go");
            final Cases program = launch(job, go, "xrc --mode crossed");
            final String folder = job.checkpoint().get("folder").asText();
            program.shell().killHard();
            job.startCoordinator();
            job.backend("ib2tcp");
            final Running restart = job.restart(folder);
            assertEquals(1, restart.awaitEnd(ENDING), restart.output());
            assertTrue(restart.errors().contains("its requests have named XRC's shared receive queues of other processes than the"
                    + " peer's, which ib2tcp does not have"), restart.errors());
            assertEquals(0, program.each().getFirst().lines("DONE ok "));
        }
    }

    /** Its half of the common view is missing: the checkpoint is given up, and the others settle among themselves. */
    @Test
    void aProcessThatSharesADomainIsKilledWhileItDrains() throws Exception {
        try (Job job = Distribution.start()) {
            final Path go = job.work().resolve("go");
            final String one = "xrc --mode crossed --domain " + job.work().resolve("domain");
            final Running victim = launch(job, go, one).shell();
            final Cases survivor = launch(job, go, one);
            job.set("withhold_polls=1000000000");
            final Running checkpoint = job.startCheckpoint();
            job.await("the drain", () -> "DRAIN".equals(job.stage()), checkpoint);
            // With the one of a pair the other ends, too; either may be missed first.
            final List<ProcessHandle> pair = victim.descendants();
            pair.getFirst().destroyForcibly();
            job.set("withhold_polls=0");
            final String problem = job.failed(checkpoint).get("problem").asText();
            assertTrue(problem.contains("died") && problem.contains("DRAIN")
                    && pair.stream().anyMatch(p -> problem.contains("pid " + p.pid() + ')')), problem);
            assertTrue(victim.awaitEnd(ENDING) != 0);
            job.awaitRanks(2, survivor.shell());
            final String folder = job.checkpoint().get("folder").asText();
            survivor.shell().killHard();
            final Running restarted = job.restartAndAwait(folder, 2);
            Files.createFile(go);
            survivor.assertDone(restarted);
        }
    }

    /** Launches, saves, kills, and restarts. */
    private static Cases restart(final Job job, final String backend, final String... cases) throws Exception {
        final Path go = job.work().resolve("go");
        final Cases programs = launch(job, go, cases);
        final String folder = job.checkpoint().get("folder").asText();
        programs.shell().killHard();
        restart(job, backend, folder, go, programs);
        return programs;
    }

    private static void restart(final Job job, final String backend, final String folder, final Path go, final Cases programs)
            throws Exception {
        job.backend(backend);
        final Running restarted = job.restartAndAwait(folder, 2 * programs.each().size());
        Files.createFile(go);
        programs.assertDone(restarted);
    }

    /** Those whose retries run out begin when all others are ready, however long that takes. */
    private static Cases launch(final Job job, final Path go, final String... cases) throws Exception {
        final Path folder = Files.createTempDirectory(job.work(), go.getFileName() + "-cases-");
        final Path begin = folder.resolve("begin");
        final List<String> commands = new ArrayList<>();
        final List<Case> programs = new ArrayList<>();
        final List<Case> patient = new ArrayList<>();
        for (final String one : cases) {
            final List<String> command = new ArrayList<>(List.of(one.split(" ")));
            final String name = command.getFirst();
            command.set(0, job.program(name));
            command.addAll(List.of("--go", go.toString()));
            if (name.equals("xrc") && !command.contains("--domain")) {
                // That of the program itself goes with its folder at its end, and is missed in a restart after that.
                command.addAll(List.of("--domain", job.work().resolve("domain-" + programs.size()).toString()));
            }
            final boolean runsOut = one.equals(RETRIES_THAT_RUN_OUT) || one.contains("--mode finite");
            if (runsOut) {
                command.addAll(List.of("--begin", begin.toString()));
            }
            programs.add(new Case(one, Files.createFile(folder.resolve(programs.size() + "-" + name))));
            commands.add(String.join(" ", command) + " >" + programs.getLast().file() + " 2>&1");
            if (!runsOut) {
                patient.add(programs.getLast());
            }
        }
        final String script = commands.size() == 1 ? "exec " + commands.getFirst()
                : String.join(" & p=\"$p $!\"; ", commands) + " & p=\"$p $!\"; s=0; for i in $p; do wait $i || s=1; done; exit $s";
        final Running shell = job.launch(folder.getFileName().toString(), "sh", "-c", script);
        job.awaitRanks(2 * cases.length, shell);
        awaitReady(job, patient, shell);
        Files.createFile(begin);
        awaitReady(job, programs, shell);
        return new Cases(shell, programs);
    }

    private static void awaitReady(final Job job, final List<Case> programs, final Running shell) throws Exception {
        for (final Case one : programs) {
            job.await(one.name() + " to be ready", () -> one.lines("READY ") >= 2, shell);
        }
    }
}
