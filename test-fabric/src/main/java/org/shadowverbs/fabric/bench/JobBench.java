// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * {@code shadowverbs bench --job}: how a coordinator bears many ranks. Hosts and ranks are simulated, all in one
 * process; coordinator, protocol and connections are real.
 */
public final class JobBench {
    private static final int SCHEMA = 1;
    private static final String SIZES = "64,2048,16384";
    private static final int RANKS_PER_HOST = 100;
    private static final int PEERS = 16;
    /** Up to so many ranks each wants the ids of all others; above, of its peers. */
    private static final int MOST_ALL_TO_ALL = 16_384;
    private static final int MOST_RANKS = 1_000_000;
    private static final int START_SECONDS = 60;
    private static final double KILOBYTES_PER_MEGABYTE = 1024;
    private static final double BYTES_PER_MEGABYTE = 1 << 20;
    private static final String HEAP = "-Xmx6g";

    /** What one size came to. */
    private record Size(int ranks, boolean allToAll, Map<String, SimulatedJob.Figures> steps, double peakMegabytes) {
    }

    private final Path home;
    private final Path work;
    private final boolean json;
    /** That the coordinator is to use; empty: none. */
    private final String store;

    private JobBench(final Path home, final Path work, final boolean json, final String store) {
        this.store = store;
        this.home = home;
        this.work = work;
        this.json = json;
    }

