// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.recovery;

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
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.fabric.harness.CriuWithObstacle;
import org.shadowverbs.fabric.harness.Looks;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;
import org.shadowverbs.fabric.harness.TwoHosts;

/**
 * A job with a store that all hosts reach loses the host that its coordinator is on, with half of its ranks. Another host's agent starts
 * a coordinator, the job comes back by itself with the right result, and nothing is left behind.
 */
@Timeout(1_800)
final class CoordinatorLossSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int HOSTS = 3;
    private static final int RANKS = 4;
    private static final String RECOVERED = " recovered in ";
    private static final String TAKEN = "the job's coordinator was lost; its place is taken";

    private final List<Running> programs = new ArrayList<>();
    private TwoHosts hosts;
    private Path stop;
    /** When the host was lost, by System.nanoTime. */
    private long lost;

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

    /** It lives on, and its coordinator with it: that one acts no more, and the host is as good as a spare one when it is back. */
    @Test
    void hostIsCutOffAndComesBack() throws Exception {
        try (TwoHosts three = TwoHosts.startWithStore(Map.of(), HOSTS, "--exit-on-last", "--recover-job", "5")) {
            launch(three);
            hosts.checkpoint();
            cut();
            awaitSuccessor();
            work();
            hosts.cut(0, false);
            await("the first coordinator to see that it is none any more", () -> contains(hosts.coordinatorLog(0),
                    "coordinator ends: another coordinator has taken over"));
            await("all hosts to be there again", () -> status().get("agents").size() == HOSTS);
            work();
            finish();
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

    private void launch(final TwoHosts three) throws Exception {
        hosts = three;
        stop = hosts.work().resolve("stop");
        programs.addAll(hosts.launchSelfcheck(RANKS, stop));
        hosts.command(2, "agent", "--daemon", "--spare").succeed(ENDING);
        work();
    }

    private void cut() throws Exception {
        lost = System.nanoTime();
        hosts.cut(0, true);
    }

    /** The host of the coordinator: nothing is heard of it from one moment to the next. */
    private void kill() throws Exception {
        cut();
        hosts.processes(0).forEach(ProcessHandle::destroyForcibly);
    }

    /** Another coordinator is there. */
    private void awaitTaken() throws Exception {
        final Looks looks = new Looks();
        final long end = System.nanoTime() + ENDING.toNanos();
        int at = 0;
        while (at == 0) {
            for (int host = 1; host < HOSTS; host++) {
                at = contains(hosts.coordinatorLog(host), TAKEN) ? host : at;
            }
            if (System.nanoTime() > end) {
                throw new AssertionError("waited " + ENDING.toSeconds() + " s for another coordinator" + said());
            }
            looks.rest();
        }
        hosts.coordinatorIsOn(at);
    }

    /** Another coordinator is there, and has brought the job back. */
    private void awaitSuccessor() throws Exception {
        awaitTaken();
        await("the job to be back", () -> contains(hosts.coordinatorLog(), RECOVERED));
        // For docs/PERFORMANCE.md.
        System.out.printf("back %.1f s after the host was lost%n", (System.nanoTime() - lost) / 1e9);
        Files.readAllLines(hosts.coordinatorLog()).stream().filter(line -> line.contains(RECOVERED) || line.contains(TAKEN))
                .forEach(System.out::println);
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
        Selfcheck.verify(programs.getFirst());
        for (int host = 0; host < HOSTS; host++) {
            final int each = host;
            await("the end of all on " + TwoHosts.name(host), () -> left(each).isEmpty());
        }
        for (final String key : hosts.store("KEYS", "*").lines().filter(line -> !line.isBlank()).toList()) {
            // That the job is over is remembered for a while.
            assertTrue(Long.parseLong(hosts.store("PTTL", key).strip()) > 0, key);
        }
    }

    private static boolean contains(final Path log, final String text) {
        try {
            return Files.exists(log) && Files.readString(log).contains(text);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private List<Path> unfinished() throws IOException {
        try (Stream<Path> all = Files.list(hosts.checkpoints())) {
            return all.filter(folder -> folder.getFileName().toString().endsWith(".tmp")).toList();
        }
    }

    private List<ProcessHandle> left(final int host) {
        try {
            return hosts.processes(host);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void await(final String what, final BooleanSupplier condition) throws Exception {
        final Looks looks = new Looks();
        final long end = System.nanoTime() + ENDING.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("waited " + ENDING.toSeconds() + " s for " + what + said());
            }
            looks.rest();
        }
    }

    private String said() throws IOException {
        final StringBuilder said = new StringBuilder();
        for (final Running program : programs) {
            said.append('\n').append(program.name()).append(": ").append(program.output()).append(program.errors());
        }
        return said.toString();
    }

    private JsonNode status() {
        try {
            return hosts.status();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private List<String> pids() {
        final List<String> pids = new ArrayList<>();
        status().get("ranks").forEach(rank -> pids.add(rank.get("host").asText() + " " + rank.get("pid").asLong()));
        pids.sort(null);
        return pids;
    }

    /** All ranks go on. */
    private void work() throws Exception {
        final JsonNode ranks = status().get("ranks");
        assertEquals(RANKS, ranks.size(), ranks.toString());
        for (final JsonNode rank : ranks) {
            final ProcessHandle process = ProcessHandle.of(rank.get("pid").asLong()).orElseThrow();
            final Duration start = process.info().totalCpuDuration().orElse(Duration.ZERO);
            await("traffic of rank " + rank.get("rank"), () -> process.info().totalCpuDuration().orElse(Duration.ofDays(1))
                    .compareTo(start.plusMillis(200)) > 0);
        }
    }
}
