// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.cli.Address;
import org.shadowverbs.coordinator.cli.CoordinatorClient;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;

/**
 * Two networks joined by a cable, or more by a switch, each with a name and with an agent of its own: what hosts on one Ethernet, with a
 * file system that they share, are to a job. The coordinator is on the first. All of it is removed at the end.
 */
public final class TwoHosts implements AutoCloseable {
    private static final Duration COMMAND = Running.DEADLINE;
    private static final String PASSWORD = "known to the job alone";
    private static final String STORE_PORT = "6379";
    private static final String SECRET = "known to both hosts";

    private final Path work;
    private final int count;
    private final List<Running> programs = new ArrayList<>();
    private final Map<String, String> environment;
    private List<String> ownOnSecond = List.of();
    private List<String> asUser = List.of();
    private TwoNetworks networks;
    private int commands;
    private String port;
    /** Where the coordinator is. */
    private int coordinator;

    private TwoHosts(final Map<String, String> more, final int count) throws IOException {
        this.count = count;
        work = Files.createTempDirectory("shadowverbs-hosts-");
        environment = new HashMap<>(System.getenv());
        environment.keySet().removeIf(k -> k.startsWith("SHADOWVERBS_"));
        environment.put("SHADOWVERBS_SECRET", SECRET);
        environment.put("SV_HCA_FABRIC", Files.createDirectory(work.resolve("fabric")).toString());
        environment.put("TMPDIR", Files.createDirectory(work.resolve("tmp")).toString());
        environment.putAll(more);
    }

    public static TwoHosts start() throws IOException, InterruptedException {
        return start(Map.of());
    }

    /** Skips the test where network namespaces cannot be made. {@code more} is added to the environment of all. */
    public static TwoHosts start(final Map<String, String> more) throws IOException, InterruptedException {
        return start(more, 2);
    }

    /** @param count how many hosts; the coordinator gets these options */
    public static TwoHosts start(final Map<String, String> more, final int count, final String... options)
            throws IOException, InterruptedException {
        final TwoHosts hosts = new TwoHosts(more, count);
        try {
            hosts.connect();
            hosts.startCoordinator(options);
            return hosts;
        } catch (IOException | InterruptedException | RuntimeException e) {
            hosts.close();
            throw e;
        }
    }

    /**
     * As {@link #start(Map, int, String...)}, with a Redis server that all reach, on a host of its own beside them, and a coordinator that
     * keeps there what the job must not lose.
     */
    public static TwoHosts startWithStore(final Map<String, String> more, final int count, final String... options)
            throws IOException, InterruptedException {
        final TwoHosts hosts = new TwoHosts(more, count + 1);
        try {
            hosts.connect();
            hosts.startStore(count);
            hosts.startCoordinator(options);
            return hosts;
        } catch (IOException | InterruptedException | RuntimeException e) {
            hosts.close();
            throw e;
        }
    }

    private void startStore(final int host) throws IOException, InterruptedException {
        final Running server = start("redis", environment, List.of("nsenter", "--net=" + networks.file(host), "redis-server", "--port",
                STORE_PORT, "--bind", address(host), "--requirepass", PASSWORD, "--save", "", "--dir", work.toString()));
        await("Redis to be ready", () -> server.lines("Ready to accept connections") > 0, server);
        environment.put("SHADOWVERBS_STORE", "redis://" + address(host) + ":" + STORE_PORT);
        environment.put("SHADOWVERBS_STORE_PASSWORD", PASSWORD);
    }

    /** What the server of {@link #startWithStore} knows, as the answer of redis-cli. */
    public String store(final String... command) throws IOException, InterruptedException {
        final Map<String, String> its = new HashMap<>(environment);
        its.put("REDISCLI_AUTH", PASSWORD);
        final Running asked = start("redis-cli-" + commands++, its, Stream.concat(Stream.of("nsenter", "--net="
                + networks.file(count - 1), "redis-cli", "-h", address(count - 1), "-p", STORE_PORT), Stream.of(command)).toList());
        asked.succeed(COMMAND);
        return asked.output();
    }

    /** Commands ask the coordinator on that host from now on, which has taken the place of the one before. */
    public void coordinatorIsOn(final int host) {
        coordinator = host;
    }

    private void connect() throws IOException, InterruptedException {
        networks = TwoNetworks.make(work, count);
        for (int host = 0; host < count; host++) {
            start("name-" + host, environment, List.of("unshare", "--uts=" + Files.createFile(uts(host)), "hostname",
                    name(host))).succeed(COMMAND);
        }
    }

