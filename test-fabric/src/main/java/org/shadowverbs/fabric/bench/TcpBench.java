// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.shadowverbs.fabric.harness.LocalPort;

/**
 * {@code shadowverbs bench --ib2tcp [--json]}: verbs over TCP beside plain sockets and UCX over TCP, on the loopback. All do
 * the same work in turns, the two ends of each pinned to a processor of their own. Throughput is that of perftest's
 * {@code -D} without its margins of two seconds, as ucx_perftest leaves out its warm-up: the first second of a rank goes in
 * part to compilers, on the same processor. A row has it from the first message on, too.
 */
final class TcpBench {
    private static final int SCHEMA = 1;
    private static final int ROUNDS = 5;
    private static final double BYTES_PER_MEBIBYTE = 1 << 20;
    private static final ObjectMapper JSON = new ObjectMapper();

    private enum Stack {
        IB2TCP, PLAIN, UCX
    }

    /** Takes the figure from what the client has printed. */
    private interface Figure {
        double of(String output) throws BenchException, IOException;
    }

    /** How one of the three does a case. {@code %d} is the port; the client gets the host besides. */
    private record Way(String server, String client, Figure figure) {
    }

    /** One row; its ways in the order of {@link Stack}. */
    private record Case(String name, String unit, List<Way> ways) {
    }

    private static final List<Case> CASES = List.of(
            throughput("throughput_1m", "-D 8 -f 2", 1 << 20, 24_000),
            throughput("throughput_1m_cold", "-n 24000", 1 << 20, 24_000),
            throughput("throughput_64k", "-D 8 -f 2", 1 << 16, 180_000),
            new Case("latency_8b", "us", List.of(
                    perftest("ib_send_lat -F -s 8 -n 200000", 4),
                    plain("latency 8 200000"),
                    ucx("tag_lat -s 8 -n 200000", 1))),
            new Case("message_rate_64b", "1/us", List.of(
                    perftest("ib_send_bw -F -s 64 -n 2000000", 4),
                    plain("rate 64 500000"),
                    new Way("ucx_perftest -p %d", "ucx_perftest -p %d -t tag_bw -s 64 -n 1000000 -w 1000 -f 127.0.0.1",
                            output -> column(output, 7) / 1e6))));

    private final BenchRuns runs;
    private final int[] processors;
    private Map<String, String> launched;
    private final Map<String, String> bare;
    private final boolean json;

    private TcpBench(final BenchRuns runs, final int[] processors, final boolean json) {
        this.runs = runs;
        this.processors = processors;
        this.json = json;
        bare = new HashMap<>(System.getenv());
        bare.keySet().removeIf(k -> k.startsWith("SHADOWVERBS_") || k.equals("LD_PRELOAD"));
        bare.put("UCX_TLS", "tcp");
        bare.put("UCX_NET_DEVICES", "lo");
    }

    private static Case throughput(final String name, final String duration, final int bytes, final int messages) {
        return new Case(name, "MiB/s", List.of(
                perftest("ib_write_bw -F -s " + bytes + " " + duration, 3),
                new Way("iperf3 -s -1 -p %d", "iperf3 -t 5 -J -l " + bytes + " -p %d -c 127.0.0.1",
                        output -> JSON.readTree(output).at("/end/sum_received/bits_per_second").asDouble() / 8
                                / BYTES_PER_MEBIBYTE),
                ucx("tag_bw -s " + bytes + " -n " + messages, 5)));
    }

    private static Way perftest(final String command, final int column) {
        return new Way(command + " -p %d", command + " -p %d 127.0.0.1", output -> column(output, column));
    }

    private static Way plain(final String what) {
        return new Way("plain-tcp " + what + " %d server", "plain-tcp " + what + " %d client",
                output -> Double.parseDouble(output.strip()));
    }

    private static Way ucx(final String test, final int column) {
        return new Way("ucx_perftest -p %d", "ucx_perftest -p %d -t " + test + " -w 1000 -f 127.0.0.1",
                output -> column(output, column));
    }

    /** A column, from 0, of the last line that is numbers alone. */
    private static double column(final String output, final int column) throws BenchException {
        final String line = output.lines().map(String::strip).filter(l -> l.matches("[0-9][0-9.\\s]+"))
                .reduce((a, b) -> b).orElseThrow(() -> new BenchException("no figures in: " + output));
        final String[] words = line.split("\\s+");
        if (words.length <= column) {
            throw new BenchException("too few figures in: " + line);
        }
        return Double.parseDouble(words[column]);
    }

