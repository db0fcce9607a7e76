// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
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
final class HostLossSystemTest extends JobOnThreeHosts {
    private static final int MOMENTS = Integer.getInteger("shadowverbs.recovery.moments", 3);
    private static final long SEED = Long.getLong("shadowverbs.recovery.seed", System.nanoTime());
    private static final int SECOND_LOSS_MILLIS = 1_500;


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

    /** Tells the ranks to end; all launching commands do, and nothing is left on any host. */
    private void finish() throws Exception {
        Files.createFile(stop);
        for (final Running program : programs) {
            program.succeed(ENDING);
        }
        Selfcheck.verify(programs.getFirst());
        awaitNothingLeft();
    }

    /** No rank runs on the host any more. */
    private void awaitNothing(final int host) throws Exception {
        await("the end of the ranks on " + TwoHosts.name(host), () -> left(host).stream()
                .noneMatch(process -> process.info().command().orElse("").endsWith("/selfcheck")));
    }

    private void awaitRecoveries(final int times) throws Exception {
        await("recovery " + times, () -> recoveries() >= times);
        showLast(RECOVERED);
    }

    /** By the coordinator's log: the standard error of the programs is a file here, which is put back with them. */
    private long recoveries() {
        return lines(hosts.coordinatorLog(), RECOVERED);
    }

    @Override
    String said() throws Exception {
        return super.said() + "\n" + hosts.status();
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
}