    /** In a process of its own: the ranks need more memory than a command has. */
    static int start(final List<String> arguments) throws BenchException, InterruptedException {
        sizes(arguments); // the caller's mistakes are said by this process
        final List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow(),
                HEAP, "-XX:+UseParallelGC", "-XX:-MaxFDLimit", "--enable-native-access=ALL-UNNAMED",
                "-cp", System.getProperty("java.class.path"),
                "-Dshadowverbs.home=" + System.getProperty("shadowverbs.home"), JobBench.class.getName()));
        command.addAll(arguments);
        final Process process;
        try {
            process = new ProcessBuilder(command).inheritIO().start();
        } catch (IOException e) {
            throw new BenchException("the simulated hosts can't be started: " + e.getMessage());
        }
        try {
            return process.waitFor();
        } finally {
            process.destroy();
        }
    }

    public static void main(final String[] args) throws IOException {
        final List<String> arguments = List.of(args);
        final Path work = Files.createTempDirectory("shadowverbs-bench");
        int status = 1;
        try {
            new JobBench(Path.of(System.getProperty("shadowverbs.home")), work, arguments.contains("--json"),
                    value(arguments, "--store"))
                    .measure(sizes(arguments));
            status = 0;
        } catch (BenchException e) {
            System.err.println("bench: " + e.getMessage());
        } catch (InterruptedException e) {
            System.err.println("bench: interrupted");
        } finally {
            Bench.delete(work);
        }
        System.exit(status);
    }

    private static String value(final List<String> arguments, final String option) {
        for (int i = 0; i < arguments.size(); i++) {
            if (arguments.get(i).startsWith(option + "=")) {
                return arguments.get(i).substring(option.length() + 1);
            }
            if (arguments.get(i).equals(option) && i + 1 < arguments.size()) {
                return arguments.get(i + 1);
            }
        }
        return "";
    }

    private static List<Integer> sizes(final List<String> arguments) throws BenchException {
        final String given = value(arguments, "--ranks");
        final List<Integer> sizes = new ArrayList<>();
        for (final String size : (given.isEmpty() ? SIZES : given).split(",")) {
            try {
                sizes.add(Integer.parseInt(size));
            } catch (NumberFormatException e) {
                throw new BenchException("--ranks takes numbers with commas between them, not " + size);
            }
            if (sizes.getLast() < 2 || sizes.getLast() > MOST_RANKS) {
                throw new BenchException("--ranks takes numbers from 2 to " + MOST_RANKS + ", not " + size);
            }
        }
        return sizes;
    }

    private void measure(final List<Integer> sizes) throws BenchException, IOException, InterruptedException {
        final List<Size> all = new ArrayList<>();
        for (final int ranks : sizes) {
            if (!json) {
                System.err.println("bench: " + ranks + " ranks");
            }
            all.add(measure(ranks));
        }
        System.out.print(json ? json(all) + "\n" : table(all));
    }

    private Size measure(final int ranks) throws BenchException, IOException, InterruptedException {
        final Path folder = Files.createDirectory(work.resolve("job-" + ranks));
        final Path portFile = folder.resolve("port");
        final List<String> command = List.of(home.resolve("bin/shadowverbs").toString(),
                "coordinator", "--port", "0",
                "--port-file", portFile.toString(), "--ckptdir", folder.resolve("checkpoints").toString());
        final ProcessBuilder builder = new ProcessBuilder(command).redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(folder.resolve("coordinator.err").toFile());
        builder.environment().put("SHADOWVERBS_RUN_DIR", folder.resolve("run").toString());
        builder.environment().put("SHADOWVERBS_SECRET", "");
        builder.environment().put("SHADOWVERBS_STORE", store);
        final Process coordinator = builder.start();
        final boolean allToAll = ranks <= MOST_ALL_TO_ALL;
        try {
            final int port = port(portFile, coordinator);
            try (SimulatedJob job = new SimulatedJob(ranks, RANKS_PER_HOST, PEERS, allToAll, port, coordinator.pid(),
                    folder.resolve("checkpoints"), secret(folder, port))) {
                job.join();
                job.checkpoint(false);
                job.checkpoint(true);
                if (!store.isEmpty()) {
                    forget(folder, port);
                }
                return new Size(ranks, allToAll, job.results(),
                        ProcessFigures.peakKilobytes(coordinator.pid()) / KILOBYTES_PER_MEGABYTE);
            }
        } finally {
            coordinator.destroy();
            if (!coordinator.waitFor(START_SECONDS, TimeUnit.SECONDS)) {
                coordinator.destroyForcibly();
            }
        }
    }

    /** The job is over: nothing of it is to stay in the store. */
    private void forget(final Path folder, final int port) throws IOException, InterruptedException {
        final ProcessBuilder quit = new ProcessBuilder(home.resolve("bin/shadowverbs").toString(), "quit", "-p", Integer.toString(port))
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(folder.resolve("quit.err").toFile());
        quit.environment().put("SHADOWVERBS_RUN_DIR", folder.resolve("run").toString());
        quit.start().waitFor();
    }

    private static int port(final Path file, final Process coordinator) throws BenchException, IOException,
            InterruptedException {
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_SECONDS);
        while (!Files.exists(file)) {
            if (!coordinator.isAlive() || System.nanoTime() > end) {
                throw new BenchException("the coordinator does not listen: "
                        + Files.readString(file.resolveSibling("coordinator.err")));
            }
            Thread.sleep(10);
        }
        return Integer.parseInt(Files.readString(file).strip());
    }

    /** The one that the coordinator has made. */
    private static String secret(final Path folder, final int port) throws IOException, InterruptedException {
        final Path file = folder.resolve("run").resolve(Integer.toString(port)).resolve("secret");
        for (int i = 0; !Files.exists(file) && i < 1000; i++) {
            Thread.sleep(1);
        }
        return Files.exists(file) ? Files.readString(file).strip() : "";
    }

    // ---- the report ----

    private static String table(final List<Size> sizes) {
        final StringBuilder text = new StringBuilder();
        row(text, "", sizes.stream().map(s -> String.format(Locale.ROOT, "%,d ranks", s.ranks())).toList());
        row(text, "ms (ms that all cores worked)", sizes.stream().map(s -> s.allToAll() ? "all to all"
                : PEERS + " peers").toList());
        final Set<String> names = new LinkedHashSet<>();
        sizes.forEach(s -> names.addAll(s.steps().keySet()));
        for (final String name : names) {
            row(text, name, sizes.stream().map(s -> cell(s.steps().get(name))).toList());
        }
        row(text, "coordinator: processor seconds", sizes.stream().map(s -> String.format(Locale.ROOT, "%.1f",
                sum(s, SimulatedJob.Figures::coordinatorMillis) / 1000)).toList());
        row(text, "read, MB", sizes.stream().map(s -> megabytes(sum(s, SimulatedJob.Figures::read))).toList());
        row(text, "written, MB", sizes.stream().map(s -> megabytes(sum(s, SimulatedJob.Figures::written))).toList());
        row(text, "memory at most, MB", sizes.stream().map(s -> String.format(Locale.ROOT, "%,.0f", s.peakMegabytes()))
                .toList());
        return text.toString();
    }

    /** What others had of the machine is in the first number only. */
    private static String cell(final SimulatedJob.Figures figures) {
        return figures == null ? "" : String.format(Locale.ROOT, "%,.0f (%,.0f)", figures.millis(),
                figures.processorMillis() / Runtime.getRuntime().availableProcessors());
    }

    private static String megabytes(final double bytes) {
        return String.format(Locale.ROOT, "%,.1f", bytes / BYTES_PER_MEGABYTE);
    }

    private interface Figure {
        double of(SimulatedJob.Figures figures);
    }

    /** Of joining and of the checkpoints, of which the exchanges are parts. */
    private static double sum(final Size size, final Figure figure) {
        return size.steps().entrySet().stream().filter(step -> SimulatedJob.isWhole(step.getKey()))
                .mapToDouble(step -> figure.of(step.getValue())).sum();
    }

    private static void row(final StringBuilder text, final String name, final List<String> values) {
        text.append(String.format(Locale.ROOT, "%-32s", name));
        values.forEach(value -> text.append(String.format(Locale.ROOT, " %18s", value)));
        text.append('\n');
    }

    private static String json(final List<Size> sizes) {
        final ObjectNode report = new ObjectMapper().createObjectNode().put("schema", SCHEMA).put("command",
                "bench --job");
        final ArrayNode all = report.putArray("sizes");
        for (final Size size : sizes) {
            final ObjectNode one = all.addObject().put("ranks", size.ranks()).put("ranks_per_host", RANKS_PER_HOST)
                    .put("peers", PEERS).put("all_to_all", size.allToAll())
                    .put("peak_mb", Math.round(size.peakMegabytes()));
            final ArrayNode steps = one.putArray("steps");
            size.steps().forEach((name, figures) -> {
                steps.addObject().put("name", name).put("ms", Math.round(figures.millis() * 10) / 10.0)
                        .put("cpu_ms", figures.processorMillis()).put("coordinator_cpu_ms", figures.coordinatorMillis())
                        .put("read", figures.read()).put("written", figures.written());
            });
        }
        return report.toString();
    }
}
