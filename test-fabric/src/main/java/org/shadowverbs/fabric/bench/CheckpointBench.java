// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * {@code shadowverbs bench --checkpoint [--json]}: checkpoints of ranks with so much registered memory, a tenth of which they
 * write to twice a second, and so many queue pairs; and, as the floor, CRIU alone on processes of the same memory that use no
 * verbs. The ways that are about memory are measured where only memory differs.
 */
final class CheckpointBench {
    private static final int SCHEMA = 1;
    private static final List<Load> LOADS = List.of(new Load(16, 1, 2), new Load(16, 1, 64), new Load(16, 1, 512),
            new Load(16, 1, 4096), new Load(16, 2, 2), new Load(16, 8, 2), new Load(16, 32, 2), new Load(1024, 1, 2),
            new Load(4096, 1, 2));
    private static final int ROUNDS = 3;
    private static final double MEGABYTE = 1e6;
    private static final double NANOS_PER_MILLI = 1e6;
    private static final Pattern RESTORED = Pattern.compile("restored .* in ([0-9.]+) s");
    private static final String READY = "ready";
    private static final ObjectMapper JSON = new ObjectMapper();

    /** A column: how a checkpoint is made. Those of one group are made in the same job. */
    private enum Way {
        CRIU("CRIU alone", ""),
        DETACHED("detached", "--detached", "--compress", "none"),
        PLAIN("attached", "", "--compress", "none"),
        COMPRESSED("compressed", "", "--compress", "auto"),
        INCREMENT("increment", "", "--compress", "none", "--full-every", "100"),
        PRE_COPY("pre-copy", "--pre-copy", "--compress", "none");

        private final String title;
        private final String option;
        private final List<String> ofJob;

        /**
         * @param option of the checkpoints; empty: none
         * @param ofJob  options of the coordinator
         */
        Way(final String title, final String option, final String... ofJob) {
            this.title = title;
            this.option = option;
            this.ofJob = List.of(ofJob);
        }
    }

    /**
     * What one way costs: medians.
     *
     * @param stopped milliseconds that the process stood still
     * @param safe    milliseconds until the checkpoint was safe
     * @param bytes   of the images, in MB
     * @param restart milliseconds until it ran again; 0 where that is not measured
     */
    private record Cost(double stopped, double safe, double bytes, double restart) {
    }

    /** What a job has: so many processes, each with so much memory and so many queue pairs. */
    private record Load(int mebibytes, int processes, int queuePairs) {
        List<String> arguments(final boolean verbs) {
            final List<String> arguments = new ArrayList<>(List.of(Integer.toString(mebibytes), Integer.toString(processes)));
            if (verbs) {
                arguments.add(Integer.toString(queuePairs));
            }
            return arguments;
        }

        boolean measures(final Way way) {
            return way.ordinal() <= Way.PLAIN.ordinal() || processes == 1 && queuePairs == 2;
        }

        @Override
        public String toString() {
            return String.format(Locale.ROOT, "%d x %d MiB, %d QPs", processes, mebibytes, queuePairs);
        }
    }

    private final BenchRuns runs;
    private final boolean json;

    private CheckpointBench(final BenchRuns runs, final boolean json) {
        this.runs = runs;
        this.json = json;
    }

    /** Exits with 0, or throws. */
    static int run(final boolean json) throws BenchException, IOException, InterruptedException {
        final Path work = Files.createTempDirectory("shadowverbs-bench");
        try {
            final BenchRuns runs = new BenchRuns(Path.of(System.getProperty("shadowverbs.home")), work, Processors.last());
            runs.requireParts();
            new CheckpointBench(runs, json).measure();
            return 0;
        } finally {
            Bench.delete(work);
        }
    }

    private void measure() throws BenchException, IOException, InterruptedException {
        final Map<Load, Map<Way, Cost>> all = new LinkedHashMap<>();
        for (final Load load : LOADS) {
            final Map<Way, Cost> row = new EnumMap<>(Way.class);
            for (final Way way : Way.values()) {
                if (load.measures(way)) {
                    row.put(way, way == Way.CRIU ? criuAlone(load) : job(load, way));
                    say(load + ", " + way.title + ": " + row.get(way));
                }
            }
            all.put(load, row);
        }
        report(all);
    }

    // ---- CRIU alone ----

    private Cost criuAlone(final Load load) throws BenchException, IOException, InterruptedException {
        final BareCriu criu = new BareCriu(runs);
        final List<Double> stopped = new ArrayList<>();
        final List<Double> safe = new ArrayList<>();
        double bytes = 0;
        double restart = 0;
        try (BenchProcess process = memory(load)) {
            for (int round = 1; round <= ROUNDS; round++) {
                final Path images = Files.createDirectory(runs.work().resolve("criu-" + round));
                final long begin = System.nanoTime();
                criu.dump(process.pid(), images, round < ROUNDS);
                criu.sync(images);
                safe.add((System.nanoTime() - begin) / NANOS_PER_MILLI);
                stopped.add(BareCriu.frozenMillis(images));
                bytes = BareCriu.bytes(images) / MEGABYTE;
                // Of several, the pids are free only when whoever inherits dead processes has heard of them.
                if (round == ROUNDS && load.processes == 1) {
                    while (process.isRunning()) {
                        Thread.sleep(1); // CRIU has killed it, and its pid is to be free
                    }
                    restart = criu.restoreAndKill(images);
                }
                Bench.delete(images);
            }
        }
        return new Cost(median(stopped), median(safe), bytes, restart);
    }