    /** A new coordinator, at a port of its own, without a job. The one before has been {@link #endCoordinator ended}. */
    public void startCoordinator(final String... options) throws IOException, InterruptedException {
        final Path file = work.resolve("port-" + commands);
        shadowverbs(0, Stream.concat(Stream.of("coordinator", "--daemon", "--address", address(0), "--port", "0", "--port-file",
                file.toString(), "--ckptdir", checkpoints().toString()), Stream.of(options)).toArray(String[]::new)).succeed(COMMAND);
        port = Files.readString(file).strip();
    }

    /** All commands from now on, and the programs they run, are those of this user, who has no privilege on either host. */
    public void user(final int id) throws IOException, InterruptedException {
        endCoordinator();
        Job.giveTo(id, work, path -> !path.getFileName().toString().startsWith("uts-"));
        asUser = Job.commandOf(id);
        startCoordinator();
    }

    /** Ends what it runs, its agents, and it. */
    public void endCoordinator() throws IOException, InterruptedException {
        if (port != null) {
            try {
                ask("kill", Map.of("now", "true"));
                ask("quit", Map.of());
            } catch (IOException e) {
                // It is not there any more, or ends: what it has left is ended with the programs.
            }
            port = null;
        }
    }

    public Path work() {
        return work;
    }

    /** A new folder of the user's, which both hosts see. */
    public Path folder(final String name) throws IOException {
        final Path folder = Files.createDirectory(work.resolve(name));
        Files.setAttribute(folder, "unix:uid", Files.getAttribute(work, "unix:uid"));
        return folder;
    }

    public Path checkpoints() {
        return work.resolve("checkpoints");
    }

    public Path coordinatorLog() {
        return coordinatorLog(coordinator);
    }

    /** That of a coordinator on that host, if there is one. */
    public Path coordinatorLog(final int host) {
        return work.resolve("run-" + host).resolve(port).resolve("coordinator.log");
    }

    private Path uts(final int host) {
        return work.resolve("uts-" + host);
    }

    public static String name(final int host) {
        return "node" + host;
    }

    public static String address(final int host) {
        return TwoNetworks.address(host);
    }

    /** Launches a program on a host, over TCP from its first line. */
    public Running launch(final int host, final String... program) throws IOException {
        return launch(host, List.of("--backend", "ib2tcp"), program);
    }

    public Running launch(final int host, final List<String> options, final String... program) throws IOException {
        return command(host, "launch", Stream.of(options.stream(), Stream.of("--"), Stream.of(program))
                .flatMap(s -> s).toArray(String[]::new));
    }

    /** Launches the self-checking program, half of its ranks on each of the first two hosts, and waits until all are connected. */
    public List<Running> launchSelfcheck(final int ranks, final Path stop) throws Exception {
        return launchSelfcheck(ranks, stop, 0);
    }

    /** @param first of the two hosts */
    public List<Running> launchSelfcheck(final int ranks, final Path stop, final int first) throws Exception {
        final Path meet = folder("meet");
        final List<Running> programs = new ArrayList<>();
        for (int rank = 0; rank < ranks; rank++) {
            programs.add(launch(first + rank * 2 / ranks, Selfcheck.ofRank(rank, ranks, meet, stop)));
        }
        for (final Running program : programs) {
            await("its connections", () -> program.lines(": connected: ") > 0, program);
        }
        awaitRanks(ranks, programs);
        return programs;
    }

    /** Runs a command of this job's coordinator on a host, in the background. */
    public Running command(final int host, final String command, final String... arguments) throws IOException {
        return shadowverbs(host, Stream.concat(Stream.of(command, "-h", address(coordinator), "-p", port), Stream.of(arguments))
                .toArray(String[]::new));
    }

    /** Takes a checkpoint. @return its folder */
    public String checkpoint() throws IOException, InterruptedException {
        final Running checkpoint = command(coordinator, "checkpoint");
        checkpoint.succeed(COMMAND);
        return checkpoint.output().strip().lines().reduce((a, b) -> b).orElseThrow();
    }

    /** What the command {@code status} prints as JSON. */
    public JsonNode status() throws IOException, InterruptedException {
        return new ObjectMapper().readTree(ask("status", Map.of()).json());
    }

    private Result ask(final String command, final Map<String, String> arguments) throws IOException, InterruptedException {
        final Address at = new Address(address(coordinator), Integer.parseInt(port), true, environment);
        try {
            return NetworkNamespace.call(networks.file(coordinator),
                    () -> CoordinatorClient.call(at, command, arguments, COMMAND.toMillis(), line -> { }));
        } catch (ExecutionException e) {
            throw new IOException(command + ": " + e.getCause().getMessage(), e);
        }
    }

