// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.hosts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.TwoNodes;

/** What {@code shadowverbs rsh} is to a program of the job that calls it in place of ssh. */
@Timeout(120)
final class RemoteShellSystemTest {
    private static final Duration ENDING = Running.DEADLINE;

    private TwoNodes nodes;

    /** The agent on the other node is started by ssh, the second command finds it there. */
    @Test
    void carriesStreamsStatusDirectoryAndEnvironment() throws Exception {
        try (TwoNodes two = TwoNodes.start(Map.of("OF_THE_USER", "a word"))) {
            nodes = two;
            final Path input = Files.writeString(two.work().resolve("input"), "line\n".repeat(1_000_000));
            final Path there = two.work().resolve("there");
            final Running shell = launch("shadowverbs rsh -x -l root node1 'cat > " + there + "; echo to error >&2; exit 7' < " + input
                    + "; echo status $?; umask 027"
                    + "; shadowverbs rsh -n node1 'hostname; pwd; umask; echo \"$OF_THE_USER\"; ps -o comm= -p 2; cat; yes | head -c 3000000'"
                    + " > result; echo status $?");
            shell.succeed(ENDING);
            assertEquals(List.of("status 7", "status 0"), shell.output().lines().toList(), shell.errors());
            assertEquals(1, shell.errors().lines().filter("to error"::equals).count(), shell.errors());
            assertEquals(-1, Files.mismatch(input, there), "what a command reads differs");
            final String result = Files.readString(two.work().resolve("result"));
            assertEquals(List.of("node1", two.work().toString(), "0027", "a word", "shadowverbs-job"), result.lines().limit(5).toList());
            assertEquals(3_000_000, result.lines().skip(5).mapToLong(line -> line.length() + 1).sum(), "what a command writes");
        }
    }

    /** As daemons do that start each other in a tree. */
    @Test
    void canBeNestedAndLeadBack() throws Exception {
        try (TwoNodes two = TwoNodes.start(Map.of())) {
            nodes = two;
            final Running shell = launch("shadowverbs rsh node1 'hostname; shadowverbs rsh node0 \"hostname; exit 3\"'; echo status $?");
            shell.succeed(ENDING);
            assertEquals(List.of("node1", "node0", "status 3"), shell.output().lines().toList(), shell.errors());
        }
    }

    @Test
    void passesSignalsOnAndEndsWithTheDeathOfTheCommand() throws Exception {
        try (TwoNodes two = TwoNodes.start(Map.of())) {
            nodes = two;
            final Running shell = launch("shadowverbs rsh node1 'trap \"echo terminated; kill -KILL \\$\\$\" TERM; echo runs;"
                    + " while :; do sleep 0.1; done' & echo $! > pid; wait; wait $!; echo status $?");
            two.await("the command", () -> shell.lines("runs") > 0, shell);
            two.succeed(0, "sh", "-c", "kill -TERM $(cat pid)");
            shell.succeed(ENDING);
            assertEquals(List.of("runs", "terminated", "status 137"), shell.output().lines().toList(), shell.errors());
        }
    }

    /** Although it ignores what can be ignored. */
    @Test
    void endsTheCommandWhenTheLineBreaks() throws Exception {
        try (TwoNodes two = TwoNodes.start(Map.of())) {
            nodes = two;
            final Running shell = launch("shadowverbs rsh node1 'trap \"\" HUP TERM; echo $$ > there; echo runs; exec sleep 1000' &"
                    + " echo $! > pid; wait $!; echo status $?; shadowverbs rsh node1 'while [ -e /proc/$(cat there) ]; do sleep 0.1; done';"
                    + " echo ended");
            two.await("the command", () -> shell.lines("runs") > 0, shell);
            two.succeed(0, "sh", "-c", "kill -KILL $(cat pid)");
            shell.succeed(ENDING);
            assertEquals(List.of("runs", "status 137", "ended"), shell.output().lines().toList(), shell.errors());
        }
    }