    private BenchProcess memory(final Load load) throws BenchException, InterruptedException {
        final List<String> command = new ArrayList<>(List.of("setsid", runs.program("memory")));
        command.addAll(load.arguments(false));
        final BenchProcess process = runs.startNative("memory of " + load, command);
        awaitReady(process, load);
        return process;
    }

    private static void awaitReady(final BenchProcess process, final Load load) throws BenchException, InterruptedException {
        final long end = System.nanoTime() + BenchRuns.RUN_DEADLINE.toNanos();
        while (process.output().split(READY, -1).length <= load.processes) {
            if (!process.isRunning() || System.nanoTime() > end) {
                throw new BenchException("the process with memory is not ready" + process.lastWords());
            }
            Thread.sleep(10);
        }
    }

    // ---- jobs ----

    private Cost job(final Load load, final Way way) throws BenchException, IOException, InterruptedException {
        final List<Double> stopped = new ArrayList<>();
        final List<Double> safe = new ArrayList<>();
        double bytes = 0;
        double restart;
        final Path images = runs.work().resolve("images");
        try (BenchJob job = BenchJob.start(runs, way.ofJob.toArray(new String[0]))) {
            final List<String> program = new ArrayList<>(List.of(runs.program("memory")));
            program.addAll(load.arguments(true));
            try (BenchProcess process = job.launch("memory of " + load, program)) {
                awaitReady(process, load);
                job.awaitRanks(load.processes);
                // The first one is whole in any case, and its time has in it what is done but once.
                for (int round = 0; round <= ROUNDS; round++) {
                    final JsonNode one = JSON.readTree(job.checkpoint(way.option));
                    if (round > 0) {
                        stopped.add(one.path("stopped_ms").asDouble());
                        safe.add(one.path("checkpoint_ms").asDouble());
                        bytes = one.path("image_bytes").asDouble() / MEGABYTE;
                    }
                }
            }
        }
        try (BenchJob job = BenchJob.start(runs); BenchProcess restarted = job.restart(images.resolve("latest").toString())) {
            restart = 1000 * restored(restarted);
        }
        Bench.delete(images);
        return new Cost(median(stopped), median(safe), bytes, restart);
    }

    private static double restored(final BenchProcess restarted) throws BenchException, InterruptedException {
        final long end = System.nanoTime() + BenchRuns.RUN_DEADLINE.toNanos();
        for (;;) {
            final Matcher said = RESTORED.matcher(restarted.lastWords());
            if (said.find()) {
                return Double.parseDouble(said.group(1));
            }
            if (!restarted.isRunning() || System.nanoTime() > end) {
                throw new BenchException("the job does not come back" + restarted.lastWords());
            }
            Thread.sleep(10);
        }
    }

    // ---- the table ----

    private static double median(final List<Double> values) {
        return BenchSamples.quantile(values.stream().mapToDouble(Double::doubleValue).toArray(), 0.5);
    }

    /** A row for each figure; each way with its ratio to CRIU alone. */
    private void report(final Map<Load, Map<Way, Cost>> all) {
        final ArrayNode rows = JSON.createArrayNode();
        final StringBuilder text = new StringBuilder(String.format(Locale.ROOT, "%-43s", ""));
        for (final Way way : Way.values()) {
            text.append(String.format(Locale.ROOT, way == Way.CRIU ? " %10s" : " %10s  ratio", way.title));
        }
        text.append('\n');
        all.forEach((load, costs) -> {
            row(text, rows, load, "stood still, ms", costs, Cost::stopped);
            row(text, rows, load, "until safe, ms", costs, Cost::safe);
            row(text, rows, load, "image, MB", costs, Cost::bytes);
            row(text, rows, load, "restart, ms", costs, Cost::restart);
        });
        if (json) {
            final ObjectNode object = JSON.createObjectNode().put("schema", SCHEMA).put("command", "bench --checkpoint");
            object.set("rows", rows);
            System.out.println(object);
        } else {
            System.out.print(text);
        }
    }

    private interface Figure {
        double of(Cost cost);
    }

    private static void row(final StringBuilder text, final ArrayNode rows, final Load load, final String name,
            final Map<Way, Cost> costs, final Figure figure) {
        final double floor = figure.of(costs.get(Way.CRIU));
        final ObjectNode row = rows.addObject().put("processes", load.processes).put("mebibytes", load.mebibytes)
                .put("queue_pairs", load.queuePairs).put("name", name);
        text.append(String.format(Locale.ROOT, "%-26s %-16s", load, name));
        costs.forEach((way, cost) -> {
            final double value = figure.of(cost);
            row.put(way.name().toLowerCase(Locale.ROOT), Math.round(value * 10) / 10.0);
            text.append(way == Way.CRIU ? String.format(Locale.ROOT, " %10.1f", value)
                    : String.format(Locale.ROOT, floor == 0 ? " %10.1f      -" : " %10.1f %6.2f", value, value / floor));
        });
        text.append('\n');
    }

    private void say(final String what) {
        if (!json) {
            System.err.println("bench: " + what);
        }
    }
}
