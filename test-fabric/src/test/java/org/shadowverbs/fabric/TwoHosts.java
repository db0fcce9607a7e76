// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;

/**
 * Two network namespaces joined by a cable (veth), each with one address and no default route, and with an agent of its
 * own: what two hosts on one Ethernet are to a job. The coordinator is on the first. All of it is removed at the end.
 */
final class TwoHosts implements AutoCloseable {
    private static final Duration COMMAND = Duration.ofSeconds(90);
    private static final String SECRET = "known to both hosts";

    private final String prefix = "svt" + ProcessHandle.current().pid() + "-";
    private final Path work;
    private final List<Running> programs = new ArrayList<>();
    private int commands;
    private String port;

    private TwoHosts() throws IOException {
        work = Files.createTempDirectory("shadowverbs-hosts-");
    }

    /** Skips the test where network namespaces cannot be made. */
    static TwoHosts start() throws IOException, InterruptedException {
        final TwoHosts hosts = new TwoHosts();
        try {
            hosts.connect();
            hosts.startCoordinator();
            return hosts;
        } catch (IOException | InterruptedException | RuntimeException e) {
            hosts.close();
            throw e;
        }
    }

    private void connect() throws IOException, InterruptedException {
        final boolean able = ip("netns", "add", namespace(0)) == 0 && ip("netns", "add", namespace(1)) == 0
                && ip("link", "add", "cable", "netns", namespace(0), "type", "veth", "peer", "name", "cable", "netns",
                        namespace(1)) == 0;
        Assumptions.assumeTrue(able, "network namespaces cannot be made here: " + programs.getLast().errors());
        for (int host = 0; host < 2; host++) {
            mustIp("-n", namespace(host), "address", "add", address(host) + "/24", "dev", "cable");
            mustIp("-n", namespace(host), "link", "set", "cable", "up");
            mustIp("-n", namespace(host), "link", "set", "lo", "up");
        }
    }

    private void startCoordinator() throws IOException, InterruptedException {
        final Path file = work.resolve("port");
        shadowverbs(0, "coordinator", "--daemon", "--address", address(0), "--port", "0", "--port-file", file.toString(),
                "--ckptdir", work.resolve("checkpoints").toString()).succeed(COMMAND);
        port = Files.readString(file).strip();
    }

    private String namespace(final int host) {
        return prefix + host;
    }

    static String address(final int host) {
        return "10.77.0." + (host + 1);
    }

    private int ip(final String... arguments) throws IOException, InterruptedException {
        final List<String> command = new ArrayList<>(List.of("ip"));
        command.addAll(List.of(arguments));
        return start("ip-" + commands++, System.getenv(), command).awaitEnd(COMMAND);
    }

    private void mustIp(final String... arguments) throws IOException, InterruptedException {
        if (ip(arguments) != 0) {
            throw new IOException("ip " + String.join(" ", arguments) + ": " + programs.getLast().errors());
        }
    }

    /** Launches a program on a host, over TCP from its first line. */
    Running launch(final int host, final String... program) throws IOException {
        return shadowverbs(host, Stream.concat(Stream.of("launch", "-h", address(0), "-p", port, "--backend", "ib2tcp",
                "--"), Stream.of(program)).toArray(String[]::new));
    }

    /** Whether a program on its host listens at a port. */
    static BooleanSupplier listens(final Running program, final int port) {
        return Distribution.listens(Path.of("/proc", Long.toString(program.pid()), "net"), port);
    }

    /** Waits for a condition while the program runs. */
    static void await(final String what, final BooleanSupplier condition, final Running program)
            throws IOException, InterruptedException {
        final long end = System.nanoTime() + COMMAND.toNanos();
        while (!condition.getAsBoolean()) {
            if (!program.isRunning() || System.nanoTime() > end) {
                throw new IOException("waited for " + what + " of " + program.name() + ", which said: "
                        + program.output() + program.errors());
            }
            Thread.sleep(5);
        }
    }

    private Running shadowverbs(final int host, final String... arguments) throws IOException {
        final Map<String, String> environment = new HashMap<>(System.getenv());
        environment.keySet().removeIf(k -> k.startsWith("SHADOWVERBS_"));
        environment.put("SHADOWVERBS_RUN_DIR", work.resolve("run-" + host).toString());
        environment.put("SHADOWVERBS_SECRET", SECRET);
        final List<String> command = new ArrayList<>(List.of("nsenter", "--net=/run/netns/" + namespace(host),
                Distribution.DIST.resolve("bin/shadowverbs").toString()));
        command.addAll(List.of(arguments));
        return start(arguments[0] + "-" + commands++, environment, command);
    }

    private Running start(final String name, final Map<String, String> environment, final List<String> command)
            throws IOException {
        final Running running = Running.start(name, work, environment, command);
        programs.add(running);
        return running;
    }

    @Override
    public void close() throws IOException {
        try {
            if (port != null) {
                shadowverbs(0, "kill", "-h", address(0), "-p", port, "--now").awaitEnd(COMMAND);
                shadowverbs(0, "quit", "-h", address(0), "-p", port).awaitEnd(COMMAND);
            }
            for (final Running program : List.copyOf(programs)) {
                program.close();
            }
            ip("netns", "delete", namespace(0));
            ip("netns", "delete", namespace(1));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            Job.remove(work);
        }
    }
}
