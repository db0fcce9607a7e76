// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.hosts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.CriuWithObstacle;
import org.shadowverbs.fabric.harness.EnoughRounds;
import org.shadowverbs.fabric.harness.Looks;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;
import org.shadowverbs.fabric.harness.TwoHosts;

/** A job with ranks on two hosts is checkpointed, killed, and restarted: there, with the hosts swapped, and on one. */
final class SeveralHostsSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int RANKS = 4;
    private static final List<String> ON_TCP = List.of("--backend", "ib2tcp");
    private static final List<String> ON_FABRIC = List.of("--backend", "hca", "--test-fabric");

    private TwoHosts hosts;
    private Path stop;

    /** Root's job, and that of a user without any privilege. */
    @ParameterizedTest
    @ValueSource(ints = {0, 12345})
    void selfcheckSurvivesRestartsOnTheSameHostsOnEachOthersAndOnOne(final int user) throws Exception {
        try (TwoHosts two = TwoHosts.start()) {
            hosts = two;
            if (user != 0) {
                hosts.user(user);
            }
            final List<Running> programs = launch(ON_TCP, 0, 0, 1, 1);
            work(programs);
            final List<String> original = places(); // by the ranks' numbers, which are those of their arrival
            hosts.checkpoint();
            work(programs); // it runs on
            kill(programs);

            List<Running> restarts = restart(List.of(), List.of());
            assertEquals(original, places());
            work(restarts);
            hosts.checkpoint();
            kill(restarts);

            restarts = restart(List.of("--from", "node1"), List.of("--from", "node0"));
            assertEquals(original.stream().map(h -> h.equals("node0") ? "node1" : "node0").toList(), places());
            work(restarts);
            hosts.checkpoint();
            kill(restarts);

            hosts.startCoordinator();
            restarts = List.of(hosts.command(1, "restart", hosts.checkpoints().toString()));
            hosts.awaitRanks(RANKS, restarts);
            assertEquals(List.of("node1", "node1", "node1", "node1"), places());
            work(restarts);
            finish(restarts, programs.getFirst());
        }
    }

    @Test
    void whatRanOnTheHcaOfOneHostRestartsOnTwoOverTcp() throws Exception {
        try (TwoHosts two = TwoHosts.start()) {
            hosts = two;
            final List<Running> programs = launch(ON_FABRIC, 0, 0, 0, 0);
            work(programs);
            hosts.checkpoint();
            kill(programs);
            final List<Running> restarts = restart(ON_TCP, ON_TCP);
            final List<String> places = places();
            assertEquals(2, places.stream().filter(TwoHosts.name(1)::equals).count(), places.toString());
            work(restarts);
            finish(restarts, programs.getFirst());
        }
    }

    @Test
    void pingPongGoesOnWithTheHostsSwapped() throws Exception {
        EnoughRounds.from(100_000, this::pingPongGoesOnWithTheHostsSwapped);
    }

    /** @return whether there were so many iterations that the programs had not ended before they were to be saved */
    private boolean pingPongGoesOnWithTheHostsSwapped(final int iterations) throws Exception {
        try (TwoHosts two = TwoHosts.start()) {
            hosts = two;
            final String[] command = {"ibv_rc_pingpong", "-g", "0", "-c", "-n", Integer.toString(iterations)};
            final Running server = hosts.launch(0, command);
            TwoHosts.await("the port", TwoHosts.listens(server, 18515), server);
            final Running client = hosts.launch(1, Stream.concat(Stream.of(command), Stream.of(TwoHosts.address(0)))
                    .toArray(String[]::new));
            final Looks looks = new Looks();
            while (hosts.runningRanks() < 2) {
                if (client.hasSucceeded()) {
                    return false;
                }
                assertTrue(client.isRunning(), client.output() + client.errors());
                looks.rest();
            }
            final Running checkpoint = hosts.command(0, "checkpoint", "--kill");
            checkpoint.awaitEnd(ENDING);
            if (server.hasSucceeded() || client.hasSucceeded()) {
                return false;
            }
            checkpoint.succeed(ENDING);
            hosts.endCoordinator();
            for (final Running restart : restart(List.of("--from", "node1"), List.of("--from", "node0"))) {
                restart.succeed(ENDING);
            }
            for (final Running program : List.of(server, client)) {
                assertEquals(1, program.lines(iterations + " iters in"), program.output() + program.errors());
                assertEquals(0, program.lines("invalid data"), program.output() + program.errors());
            }
            return true;
        }
    }

    /** The host whose images are damaged says so, the other names it, nothing runs, and the checkpoint is as good as before. */
    @Test
    void aHostThatCannotRestoreItsShareEndsTheRestartOfAll() throws Exception {
        try (TwoHosts two = TwoHosts.start()) {
            hosts = two;
            final List<Running> programs = launch(ON_TCP, 0, 0, 1, 1);
            work(programs);
            final Path folder = Path.of(hosts.checkpoint());
            kill(programs);
            final Path image;
            try (Stream<Path> files = Files.walk(folder)) {
                image = files.filter(f -> f.toString().contains("host-node1") && f.endsWith("inventory.img")).findFirst()
                        .orElseThrow();
            }
            final byte[] whole = Files.readAllBytes(image);
            Files.write(image, new byte[whole.length]);
            hosts.startCoordinator();
            final List<Running> failed = begin(List.of(), List.of());
            for (final Running restart : failed) {
                assertEquals(1, restart.awaitEnd(ENDING), restart.errors());
                assertTrue(restart.errors().contains(image.getFileName().toString()), restart.errors());
            }
            assertTrue(failed.getFirst().errors().contains("host node1: "), failed.getFirst().errors());
            assertEquals(0, hosts.status().get("ranks").size());
            Files.write(image, whole);
            final List<Running> restarts = begin(List.of(), List.of()); // at the same coordinator
            hosts.awaitRanks(RANKS, restarts);
            work(restarts);
            finish(restarts, programs.getFirst());
        }
    }

    /** The checkpoint is given up and says so; the others run on, and the one before is kept. */
    @Test
    void anAgentThatDiesInACheckpointIsNamed() throws Exception {
        try (CriuWithObstacle criu = CriuWithObstacle.thatWaits();
                TwoHosts two = TwoHosts.start(criu.environment())) {
            hosts = two;
            final List<Running> survivors = launch(ON_TCP, 0, 0);
            final Running victim = hosts.launch(1, Selfcheck.command(2, stop));
            TwoHosts.await("its ranks", () -> victim.lines(": connected: ") == 2, victim);
            hosts.awaitRanks(4, survivors);
            work(survivors);
            final String before = hosts.checkpoint();
            work(survivors);
            criu.put();
            final Running checkpoint = hosts.command(0, "checkpoint");
            TwoHosts.await("CRIU to be run", criu::isMet, checkpoint);
            ProcessHandle.of(agent(1)).orElseThrow().destroyForcibly();
            assertEquals(1, checkpoint.awaitEnd(ENDING), checkpoint.output());
            criu.remove();
            assertTrue(checkpoint.errors().contains("the agent on host node1 was lost during SAVE"),
                    checkpoint.errors());
            work(survivors);
            assertEquals(List.of(Path.of(before).getFileName().toString(), "latest"), checkpoints());
            final String after = hosts.checkpoint(); // of those that have an agent
            assertNotEquals(before, after);
            finish(survivors, survivors.getFirst());
        }
    }

    /** Tells the ranks to end, and looks at what they report. */
    private void finish(final List<Running> running, final Running reporting) throws Exception {
        Files.createFile(stop);
        for (final Running each : running) {
            each.succeed(ENDING);
        }
        Selfcheck.verify(reporting);
    }

    private List<String> checkpoints() throws IOException {
        try (Stream<Path> all = Files.list(hosts.checkpoints())) {
            return all.map(p -> p.getFileName().toString()).sorted().toList();
        }
    }

    private long agent(final int host) throws Exception {
        for (final JsonNode agent : hosts.status().get("agents")) {
            if (agent.get("host").asText().equals(TwoHosts.name(host))) {
                return agent.get("pid").asLong();
            }
        }
        throw new AssertionError("there is no agent on host " + TwoHosts.name(host));
    }

    // ---- the job ----

    /** A rank for each of these hosts, each launched by itself; all are connected. */
    private List<Running> launch(final List<String> options, final int... places) throws Exception {
        final Path meet = hosts.folder("meet");
        stop = hosts.work().resolve("stop");
        final List<Running> programs = new ArrayList<>();
        for (int rank = 0; rank < places.length; rank++) {
            programs.add(hosts.launch(places[rank], options, Selfcheck.ofRank(rank, places.length, meet, stop)));
        }
        for (final Running program : programs) {
            TwoHosts.await("its connections", () -> program.lines(": connected: ") > 0, program);
        }
        return programs;
    }

    /** A restart on each of the two hosts, at a coordinator of their own; all ranks run. */
    private List<Running> restart(final List<String> onFirst, final List<String> onSecond) throws Exception {
        hosts.startCoordinator();
        final List<Running> restarts = begin(onFirst, onSecond);
        hosts.awaitRanks(ranks(), restarts);
        return restarts;
    }

    private int ranks() throws IOException {
        return new ObjectMapper().readTree(
                hosts.checkpoints().resolve("latest/manifest.json").toFile()).get("ranks").asInt();
    }

    private List<Running> begin(final List<String> onFirst, final List<String> onSecond) throws Exception {
        final List<Running> restarts = new ArrayList<>();
        for (int host = 0; host < 2; host++) {
            restarts.add(hosts.command(host, "restart", Stream.of(Stream.of("--hosts", "2"),
                    (host == 0 ? onFirst : onSecond).stream(), Stream.of(hosts.checkpoints().toString()))
                    .flatMap(s -> s).toArray(String[]::new)));
        }
        return restarts;
    }

    /** Where the ranks are, in their order. */
    private List<String> places() throws Exception {
        final String[] places = new String[RANKS];
        for (final JsonNode rank : hosts.status().get("ranks")) {
            places[rank.get("rank").asInt()] = rank.get("host").asText();
        }
        return List.of(places);
    }

    private static void work(final List<Running> programs) throws Exception {
        TwoHosts.work(programs, Selfcheck.SECONDS_OF_WORK);
    }

    private void kill(final List<Running> programs) throws Exception {
        for (final Running program : programs) {
            program.killHard();
        }
        hosts.endCoordinator();
    }
}
