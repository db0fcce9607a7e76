// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Running;

/**
 * {@code shadowverbs demo}: the main job, shown on the software HCA. Unmodified programs run under the preload, are
 * checkpointed in mid-run, killed with SIGKILL, restarted on a device whose ids all differ, or over TCP without one, and
 * end as if nothing had happened.
 */
public final class Demo {
    private static final Duration ENDING = Duration.ofSeconds(180);
    private static final int SCHEMA = 1;
    /** Many more than there is time for before the kill, on the slow HCA: see {@link Job#SLOW}. */
    private static final int ITERATIONS = 5_000;
    private static final String ANOTHER_DEVICE = "on a device with other lid, queue pair numbers and keys";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Path dist;
    private final PrintStream people;
    private final ArrayNode scenarios = JSON.createArrayNode();
    private boolean passed = true;

    private Demo(final Path dist, final PrintStream people) {
        this.dist = dist;
        this.people = people;
    }

    /** Exits with 0 when all scenarios passed, 1 when one failed. The command has looked at the arguments. */
    public static void main(final String[] args) throws InterruptedException {
        final boolean json = List.of(args).contains("--json");
        final Demo demo = new Demo(Path.of(System.getProperty("shadowverbs.home")), json ? System.err : System.out);
        demo.scenario("rc_pingpong", "two processes of Debian's ibv_rc_pingpong", demo::pingPong);
        demo.scenario("selfcheck", "four processes that check every operation", demo::selfCheck);
        demo.scenario("ib2tcp", "both, from the HCA to TCP", demo::overTcp);
        if (json) {
            final ObjectNode all = JSON.createObjectNode();
            all.put("schema", SCHEMA).put("command", "demo").put("passed", demo.passed);
            all.set("scenarios", demo.scenarios);
            System.out.println(all);
        }
        demo.people.println("demo: " + (demo.passed ? "passed" : "failed"));
        System.exit(demo.passed ? 0 : 1);
    }

    private interface Scenario {
        void run(Job job, ObjectNode result) throws IOException, InterruptedException;
    }

    private void scenario(final String name, final String title, final Scenario scenario) throws InterruptedException {
        final ObjectNode result = scenarios.addObject().put("name", name).put("passed", false);
        people.println("== " + title);
        try (Job job = Job.start(dist, Map.of())) {
            say("coordinator and agent at port " + job.port());
            scenario.run(job, result);
            result.put("passed", true);
        } catch (IOException e) {
            passed = false;
            result.put("problem", e.getMessage());
            say("FAILED: " + e.getMessage());
        }
    }

    private void pingPong(final Job job, final ObjectNode result) throws IOException, InterruptedException {
        job.configure(Job.SLOW);
        final List<Running> pair = launchPingPong(job);
        say("2 ranks run: " + ITERATIONS + " messages each way, contents validated; the HCA is told to be slow");
        final JsonNode checkpoint = checkpoint(job, result);
        killHard(pair);
        final Running restart = restart(job, result, checkpoint, 2, ANOTHER_DEVICE);
        job.set("exec_delay_us=0");
        restart.succeed(ENDING);
        reportPingPong(pair);
    }

    private void selfCheck(final Job job, final ObjectNode result) throws IOException, InterruptedException {
        final Path stop = job.work().resolve("stop");
        final Running program = launchSelfCheck(job, stop);
        say("4 ranks run, all pairs connected, all RC operations mixed at random");
        final JsonNode checkpoint = checkpoint(job, result);
        killHard(List.of(program));
        final Running restart = restart(job, result, checkpoint, 4, ANOTHER_DEVICE);
        runOnAndStop(restart, stop);
        reportSelfCheck(program, result);
    }

    /** Off InfiniBand: what was addressed by lid, queue pair number and keys finds its peers by TCP from then on. */
    private void overTcp(final Job job, final ObjectNode result) throws IOException, InterruptedException {
        final Path stop = job.work().resolve("stop");
        job.configure(Job.SLOW);
        final List<Running> pair = launchPingPong(job);
        final Running program = launchSelfCheck(job, stop);
        job.awaitRanks(6);
        say("6 ranks run: ibv_rc_pingpong between 2, which know each other by lid, and 4 that check every operation");
        final JsonNode checkpoint = checkpoint(job, result);
        killHard(List.of(pair.getFirst(), pair.getLast(), program));
        job.backend("ib2tcp");
        // Four go on until they are told to stop; the other two may be done before anybody looks.
        final Running restart = restart(job, result, checkpoint, 4, "over TCP, without any verbs device");
        runOnAndStop(restart, stop);
        reportPingPong(pair);
        reportSelfCheck(program, result);
    }

