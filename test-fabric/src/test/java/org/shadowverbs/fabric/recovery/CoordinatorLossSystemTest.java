// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.fabric.harness.CriuWithObstacle;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;
import org.shadowverbs.fabric.harness.TwoHosts;

/**
 * A job with a store that all hosts reach loses the host that its coordinator is on, with half of its ranks. Another host's agent starts
 * a coordinator, the job comes back by itself with the right result, and nothing is left behind. -Dshadowverbs.recovery.coordinators
 * and .seed say at how many random moments, and which.
 */
@Timeout(1_800)
final class CoordinatorLossSystemTest extends JobOnThreeHosts {
    private static final int MOMENTS = Integer.getInteger("shadowverbs.recovery.coordinators", 1);
    private static final long SEED = Long.getLong("shadowverbs.recovery.seed", System.nanoTime());
    private static final String REPLACED = "coordinator ends: another coordinator has taken over";
    private static final String TAKEN = "the job's coordinator was lost; its place is taken";

    /** The host of the coordinator. */
    private int at;
    /** When it was lost, by System.nanoTime. */
    private long lost;
    /** How often each host had taken a coordinator's place by then. */
    private final int[] taken = new int[HOSTS];

    @Test
    void hostIsKilledBetweenCheckpoints() throws Exception {
        try (TwoHosts three = TwoHosts.startWithStore(Map.of(), HOSTS, "--exit-on-last", "--recover-job", "5")) {
            launch(three);
            hosts.checkpoint();
            kill();
            awaitSuccessor();
            work();
            hosts.checkpoint(); // as ever
            finish();
        }
    }

    @Test
    void hostIsKilledWhileItSavesACheckpoint() throws Exception {
        try (CriuWithObstacle criu = CriuWithObstacle.thatWaits();
                TwoHosts three = TwoHosts.startWithStore(criu.environment(), HOSTS, "--exit-on-last", "--recover-job", "5")) {
            launch(three);
            hosts.checkpoint();
            criu.put();
            final Running checkpoint = hosts.command(1, "checkpoint");
            TwoHosts.await("CRIU to be run", criu::isMet, checkpoint);
            kill();
            criu.remove();
            awaitSuccessor();
            assertEquals(1, checkpoint.awaitEnd(ENDING), checkpoint.output());
            work();
            assertTrue(unfinished().isEmpty(), unfinished()::toString);
            finish();
        }
    }

    /**
     * It lives on, and its coordinator with it: that one acts no more, and the host is as good as a spare one when it is back. Then the
     * next one's host is cut off.
     */
    @Test
    void hostsAreCutOffAtRandomMomentsAndComeBack() throws Exception {
        System.out.println("-Dshadowverbs.recovery.seed=" + SEED + " -Dshadowverbs.recovery.coordinators=" + MOMENTS);
        final Random random = new Random(SEED);
        final Set<Integer> cutOnce = new HashSet<>();
        try (TwoHosts three = TwoHosts.startWithStore(Map.of(), HOSTS, "--exit-on-last", "--recover-job", "1000")) {
            launch(three);
            hosts.checkpoint();
            for (int moment = 0; moment < MOMENTS; moment++) {
                final int its = at;
                final int ended = lines(hosts.coordinatorLog(its), REPLACED);
                Running checkpoint = null;
                if (random.nextInt(3) > 0) {
                    checkpoint = hosts.command(its, "checkpoint");
                    Thread.sleep(random.nextInt(LONGEST_CHECKPOINT_MILLIS)); // the moment is what is random here
                }
                System.out.println("host of the coordinator, " + TwoHosts.name(its) + ", in " + status().get("stage").asText());
                cut();
                cutOnce.add(its);
                awaitSuccessor();
                if (checkpoint != null) {
                    checkpoint.awaitEnd(ENDING);
                }
                work();
                hosts.cut(its, false);
                await("the coordinator before to see that it is none any more",
                        () -> lines(hosts.coordinatorLog(its), REPLACED) > ended);
                await("all hosts to be there again", () -> status().get("agents").size() == HOSTS);
                work();
            }
            final List<Running> left = new ArrayList<>();
            for (int host = 0; host < HOSTS - 1; host++) {
                if (!cutOnce.contains(host)) {
                    left.addAll(programs.subList(host * RANKS / 2, (host + 1) * RANKS / 2));
                }
            }
            finish(left);
        }
    }