    @Test
    void saysWhenTheOtherHostsEndIsLost() throws Exception {
        try (TwoNodes two = TwoNodes.start(Map.of())) {
            nodes = two;
            final Running shell = launch("shadowverbs rsh node1 'echo runs; kill -KILL $PPID; exec sleep 1000'; echo status $?");
            shell.succeed(ENDING);
            assertTrue(shell.output().endsWith("status 255\n"), shell.output());
            assertTrue(shell.errors().contains("the line to node1 has broken"), shell.errors());
        }
    }

    @Test
    void namesAHostThatCannotBeReached() throws Exception {
        try (TwoNodes two = TwoNodes.start(Map.of())) {
            nodes = two;
            final Running shell = launch("shadowverbs rsh nosuchnode true");
            assertEquals(255, shell.awaitEnd(ENDING));
            assertTrue(shell.errors().contains("Could not resolve hostname nosuchnode"), shell.errors());
            assertTrue(shell.errors().contains("shadowverbs agent --daemon -h 10.77.0.1 -p 7790"), shell.errors());
        }
    }

    /** With an agent on each host nobody needs ssh, and hosts may be named by their addresses. */
    @Test
    void usesAnAgentThatIsThere() throws Exception {
        try (TwoNodes two = TwoNodes.start(Map.of("SHADOWVERBS_SECRET", "known to both nodes"))) {
            nodes = two;
            Files.delete(two.work().resolve("bin/ssh"));
            two.environment("SHADOWVERBS_COORD_HOST", TwoNodes.address(0));
            two.shadowverbs(0, "coordinator", "--daemon", "--address", TwoNodes.address(0), "--exit-on-last").succeed(ENDING);
            two.shadowverbs(1, "agent", "--daemon").succeed(ENDING);
            final Running again = two.shadowverbs(1, "agent", "--daemon");
            again.succeed(ENDING);
            assertTrue(again.output().matches("agent of job \\S+ on host node1 ready\\n"), again.output());
            final Running shell = launch("shadowverbs rsh node1 hostname; shadowverbs rsh " + TwoNodes.address(1) + " hostname");
            shell.succeed(ENDING);
            assertEquals(List.of("node1", "node1"), shell.output().lines().toList(), shell.errors());
        }
    }

    @Test
    void refusesAnOrdinaryUserWhoseConnectionsCannotBeSaved() throws Exception {
        try (TwoNodes two = TwoNodes.start(Map.of())) {
            nodes = two;
            two.byOrdinaryUser();
            final Running shell = launch("shadowverbs rsh node1 hostname");
            assertNotEquals(0, shell.awaitEnd(ENDING));
            assertTrue(shell.errors().contains("srun --mpi=pmi2 shadowverbs launch"), shell.errors());
        }
    }

    @Test
    void refusesWhoIsOfNoJob() throws Exception {
        try (TwoNodes two = TwoNodes.start(Map.of())) {
            final Running shell = two.shadowverbs(0, "rsh", "node1", "hostname");
            assertEquals(255, shell.awaitEnd(ENDING));
            assertTrue(shell.errors().contains("put launch before the launcher"), shell.errors());
        }
    }

    /** A line for a shell on the first node, which is the program of the job. */
    private Running launch(final String line) throws IOException {
        final Path checkpoints = nodes.folder("checkpoints");
        final List<String> command = new ArrayList<>(List.of("env", "PATH=" + Path.of(TwoNodes.shadowverbs()).getParent() + ":"
                + nodes.work().resolve("bin") + ":/usr/bin:/bin"));
        command.addAll(Stream.of(TwoNodes.shadowverbs(), "launch", "--backend", "ib2tcp", "--ckptdir", checkpoints.toString(), "--", "sh", "-c",
                line).toList());
        return nodes.run(0, command.toArray(String[]::new));
    }
}
