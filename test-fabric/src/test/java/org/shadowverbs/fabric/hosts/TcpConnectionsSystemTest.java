// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.hosts;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;
import org.shadowverbs.fabric.harness.TwoHosts;

/**
 * Processes without any verbs hold TCP connections to each other in all states, with data under way in both directions. After
 * checkpoints, some with a kill and a restart, no byte may be lost, doubled or damaged, and no connection may have had an error.
 * For a storm: -Dshadowverbs.tcp.checkpoints=100 -Dshadowverbs.tcp.restarts=30.
 */
@Timeout(value = 6, unit = TimeUnit.HOURS) // as long as a storm may take on a busy machine; each wait has its own deadline
final class TcpConnectionsSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int CHECKPOINTS = Integer.getInteger("shadowverbs.tcp.checkpoints", 2);
    private static final int RESTARTS = Integer.getInteger("shadowverbs.tcp.restarts", 1);
    private static final int PROCESSES = 3;
    /** Of each process to each other one: hundreds in all, and each has two ends. */
    private static final int CONNECTIONS = 24;
    private static final int PORT = 18600;
    /** Of processor time, in which all of them send and read a lot. */
    private static final double SECONDS_OF_WORK = 0.3;
    /** All that there are. */
    private static final String KINDS = "busy,blocking,idle,half-opener,half-acceptor,short,late,left,crossed";
    private static final String EXCHANGED = "on each other's hosts";
    private static final String RESULT = "[0-9]+ connections, [1-9][0-9]* bytes, 0 lost, 0 doubled, 0 damaged, 0 errors";

    @Test
    void connectionsWithinOneLaunchLoseNothing() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final List<String> command = new ArrayList<>(tcpcheck(job.work()));
            command.addAll(List.of("-n", Integer.toString(PROCESSES)));
            storm(job, List.of(job.launch("tcpcheck", command.toArray(new String[0]))));
        }
    }

    @Test
    void connectionsOfIpv6BetweenLaunchesLoseNothing() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final List<String> places = new ArrayList<>();
            for (int process = 0; process < PROCESSES; process++) {
                places.add("[::1]:" + LocalPort.free());
            }
            final List<Running> programs = new ArrayList<>();
            for (int process = 0; process < PROCESSES; process++) {
                programs.add(job.launch("tcpcheck-" + process, member(job.work(), process, String.join(",", places))));
            }
            storm(job, programs);
        }
    }

    private static void storm(final Job job, final List<Running> programs) throws Exception {
        for (final Running program : programs) {
            job.awaitLines(program, "READY", PROCESSES / programs.size());
        }
        List<Running> running = programs;
        for (int checkpoint = 0; checkpoint < CHECKPOINTS; checkpoint++) {
            TwoHosts.work(running, SECONDS_OF_WORK);
            if (!killsAt(checkpoint)) {
                job.checkpoint();
                continue;
            }
            final String folder = job.checkpoint("--kill").get("folder").asText();
            final Running restart = job.restart(folder);
            job.awaitLines(restart, "restored ", 1);
            running = List.of(restart);
        }
        TwoHosts.work(running, SECONDS_OF_WORK);
        finish(job.work(), running, programs);
    }

    @ParameterizedTest
    @ValueSource(strings = {"on the same hosts", EXCHANGED})
    void connectionsBetweenHostsLoseNothing(final String places) throws Exception {
        try (TwoHosts hosts = TwoHosts.start()) {
            final String at = IntStream.range(0, PROCESSES).mapToObj(process -> TwoHosts.address(process % 2) + ":"
                    + (PORT + process)).collect(Collectors.joining(","));
            final List<Running> programs = new ArrayList<>();
            for (int process = 0; process < PROCESSES; process++) {
                programs.add(hosts.launch(process % 2, member(hosts.work(), process, at)));
            }
            for (final Running program : programs) {
                TwoHosts.await("all connections", () -> program.lines("READY") > 0, program);
            }
            List<Running> running = programs;
            for (int checkpoint = 0; checkpoint < CHECKPOINTS; checkpoint++) {
                TwoHosts.work(running, SECONDS_OF_WORK);
                final boolean kill = killsAt(checkpoint);
                final Running command = hosts.command(0, "checkpoint", kill ? new String[] {"--kill"} : new String[0]);
                command.succeed(ENDING);
                if (kill) {
                    hosts.endCoordinator();
                    running = restart(hosts, places.equals(EXCHANGED));
                }
            }
            TwoHosts.work(running, SECONDS_OF_WORK);
            finish(hosts.work(), running, programs);
        }
    }

    private static List<Running> restart(final TwoHosts hosts, final boolean exchanged) throws Exception {
        hosts.startCoordinator();
        final List<Running> restarts = new ArrayList<>();
        for (int host = 0; host < 2; host++) {
            final List<String> arguments = new ArrayList<>(List.of("--hosts", "2"));
            arguments.addAll(exchanged ? List.of("--from", TwoHosts.name(1 - host)) : List.of());
            arguments.add(hosts.checkpoints().toString());
            restarts.add(hosts.command(host, "restart", arguments.toArray(new String[0])));
        }
        for (final Running restart : restarts) {
            try {
                TwoHosts.await("the restart", () -> restart.lines("restored ") > 0, restart);
            } catch (IOException e) {
                // What one host says may be no more than what the end of the other one has done to it.
                throw new IOException(Selfcheck.said(restarts), e);
            }
        }
        return restarts;
    }

    private static boolean killsAt(final int checkpoint) {
        return (checkpoint + 1) * RESTARTS / CHECKPOINTS > checkpoint * RESTARTS / CHECKPOINTS;
    }

    private static List<String> tcpcheck(final Path work) {
        return List.of(Distribution.DIST.resolve("programs/tcpcheck").toString(), "--connections", Integer.toString(CONNECTIONS),
                "--kinds", KINDS, "--stop-file", work.resolve("stop").toString());
    }

    private static String[] member(final Path work, final int process, final String places) {
        return Stream.concat(tcpcheck(work).stream(), Stream.of("--me", Integer.toString(process), "--at", places))
                .toArray(String[]::new);
    }

    private static void finish(final Path work, final List<Running> running, final List<Running> programs) throws Exception {
        Files.createFile(work.resolve("stop"));
        final StringBuilder said = new StringBuilder();
        for (final Running each : running) {
            final int status = each.awaitEnd(ENDING);
            assertEquals(0, status, () -> each.name() + ": " + words(each) + programs.stream().map(p -> words(p))
                    .collect(Collectors.joining()));
        }
        for (final Running program : programs) {
            said.append(words(program));
        }
        for (int process = 0; process < PROCESSES; process++) {
            final String line = "process " + process + ": " + RESULT;
            assertEquals(1, said.toString().lines().filter(l -> l.matches(line)).count(), said.toString());
        }
    }

    private static String words(final Running program) {
        try {
            return program.output() + program.errors();
        } catch (final IOException e) {
            return e.getMessage();
        }
    }
}
