// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.command;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** The commands as a user runs them: statuses, one clear line for what is wrong, and JSON. */
final class CommandSystemTest {
    private static final Duration COMMAND = Running.DEADLINE;
    private static final ObjectMapper JSON = new ObjectMapper();

    @Test
    void commandsTellOfAJobAndEndIt() throws Exception {
        try (Job job = Distribution.start()) {
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", 2);
            selfcheck.awaitConnected();
            assertTrue(job.succeed("status", at(job)).contains("selfcheck"));
            assertEquals(2, JSON.readTree(job.succeed("status", at(job, "--json"))).get("ranks").size());
            final String folder = job.checkpoint().get("folder").asText();
            for (final long service : Stream.concat(job.coordinatorPids().stream(), job.agentPids().stream()).toList()) {
                // Where the kernel has such groups: programs that poll must leave the services what they need.
                final Path group = Path.of("/proc", Long.toString(service), "autogroup");
                assertTrue(!Files.exists(group) || Files.readString(group).contains("nice -19"), group.toString());
            }

            final JsonNode list = JSON.readTree(job.succeed("list", at(job, "--json")));
            assertEquals(1, list.get("schema").asInt());
            assertEquals(1, list.get("checkpoints").size());
            assertEquals(folder, list.get("checkpoints").get(0).get("folder").asText());
            assertTrue(list.get("checkpoints").get(0).get("problem").isNull());
            assertTrue(job.succeed("list", at(job)).contains(folder + "  "));

            assertTrue(JSON.readTree(job.succeed("kill", at(job, "--now", "--json"))).get("ok").asBoolean());
            assertTrue(program.awaitEnd(COMMAND) != 0);
            assertTrue(JSON.readTree(job.succeed("quit", at(job, "--json"))).get("ok").asBoolean());
            job.await("the coordinator's end", () -> job.coordinatorPids().isEmpty());
        }
    }

    /** The coordinator, and on this host the agent, are still those of the job that has ended. */
    @Test
    void aRestartTakesThePlaceOfAJobThatIsOver() throws Exception {
        try (Job job = Distribution.start()) {
            final Path go = job.work().resolve("go");
            final Running program = job.launch("in-error", job.program("in-error"), "--go", go.toString());
            job.awaitLines(program, "READY ", 2);
            job.awaitRanks(2, program);
            final String before = job.checkpoint().get("folder").asText();
            final Running tooEarly = job.restart(before);
            assertEquals(1, tooEarly.awaitEnd(COMMAND));
            assertTrue(tooEarly.errors().contains("shadowverbs quit -h 127.0.0.1 -p " + job.port()), tooEarly.errors());
            final String folder = job.checkpoint("--kill").get("folder").asText();
            assertTrue(program.awaitEnd(COMMAND) != 0);
            Files.createFile(go);
            job.restart(folder).succeed(COMMAND);
            assertEquals(2, program.lines("DONE ok "), program.output() + program.errors());
        }
    }

