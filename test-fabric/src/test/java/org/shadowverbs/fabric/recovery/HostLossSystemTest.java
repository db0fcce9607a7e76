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
import java.util.Random;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.fabric.harness.CriuWithObstacle;
import org.shadowverbs.fabric.harness.Looks;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;
import org.shadowverbs.fabric.harness.TwoHosts;

/**
 * A job of ranks on two hosts, with a third that is spare, loses ranks, agents and hosts, at chosen and at random moments. It ends by
 * itself with the right result, and leaves nothing behind. -Dshadowverbs.recovery.moments and .seed say how many and which.
 */
@Timeout(3_600)
final class HostLossSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int MOMENTS = Integer.getInteger("shadowverbs.recovery.moments", 3);
    private static final long SEED = Long.getLong("shadowverbs.recovery.seed", System.nanoTime());
    private static final int HOSTS = 3;
    private static final int RANKS = 4;
    private static final int LONGEST_CHECKPOINT_MILLIS = 3_000;
    private static final int SECOND_LOSS_MILLIS = 1_500;
    private static final String RECOVERED = " recovered in ";

    private final List<Running> programs = new ArrayList<>();
    private TwoHosts hosts;
    private Path stop;

    /** What is lost. */
    private enum Loss {
        RANK, AGENT, HOST
    }

    /** The host is cut off while its images are saved; then the host that the job has gone to, between checkpoints. */
    @Test
    void hostsThatAreCutOffAreDoneWithout() throws Exception {
        try (CriuWithObstacle criu = CriuWithObstacle.thatWaits();
                TwoHosts three = TwoHosts.start(criu.environment(), HOSTS, "--exit-on-last", "--recover-job", "5")) {
            launch(three);
            hosts.checkpoint();
            criu.put();
            final Running checkpoint = hosts.command(0, "checkpoint");
            TwoHosts.await("CRIU to be run", criu::isMet, checkpoint);
            hosts.cut(1, true);
            awaitRecoveries(1);
            criu.remove();
            assertEquals(1, checkpoint.awaitEnd(ENDING), checkpoint.output());
            assertEquals(List.of("node0", "node0", "node2", "node2"), places());
            awaitNothing(1); // but for the launching commands and the agent, of which nobody hears
            work();

            hosts.checkpoint();
            hosts.cut(2, true);
            awaitRecoveries(2);
            assertEquals(List.of("node0", "node0", "node0", "node0"), places());
            awaitNothing(2);
            work();
            hosts.cut(1, false);
            hosts.cut(2, false);
            await("all hosts to be there again", () -> agents() == HOSTS);
            finish();
        }
    }

    @Test
    void survivesLossesAtRandomMoments() throws Exception {
        System.out.println("-Dshadowverbs.recovery.seed=" + SEED + " -Dshadowverbs.recovery.moments=" + MOMENTS);
        final Random random = new Random(SEED);
        try (TwoHosts three = TwoHosts.start(Map.of(), HOSTS, "--exit-on-last", "--recover-job", "1000")) {
            launch(three);
            hosts.checkpoint();
            for (int moment = 0; moment < MOMENTS; moment++) {
                work();
                Running checkpoint = null;
                if (random.nextInt(3) > 0) {
                    checkpoint = hosts.command(0, "checkpoint");
                    Thread.sleep(random.nextInt(LONGEST_CHECKPOINT_MILLIS)); // the moment is what is random here
                }
                final List<Integer> cut = new ArrayList<>();
                lose(random, cut);
                if (random.nextInt(3) == 0) {
                    Thread.sleep(random.nextInt(SECOND_LOSS_MILLIS));
                    lose(random, cut);
                }
                if (checkpoint != null) {
                    checkpoint.awaitEnd(ENDING);
                }
                await("the job to be back after moment " + moment, this::isWhole);
                for (final int host : cut) {
                    hosts.cut(host, false);
                }
                mend();
            }
            work();
            finish();
        }
    }

    /** One of what there is; the coordinator's host stays. */
    private void lose(final Random random, final List<Integer> cut) throws Exception {
        final Loss loss = Loss.values()[random.nextInt(Loss.values().length)];
        final int host = random.nextInt(HOSTS);
        final JsonNode status = hosts.status();
        System.out.println(loss + " of " + TwoHosts.name(host) + " in " + status.get("stage").asText());
        switch (loss) {
            case RANK -> {
                final JsonNode ranks = status.get("ranks");
                if (!ranks.isEmpty()) {
                    final long pid = ranks.get(random.nextInt(ranks.size())).get("pid").asLong();
                    kill(pid);
                    await("the loss of the rank to be noticed", () -> !has("ranks", pid));
                }
            }
            case AGENT -> {
                for (final JsonNode agent : status.get("agents")) {
                    if (agent.get("host").asText().equals(TwoHosts.name(host))) {
                        final long pid = agent.get("pid").asLong();
                        kill(pid);
                        await("the loss of the agent to be noticed", () -> !has("agents", pid));
                    }
                }
            }
            default -> {
                if (host > 0 && !cut.contains(host)) {
                    hosts.cut(host, true);
                    cut.add(host);
                    // Until it is noticed the job looks as it was.
                    await("the loss of " + TwoHosts.name(host) + " to be noticed", () -> !hasAgent(host));
                }
            }
        }
    }

    private static void kill(final long pid) {
        ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly);
    }

    /** Every host has an agent again. */
    private void mend() throws Exception {
        final Looks looks = new Looks();
        final long soon = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        while (agents() < HOSTS) {
            if (System.nanoTime() > soon) {
                for (int host = 0; host < HOSTS; host++) {
                    if (!hasAgent(host)) {
                        spare(host); // nobody does it where no launching command is
                    }
                }
                break;
            }
            looks.rest();
        }
        await("an agent on every host", () -> agents() == HOSTS);
        await("the job to be whole", this::isWhole);
    }

    // ---- the job ----

    private void launch(final TwoHosts three) throws Exception {
        hosts = three;
        programs.clear();
        stop = hosts.work().resolve("stop");
        programs.addAll(hosts.launchSelfcheck(RANKS, stop));
        spare(2);
        work();
    }

    private void spare(final int host) throws Exception {
        hosts.command(host, "agent", "--daemon", "--spare").succeed(ENDING);
    }

    /** Tells the ranks to end; all launching commands do, and nothing is left on any host. */
    private void finish() throws Exception {
        Files.createFile(stop);
        for (final Running program : programs) {
            program.succeed(ENDING);
        }
        Selfcheck.verify(programs.getFirst());
        for (int host = 0; host < HOSTS; host++) {
            final int each = host;
            await("the end of all on " + TwoHosts.name(host), () -> left(each).isEmpty());
        }
    }

    private List<ProcessHandle> left(final int host) {
        try {
            return hosts.processes(host);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** No rank runs on the host any more. */
    private void awaitNothing(final int host) throws Exception {
        await("the end of the ranks on " + TwoHosts.name(host), () -> left(host).stream()
                .noneMatch(process -> process.info().command().orElse("").endsWith("/selfcheck")));
    }

    private void awaitRecoveries(final int times) throws Exception {
        await("recovery " + times, () -> recoveries() >= times);
        // For docs/PERFORMANCE.md: on a machine that has little else to do this is what users see.
        Files.readAllLines(hosts.coordinatorLog()).stream().filter(line -> line.contains(RECOVERED)).reduce((first, last) -> last)
                .ifPresent(System.out::println);
    }

    /** By the coordinator's log: the standard error of the programs is a file here, which is put back with them. */
    private long recoveries() {
        try {
            return Files.readAllLines(hosts.coordinatorLog()).stream().filter(line -> line.contains(RECOVERED)).count();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void await(final String what, final BooleanSupplier condition) throws Exception {
        final Looks looks = new Looks();
        final long end = System.nanoTime() + ENDING.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                final StringBuilder said = new StringBuilder();
                for (final Running program : programs) {
                    said.append('\n').append(program.name()).append(": ").append(program.output()).append(program.errors());
                }
                throw new AssertionError("waited " + ENDING.toSeconds() + " s for " + what + said + "\n" + hosts.status());
            }
            looks.rest();
        }
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

    private boolean has(final String members, final long pid) {
        for (final JsonNode member : status().get(members)) {
            if (member.get("pid").asLong() == pid) {
                return true;
            }
        }
        return false;
    }

    private int agents() {
        return status().get("agents").size();
    }

    private boolean hasAgent(final int host) {
        for (final JsonNode agent : status().get("agents")) {
            if (agent.get("host").asText().equals(TwoHosts.name(host))) {
                return true;
            }
        }
        return false;
    }

    /** All ranks run, and nothing goes on. */
    private boolean isWhole() {
        final JsonNode status = status();
        int running = 0;
        for (final JsonNode rank : status.get("ranks")) {
            running += "running".equals(rank.get("state").asText()) ? 1 : 0;
        }
        return running == RANKS && "running".equals(status.get("stage").asText()) && !status.get("recovering").asBoolean();
    }

    /** Where the ranks are, by host, in the order of their numbers. */
    private List<String> places() {
        final List<String> places = new ArrayList<>();
        status().get("ranks").forEach(rank -> places.add(rank.get("host").asText()));
        places.sort(null);
        return places;
    }

    /** All ranks go on. */
    private void work() throws Exception {
        final JsonNode ranks = status().get("ranks");
        assertTrue(ranks.size() == RANKS, ranks.toString());
        for (final JsonNode rank : ranks) {
            final ProcessHandle process = ProcessHandle.of(rank.get("pid").asLong()).orElseThrow();
            final Duration start = process.info().totalCpuDuration().orElse(Duration.ZERO);
            await("traffic of rank " + rank.get("rank"), () -> process.info().totalCpuDuration().orElse(Duration.ofDays(1))
                    .compareTo(start.plusMillis(200)) > 0);
        }
    }
}