    /** Waits until so many ranks run, while the programs given do. */
    public void awaitRanks(final int ranks, final List<Running> programs) throws IOException, InterruptedException {
        final long end = System.nanoTime() + COMMAND.toNanos();
        final Looks looks = new Looks();
        for (int running = 0; running < ranks;) {
            for (final Running program : programs) {
                if (!program.isRunning() || System.nanoTime() > end) {
                    throw new IOException("waited for " + ranks + " ranks; " + program.name() + " said: "
                            + program.output() + program.errors());
                }
            }
            running = runningRanks();
            looks.rest();
        }
    }

    public int runningRanks() throws IOException, InterruptedException {
        int running = 0;
        for (final JsonNode rank : status().get("ranks")) {
            running += "running".equals(rank.get("state").asText()) ? 1 : 0;
        }
        return running;
    }

    /** Whether a program on its host listens at a port. */
    public static BooleanSupplier listens(final Running program, final int port) {
        return LocalPort.listens(Path.of("/proc", Long.toString(program.pid()), "net"), port);
    }

    /** Waits until each of the programs has taken so much processor time, in seconds. */
    public static void work(final List<Running> programs, final double seconds) throws IOException, InterruptedException {
        final Map<Running, BooleanSupplier> worked = new LinkedHashMap<>();
        programs.forEach(program -> worked.put(program, program.takes(seconds)));
        for (final Map.Entry<Running, BooleanSupplier> each : worked.entrySet()) {
            await("traffic", each.getValue(), each.getKey());
        }
    }

    /** Waits for a condition while the program runs. */
    public static void await(final String what, final BooleanSupplier condition, final Running program)
            throws IOException, InterruptedException {
        final long end = System.nanoTime() + COMMAND.toNanos();
        final Looks looks = new Looks();
        while (!condition.getAsBoolean()) {
            if (!program.isRunning() || System.nanoTime() > end) {
                if (condition.getAsBoolean()) {
                    return; // it came to be so between the two looks
                }
                throw new IOException("waited for " + what + " of " + program.name() + ", which said: "
                        + program.output() + program.errors());
            }
            looks.rest();
        }
    }

    /** Of three hosts or more: nothing that the host sends arrives from now on, nor does anything arrive there; or all does again. */
    public void cut(final int host, final boolean off) throws IOException, InterruptedException {
        networks.cut(host, off);
    }

    /** The processes on a host that were started with this job's temporary folder: its agents and programs, and what they have started. */
    public List<ProcessHandle> processes(final int host) throws IOException {
        final Path network = networks.file(host);
        final Object inode = Files.getAttribute(network, "unix:ino");
        return Running.allOf(work).filter(process -> {
            try {
                return Files.readSymbolicLink(Path.of("/proc", Long.toString(process.pid()), "ns/net")).toString()
                        .equals("net:[" + inode + "]");
            } catch (IOException e) {
                return false; // it has ended
            }
        }).toList();
    }

    /** To all that is started on the second host from now on that path is a file of its own, for once not a shared one. */
    public void ownFileOnSecond(final Path path) throws IOException {
        ownOnSecond = List.of("unshare", "--mount", "sh", "-c", "mount --bind $0 $1 && shift && exec \"$@\"",
                Files.copy(path, work.resolve("own"), StandardCopyOption.COPY_ATTRIBUTES).toString(), path.toString());
    }

    private Running shadowverbs(final int host, final String... arguments) throws IOException {
        final Map<String, String> its = new HashMap<>(environment);
        its.put("SHADOWVERBS_RUN_DIR", work.resolve("run-" + host).toString());
        final List<String> command = new ArrayList<>(List.of("nsenter", "--net=" + networks.file(host),
                "--uts=" + uts(host)));
        command.addAll(host == 1 ? ownOnSecond : List.of());
        command.addAll(asUser);
        command.add(Distribution.DIST.resolve("bin/shadowverbs").toString());
        command.addAll(List.of(arguments));
        return start(arguments[0] + "-" + commands++, its, command);
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
            endCoordinator();
            for (final Running program : List.copyOf(programs)) {
                program.close();
            }
            Running.endAllOf(work); // agents that no coordinator has reached wait for one
            for (int host = 0; host < count; host++) {
                if (Files.exists(uts(host))) {
                    start("forget-" + host, environment, List.of("umount", uts(host).toString())).awaitEnd(COMMAND);
                }
            }
            if (networks != null) {
                networks.close();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            Job.remove(work);
        }
    }
}
