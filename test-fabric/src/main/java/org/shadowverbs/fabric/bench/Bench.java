// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;

/**
 * {@code shadowverbs bench [--ib2tcp | --checkpoint | --job] [--json]}: what the preload adds to the data path, and
 * what its JVM costs.
 */
public final class Bench {
    /** Undisturbed ones, if there are that many among the most. */
    private static final int RESUMES = 100;
    private static final int PAIRS = 25;
    private static final int MOST_PAIRS = 100;
    /** Long enough for a rank's link to its agent to be there when its memory is read. */
    private static final String LONG_RUN_ROUNDS = "5001";
    private static final double NANOSECONDS_PER_MILLISECOND = 1e6;
    private static final double KILOBYTES_PER_MEGABYTE = 1024;
    private static final double BYTES_PER_MEGABYTE = 1 << 20;
    /** How many processes are saved to see what is saved. */
    private static final int IMAGES = 3;
    private static final Duration END_DEADLINE = Duration.ofSeconds(60);

    private final boolean json;
    private final BenchResults results = new BenchResults();

    private Bench(final boolean json) {
        this.json = json;
    }

    public static void main(final String[] arguments) {
        final boolean tcp = List.of(arguments).contains("--ib2tcp");
        final boolean checkpoint = List.of(arguments).contains("--checkpoint");
        final boolean job = List.of(arguments).contains("--job");
        final boolean json = List.of(arguments).contains("--json");
        final AtomicBoolean done = new AtomicBoolean();
        Runtime.getRuntime().addShutdownHook(cleanup(Thread.currentThread(), done));
        int status = 1;
        try {
            status = tcp ? TcpBench.run(json) : checkpoint ? CheckpointBench.run(json) : job
                    ? JobBench.start(List.of(arguments))
                    : new Bench(json).run();
        } catch (BenchException | IOException e) {
            System.err.println("bench: " + e.getMessage());
        } catch (InterruptedException e) {
            System.err.println("bench: interrupted");
        }
        done.set(true);
        System.exit(status);
    }