    /** However fast or crowded this machine is, the programs are not to end before they are killed: the HCA is slow. */
    private static List<Running> launchPingPong(final Job job) throws IOException, InterruptedException {
        final int free = LocalPort.free();
        final String port = Integer.toString(free);
        final String[] server = {"ibv_rc_pingpong", "-c", "-n", Integer.toString(ITERATIONS), "-p", port};
        final String[] client = Stream.concat(Stream.of(server), Stream.of("127.0.0.1")).toArray(String[]::new);
        final Running first = job.launch("server", server);
        job.await("the server to listen", LocalPort.listens(free), first);
        final Running second = job.launch("client", client);
        job.awaitRanks(2);
        job.await("traffic", () -> first.processorSeconds() + second.processorSeconds() > 2, first, second);
        return List.of(first, second);
    }

    private void reportPingPong(final List<Running> pair) throws IOException {
        for (final Running program : pair) {
            final String said = program.output();
            final String end = said.lines().filter(l -> l.startsWith(ITERATIONS + " iters in")).findFirst()
                    .orElseThrow(() -> new IOException(program.name() + " did not finish: " + said));
            say(program.name() + ": " + end);
        }
        say("both ended with status 0");
    }

    private Running launchSelfCheck(final Job job, final Path stop) throws IOException, InterruptedException {
        final Running program = job.launch("selfcheck", dist.resolve("programs/selfcheck").toString(), "-n", "4",
                "--stop-file", stop.toString(), "--json");
        job.awaitRanks(4);
        job.await("traffic", () -> program.processorSeconds() > 4, program);
        return program;
    }

    /** The restored ranks run on for a while before they are told to stop. */
    private static void runOnAndStop(final Running restart, final Path stop) throws IOException, InterruptedException {
        Thread.sleep(2000);
        Files.createFile(stop);
        restart.succeed(ENDING);
    }

    private void reportSelfCheck(final Running program, final ObjectNode result) throws IOException {
        final String last = program.output().lines().filter(l -> l.startsWith("{")).reduce((a, b) -> b)
                .orElseThrow(() -> new IOException("selfcheck gave no result"));
        final JsonNode counts = JSON.readTree(last);
        for (final String name : List.of("verified", "lost", "doubled", "damaged")) {
            result.put(name, counts.get(name).asLong());
        }
        say(String.format(Locale.ROOT, "%,d operations verified, %d lost, %d doubled, %d damaged",
                counts.get("verified").asLong(), counts.get("lost").asLong(), counts.get("doubled").asLong(),
                counts.get("damaged").asLong()));
        if (counts.get("lost").asLong() + counts.get("doubled").asLong() + counts.get("damaged").asLong() > 0
                || counts.get("verified").asLong() == 0) {
            throw new IOException("selfcheck found operations lost, doubled or damaged");
        }
    }

    private void killHard(final List<Running> programs) throws IOException, InterruptedException {
        for (final Running program : programs) {
            program.killHard();
        }
        say("all killed with SIGKILL");
    }

    private JsonNode checkpoint(final Job job, final ObjectNode result) throws IOException, InterruptedException {
        final JsonNode checkpoint = job.checkpointed(job.startCheckpoint());
        for (final String name : List.of("checkpoint_ms", "drain_ms")) {
            result.put(name, checkpoint.get(name).asDouble());
        }
        result.put("image_bytes", checkpoint.get("image_bytes").asLong());
        say(String.format(Locale.ROOT, "checkpoint: %.0f ms, of it drain %.1f ms in %d rounds; images %.1f MB; runs on",
                checkpoint.get("checkpoint_ms").asDouble(), checkpoint.get("drain_ms").asDouble(),
                checkpoint.get("drain_rounds").asInt(), checkpoint.get("image_bytes").asLong() / 1e6));
        return checkpoint;
    }

    private Running restart(final Job job, final ObjectNode result, final JsonNode checkpoint, final int ranks,
            final String where) throws IOException, InterruptedException {
        job.startCoordinator();
        final long start = System.nanoTime();
        final Running restart = job.restart(checkpoint.get("folder").asText());
        job.awaitRestarted(ranks, restart);
        final double millis = (System.nanoTime() - start) / 1e6;
        result.put("restart_ms", millis);
        say(String.format(Locale.ROOT, "restarted in %.0f ms %s", millis, where));
        return restart;
    }

    private void say(final String line) {
        people.println("   " + line);
    }
}