    /** Exits with 0, or throws. */
    static int run(final boolean json) throws BenchException, IOException, InterruptedException {
        final Path work = Files.createTempDirectory("shadowverbs-bench");
        try {
            final int[] processors = {Processors.first(), Processors.last()};
            final BenchRuns runs = new BenchRuns(Path.of(System.getProperty("shadowverbs.home")), work, processors[1]);
            runs.requireParts();
            new TcpBench(runs, processors, json).measure();
            return 0;
        } finally {
            Bench.delete(work);
        }
    }

    private void measure() throws BenchException, IOException, InterruptedException {
        try (BenchJob job = BenchJob.start(runs)) {
            launched = runs.environmentOfLaunch(job.port(), "--backend", "ib2tcp");
            launched.remove("LD_LIBRARY_PATH");
        }
        final double[][][] figures = new double[CASES.size()][Stack.values().length][ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            say("round " + (round + 1) + " of " + ROUNDS);
            for (int c = 0; c < CASES.size(); c++) {
                for (int i = 0; i < Stack.values().length; i++) {
                    final Stack system = Stack.values()[(i + round) % Stack.values().length];
                    figures[c][system.ordinal()][round] = once(CASES.get(c), system);
                }
            }
        }
        report(figures);
    }

    private double once(final Case what, final Stack system) throws BenchException, IOException, InterruptedException {
        final Way way = what.ways().get(system.ordinal());
        final int port = LocalPort.free();
        final Map<String, String> environment = system == Stack.IB2TCP ? launched : bare;
        try (BenchProcess server = start(what.name() + " server", environment, processors[0], way.server(), port)) {
            final long end = System.nanoTime() + BenchRuns.RUN_DEADLINE.toNanos();
            final BooleanSupplier listens = LocalPort.listens(port);
            while (!listens.getAsBoolean()) {
                if (!server.isRunning() || System.nanoTime() > end) {
                    throw new BenchException(way.server() + " does not listen" + server.lastWords());
                }
                Thread.sleep(10);
            }
            try (BenchProcess client = start(what.name() + " client", environment, processors[1], way.client(), port)) {
                final double figure = way.figure().of(client.finish(BenchRuns.RUN_DEADLINE));
                server.finish(BenchRuns.RUN_DEADLINE);
                return figure;
            }
        }
    }

    private BenchProcess start(final String what, final Map<String, String> environment, final int processor,
            final String line, final int port) throws BenchException {
        final List<String> command = new ArrayList<>(List.of("taskset", "-c", Integer.toString(processor)));
        command.addAll(List.of(String.format(Locale.ROOT, line, port).split(" ")));
        if (command.get(3).equals("plain-tcp")) {
            command.set(3, runs.program("plain-tcp"));
        }
        return BenchProcess.start(runs.work(), what, environment, command);
    }

    /** Medians, and the medians of the ratios of each round, which drift does not bend. */
    private void report(final double[][][] figures) {
        final ArrayNode rows = JSON.createArrayNode();
        final StringBuilder text = new StringBuilder(String.format(Locale.ROOT, "%-18s %6s %10s %10s %10s %9s %9s%n", "",
                "unit", "ib2tcp", "plain", "ucx", "to plain", "to ucx"));
        for (int c = 0; c < CASES.size(); c++) {
            final double[] medians = new double[3];
            for (int i = 0; i < medians.length; i++) {
                medians[i] = BenchSamples.quantile(figures[c][i], 0.5);
            }
            final double toPlain = BenchSamples.quantile(ratios(figures[c], Stack.PLAIN), 0.5);
            final double toUcx = BenchSamples.quantile(ratios(figures[c], Stack.UCX), 0.5);
            rows.addObject().put("name", CASES.get(c).name()).put("unit", CASES.get(c).unit())
                    .put("ib2tcp", rounded(medians[0])).put("plain", rounded(medians[1])).put("ucx", rounded(medians[2]))
                    .put("ratio", rounded(toPlain)).put("ratio_to_ucx", rounded(toUcx)).put("rounds", ROUNDS);
            text.append(String.format(Locale.ROOT, "%-18s %6s %10.2f %10.2f %10.2f %9.2f %9.2f%n", CASES.get(c).name(),
                    CASES.get(c).unit(), medians[0], medians[1], medians[2], toPlain, toUcx));
        }
        if (json) {
            final ObjectNode all = JSON.createObjectNode().put("schema", SCHEMA).put("command", "bench --ib2tcp");
            all.set("rows", rows);
            System.out.println(all);
        } else {
            System.out.print(text);
        }
    }

    private static double[] ratios(final double[][] figures, final Stack to) {
        final double[] ratios = new double[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            ratios[round] = figures[Stack.IB2TCP.ordinal()][round] / figures[to.ordinal()][round];
        }
        return ratios;
    }

    private static double rounded(final double value) {
        return Math.round(value * 1000) / 1000.0;
    }

    private void say(final String what) {
        if (!json) {
            System.err.println("bench: " + what);
        }
    }
}