    /** The harness itself: also what nobody waits for any more, so that a test that fails is of no harm to the next. */
    @Test
    void aJobThatIsClosedLeavesNothingBehind() throws Exception {
        final long pid;
        try (Job job = Distribution.start()) {
            final Running program = job.runCommandLine("leaves", "setsid", "--fork", "sh", "-c", "echo $$; exec sleep 600");
            program.succeed(COMMAND);
            job.await("its pid", () -> program.lines("") == 1);
            pid = Long.parseLong(program.output().strip());
            assertTrue(ProcessHandle.of(pid).isPresent());
        }
        assertFalse(ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false));
    }

    @Test
    void aCheckpointThatKillsEndsTheJob() throws Exception {
        try (Job job = Distribution.start()) {
            job.startCoordinator("--exit-on-last");
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", 2);
            selfcheck.awaitConnected();
            final String folder = job.checkpoint("--kill").get("folder").asText();
            assertTrue(program.awaitEnd(COMMAND) != 0);
            awaitEnd(job, job.runDirectory());
            selfcheck.killRestartAndVerify(folder);
        }
    }

    /** What may be large, and the secret; of what processes have registered, all but the lock, which somebody may wait for. */
    @Test
    void aJobThatHasEndedLeavesNoIdsBehind() throws Exception {
        try (Job job = Distribution.start()) {
            job.startCoordinator("--exit-on-last");
            final Path run = job.runDirectory();
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", 2);
            selfcheck.awaitConnected();
            job.checkpoint();
            assertEquals(Set.of("published.map", "secret"), kept(run));
            final Path register = Files.createDirectories(run.resolve("xrc"));
            Files.createFile(register.resolve("lock"));
            Files.createFile(register.resolve("left-by-one-that-was-killed"));
            Files.createSymbolicLink(register.resolve("link"), Files.createFile(job.work().resolve("elsewhere")));
            selfcheck.stopAndVerify();
            awaitEnd(job, run);
            try (Stream<Path> files = Files.list(register)) {
                assertEquals(Set.of("lock", "link"), files.map(f -> f.getFileName().toString()).collect(Collectors.toSet()));
            }
            assertTrue(Files.exists(job.work().resolve("elsewhere")));

            job.startCoordinator("--exit-on-last");
            job.launch("short", "true").succeed(COMMAND); // the ids' file may not even be made
            awaitEnd(job, job.runDirectory());
        }
    }

    /** Waits until coordinator and agent have ended, and have removed what they are to remove. */
    private static void awaitEnd(final Job job, final Path run) throws Exception {
        job.await("the coordinator's end", () -> job.coordinatorPids().isEmpty());
        job.await("the agent's end", () -> job.agentPids().isEmpty());
        assertEquals(Set.of(), kept(run));
    }

    private static Set<String> kept(final Path run) throws Exception {
        try (Stream<Path> files = Files.list(run)) {
            return files.map(f -> f.getFileName().toString()).filter(f -> f.matches("(published|fetched)\\.map.*|secret.*"))
                    .map(f -> f.replaceFirst("^fetched\\.map-[0-9]+$", "fetched.map")).collect(Collectors.toSet());
        }
    }

    @Test
    void aProgramsStatusIsThatOfLaunch() throws Exception {
        try (Job job = Distribution.start()) {
            assertEquals(7, job.launch("seven", "sh", "-c", "exit 7").awaitEnd(COMMAND));
            assertEquals(127, oneLine(job.runCommand("launch", at(job, "no-such-program")), "no-such-program"));
            final Path plain = Files.createFile(job.work().resolve("plain"));
            assertEquals(126, oneLine(job.runCommand("launch", at(job, plain.toString())), plain.toString()));
        }
    }

    @Test
    void withoutACoordinatorEveryCommandSaysSo() throws Exception {
        try (Job job = Distribution.start()) {
            final String port = Integer.toString(LocalPort.free());
            for (final String command : List.of("checkpoint", "status", "kill", "quit")) {
                final Running run = job.runCommand(command, "-h", "127.0.0.1", "-p", port);
                assertEquals(1, oneLine(run, "no coordinator answers at 127.0.0.1:" + port));
            }
            assertEquals(1, oneLine(job.runCommand("launch", "-h", "127.0.0.1", "-p", port, "true"),
                    "no coordinator answers at 127.0.0.1:" + port));
        }
    }

    @Test
    void withoutCriuNothingIsLostAndDoctorNamesTheMend() throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_CRIU", "/nonexistent/criu"))) {
            final Running doctor = job.runCommand("doctor", "--json");
            assertEquals(1, doctor.awaitEnd(COMMAND), doctor.output());
            final JsonNode said = JSON.readTree(doctor.output());
            assertFalse(said.get("ok").asBoolean());
            boolean mend = false;
            for (final JsonNode check : said.get("checks")) {
                mend |= "criu".equals(check.get("subject").asText())
                        && check.get("mend").asText().contains("tools/setup.sh");
            }
            assertTrue(mend, doctor.output());

            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", 2);
            selfcheck.awaitConnected();
            final String problem = job.failCheckpoint().get("problem").asText();
            assertTrue(problem.contains("/nonexistent/criu") || problem.contains("CRIU"), problem);
            selfcheck.work();
            selfcheck.stopAndVerify();
        }
    }

    private static String[] at(final Job job, final String... more) {
        return Stream.concat(job.at().stream(), Stream.of(more))
                .toArray(String[]::new);
    }

    /** Waits for the end of a command that must print one line on stderr, and nothing else. @return its status */
    private static int oneLine(final Running command, final String says) throws Exception {
        final int status = command.awaitEnd(COMMAND);
        assertEquals("", command.output());
        assertEquals(1, command.errors().lines().count(), command.errors());
        assertTrue(command.errors().startsWith("shadowverbs: ") && command.errors().contains(says),
                command.errors());
        return status;
    }
}