    /** A signal interrupts the work, which then ends its processes and removes its files. */
    private static Thread cleanup(final Thread work, final AtomicBoolean done) {
        return new Thread(() -> {
            if (done.get()) {
                return;
            }
            work.interrupt();
            try {
                work.join(END_DEADLINE.toMillis());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
    }

    private int run() throws BenchException, IOException, InterruptedException {
        final String home = System.getProperty("shadowverbs.home");
        if (home == null) {
            throw new BenchException("the property shadowverbs.home does not say where the distribution is");
        }
        final Path work = Files.createTempDirectory("shadowverbs-bench");
        try {
            final BenchRuns runs = new BenchRuns(Path.of(home), work, Processors.last());
            runs.requireParts();
            try (BenchJob job = BenchJob.start(runs)) {
                runs.learnEnvironment(job.port());
                measureFresh(runs);
                count(runs);
                measureJvm(runs, job);
                measureImage(runs, job);
                measureResumed(runs, job);
                measureRestarted(runs, job);
            }
        } finally {
            delete(work);
        }
        System.out.print(json ? BenchReport.json(results) + "\n" : BenchReport.table(results));
        return 0;
    }

    /** In every pair each goes first as often as second, so that drift and warm caches favour neither. */
    private void measureFresh(final BenchRuns runs) throws BenchException, InterruptedException {
        say(PAIRS + " pairs of runs of " + BenchCase.FRESH.size()
                + " cases, native and preloaded, more while the machine is disturbed");
        int turn = 0;
        for (int pair = 0; pair < MOST_PAIRS; pair++) {
            for (final BenchCase benchCase : unfinished(BenchCase.FRESH)) {
                final Map<String, Double> plain;
                final Map<String, Double> preloaded;
                if (turn++ % 2 == 0) {
                    plain = runs.runNative(benchCase);
                    preloaded = runs.runPreloaded(benchCase);
                } else {
                    preloaded = runs.runPreloaded(benchCase);
                    plain = runs.runNative(benchCase);
                }
                results.row(benchCase).add(plain.get("ns"), preloaded.get("ns"));
            }
        }
    }

    private List<BenchCase> unfinished(final List<BenchCase> cases) {
        return cases.stream().filter(c -> results.row(c).undisturbed().pairs() < PAIRS).toList();
    }

    /** With {@code launch}, because the link to the agent is part of what a rank costs. */
    private void measureJvm(final BenchRuns runs, final BenchJob job) throws BenchException, InterruptedException {
        say(PAIRS + " pairs of runs for boot and memory of the JVM, native and launched");
        final List<String> command = runs.dataplane(1, 1, "-n", LONG_RUN_ROUNDS);
        command.add(BenchCase.SEND_1QP.program());
        for (int pair = 0; pair < PAIRS; pair++) {
            final Map<String, Double> plain = runs.runNative(BenchCase.SEND_1QP);
            final Map<String, Double> launched;
            try (BenchProcess process = job.launch("launched program", command)) {
                launched = BenchProcess.values(process.finish(END_DEADLINE));
            }
            results.boot.add(plain.get("open_device_ns") / NANOSECONDS_PER_MILLISECOND,
                    launched.get("open_device_ns") / NANOSECONDS_PER_MILLISECOND);
            results.memory.add(plain.get("private_kb") / KILOBYTES_PER_MEGABYTE,
                    launched.get("private_kb") / KILOBYTES_PER_MEGABYTE);
        }
    }

    /** Of a process that has gone through checkpoints before, and so has what they leave behind. */
    private void measureImage(final BenchRuns runs, final BenchJob job)
            throws BenchException, IOException, InterruptedException {
        say(IMAGES + " checkpoints of a launched program, the last one of each");
        for (int i = 0; i < IMAGES; i++) {
            final BenchServer server = new BenchServer(runs.work(), "image program " + i);
            final List<String> command = runs.dataplane(1, 1, server.options().toArray(String[]::new));
            command.add(BenchCase.WRITE_1QP.program());
            final Map<String, Double> plain = runs.runNative(BenchCase.WRITE_1QP);
            try (BenchProcess launched = job.launch("launched program", command)) {
                server.awaitReady(launched);
                job.checkpoint();
                job.checkpoint();
                results.image.add(plain.get("private_kb") / KILOBYTES_PER_MEGABYTE,
                        size(Path.of(job.checkpointAndKill())) / BYTES_PER_MEGABYTE);
            }
        }
    }

    private static long size(final Path folder) throws IOException {
        long size = 0;
        try (Stream<Path> files = Files.walk(folder)) {
            for (final Path file : files.filter(Files::isRegularFile).toList()) {
                size += Files.size(file);
            }
        }
        return size;
    }

    private void count(final BenchRuns runs) throws BenchException, InterruptedException {
        say("allocations and system calls of the measured loops");
        for (final BenchCase benchCase : BenchCase.FRESH) {
            final Map<String, Double> values = runs.runPreloaded(benchCase, "-s");
            results.countedRequests += values.get("counted_requests").longValue();
            results.allocations += values.get("allocations").longValue();
            results.systemCalls += values.get("system_calls").longValue();
        }
    }

    /** A native process and one that was restarted, of the same size, measure in turns. */
    private void measureRestarted(final BenchRuns runs, final BenchJob job)
            throws BenchException, InterruptedException {
        say("checkpoint, kill and restart of a process with " + BenchCase.MANY_QUEUE_PAIRS + " queue pairs and "
                + BenchCase.MANY_REGIONS + " regions, then as many pairs of measurements of "
                + BenchCase.RESTARTED.size() + " cases");
        final BenchServer server = new BenchServer(runs.work(), "restarted program");
        try (BenchProcess launched = job.launch("launched program", program(runs, server))) {
            server.awaitReady(launched);
            // A restart brings an agent of its own, so it is under another coordinator.
            final String checkpoint = job.checkpointAndKill();
            try (BenchJob second = BenchJob.start(runs); BenchProcess restarted = second.restart(checkpoint)) {
                measureInTurns(runs, BenchCase.RESTARTED, server, restarted);
            }
        }
    }

    /** Likewise one that has gone on from many checkpoints. */
    private void measureResumed(final BenchRuns runs, final BenchJob job) throws BenchException, InterruptedException {
        say(RESUMES + " checkpoints of such a process, whose devices stay open, then the same");
        final BenchServer server = new BenchServer(runs.work(), "resumed program");
        try (BenchProcess launched = job.launch("launched program", program(runs, server))) {
            server.awaitReady(launched);
            for (int i = 0; i < RESUMES; i++) {
                job.checkpoint();
            }
            measureInTurns(runs, BenchCase.RESUMED, server, launched);
        }
    }

    /** With a native process of the same size. */
    private void measureInTurns(final BenchRuns runs, final List<BenchCase> cases, final BenchServer server,
            final BenchProcess process) throws BenchException, InterruptedException {
        final BenchServer plainServer = new BenchServer(runs.work(), "native program");
        try (BenchProcess plain = runs.startNative("native program", program(runs, plainServer))) {
            plainServer.awaitReady(plain);
            int turn = 0;
            for (int pair = 0; pair < MOST_PAIRS; pair++) {
                for (final BenchCase benchCase : unfinished(cases)) {
                    final double plainValue;
                    final double value;
                    if (turn++ % 2 == 0) {
                        plainValue = plainServer.measure(plain, benchCase);
                        value = server.measure(process, benchCase);
                    } else {
                        value = server.measure(process, benchCase);
                        plainValue = plainServer.measure(plain, benchCase);
                    }
                    results.row(benchCase).add(plainValue, value);
                }
            }
            plainServer.end();
            server.end();
            plain.finish(END_DEADLINE);
            process.finish(END_DEADLINE);
        }
    }

    private static List<String> program(final BenchRuns runs, final BenchServer server) {
        final List<String> command = runs.dataplane(BenchCase.MANY_QUEUE_PAIRS, BenchCase.MANY_REGIONS,
                server.options().toArray(String[]::new));
        // Before the checkpoint no SEND: in the null mode it completes although nobody received it, and a drain, which
        // compares what was sent with what was received, would wait for that.
        command.add(BenchCase.WRITE_1QP.program());
        return command;
    }

    private void say(final String what) {
        if (!json) {
            System.err.println("bench: " + what);
        }
    }

    static void delete(final Path folder) throws IOException {
        final List<Path> all;
        try (Stream<Path> paths = Files.walk(folder)) {
            all = paths.sorted(Comparator.reverseOrder()).toList();
        }
        for (final Path path : all) {
            Files.deleteIfExists(path);
        }
    }
}