    /** Without --recover, and with no program on the host that is lost: the others go on, and hear nothing of it. */
    @Test
    void aHostWithNothingButTheCoordinatorIsMissedByNobody() throws Exception {
        try (TwoHosts three = TwoHosts.startWithStore(Map.of(), HOSTS, "--exit-on-last")) {
            hosts = three;
            stop = hosts.work().resolve("stop");
            programs.addAll(hosts.launchSelfcheck(RANKS, stop, 1));
            work();
            final List<String> before = pids();
            kill();
            awaitTaken();
            await("all ranks to be with it", () -> status().get("ranks").size() == RANKS);
            assertEquals(before, pids());
            work();
            hosts.checkpoint();
            work();
            finish(programs);
        }
    }

    // ---- the job ----

    private void cut() throws Exception {
        lost = System.nanoTime();
        for (int host = 0; host < HOSTS; host++) {
            taken[host] = lines(hosts.coordinatorLog(host), TAKEN);
        }
        hosts.cut(at, true);
    }

    /** The host of the coordinator: nothing is heard of it from one moment to the next. */
    private void kill() throws Exception {
        cut();
        hosts.processes(at).forEach(ProcessHandle::destroyForcibly);
    }

    /** Another coordinator is there. */
    private void awaitTaken() throws Exception {
        final int before = at;
        await("another coordinator", () -> {
            for (int host = 0; host < HOSTS; host++) {
                at = lines(hosts.coordinatorLog(host), TAKEN) > taken[host] ? host : at;
            }
            return at != before;
        });
        hosts.coordinatorIsOn(at);
    }

    /** Another coordinator is there, and has brought the job back. */
    private void awaitSuccessor() throws Exception {
        final int[] recovered = new int[HOSTS];
        for (int host = 0; host < HOSTS; host++) {
            recovered[host] = lines(hosts.coordinatorLog(host), RECOVERED);
        }
        awaitTaken();
        await("the job to be back", () -> lines(hosts.coordinatorLog(), RECOVERED) > recovered[at]);
        System.out.printf("back %.1f s after the host was lost%n", (System.nanoTime() - lost) / 1e9);
        showLast(TAKEN);
        showLast(RECOVERED);
    }

    private void finish() throws Exception {
        finish(programs.subList(RANKS / 2, RANKS)); // the first half's launching commands are gone with their host
    }

    /** The ranks are told to end, these commands do so, and nothing is left on any host, nor in the store. */
    private void finish(final List<Running> that) throws Exception {
        Files.createFile(stop);
        for (final Running program : that) {
            program.succeed(ENDING);
        }
        awaitNothingLeft();
        Selfcheck.verify(programs.getFirst());
        for (final String key : hosts.store("KEYS", "*").lines().filter(line -> !line.isBlank()).toList()) {
            // That the job is over is remembered for a while.
            assertTrue(Long.parseLong(hosts.store("PTTL", key).strip()) > 0, key);
        }
    }

    private List<Path> unfinished() throws IOException {
        try (Stream<Path> all = Files.list(hosts.checkpoints())) {
            return all.filter(folder -> folder.getFileName().toString().endsWith(".tmp")).toList();
        }
    }

    private List<String> pids() {
        final List<String> pids = new ArrayList<>();
        status().get("ranks").forEach(rank -> pids.add(rank.get("host").asText() + " " + rank.get("pid").asLong()));
        pids.sort(null);
        return pids;
    }
}
