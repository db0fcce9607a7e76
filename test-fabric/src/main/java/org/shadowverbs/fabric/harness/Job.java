// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.cli.Address;
import org.shadowverbs.coordinator.cli.CommandException;
import org.shadowverbs.coordinator.cli.CoordinatorClient;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;

/**
 * A job on the software HCA, driven by the commands of the distribution as a person would: a coordinator on a port of
 * its own, programs launched under it, checkpoints, restarts. Only what is asked again and again while it waits, a checkpoint of
 * which nothing counts but the result, and the end of a coordinator, it asks for by itself: commands that start in a row take their
 * processors from what is waited for.
 * Everything it leaves behind is in one temporary folder and one fabric directory, both removed at the end.
 */
public final class Job implements AutoCloseable {
    /**
     * A setting of the software HCA: so long it takes for each request, so that no program ends before it is to, on machines
     * that are many times slower in all else, too. Longer than a turn on a processor: where sessions are scheduled as groups,
     * Linux 6.18 lets a thread that sleeps for less, next to one that spins, keep all other sessions waiting for seconds.
     */
    public static final String SLOW = "SV_HCA_EXEC_DELAY_US=20000";
    /** Programs that poll, which most do, would take the processors from all that tests wait for. */
    private static final String REST_US = "500";
    /** Ended by SIGINT as at a terminal: a check in a shell's background ignores it. */
    private static final List<String> AS_AT_A_TERMINAL = List.of("env", "--default-signal=INT");
    /** Programs that poll take the processors from all that tests wait for, but not so. The agent that a launch starts is not. */
    private static final List<String> BESIDE = List.of("nice", "-n", "19");
    /** The system property that says as which driver the software HCA answers in jobs that don't say so themselves. */
    private static final String PERSONALITY = "shadowverbs.personality";
    private static final Duration COMMAND = Running.DEADLINE;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Path dist;
    private final Path work;
    private final Path fabric;
    private final Map<String, String> environment;
    private final List<Running> programs = new ArrayList<>();
    /** The environment of who asks by himself. */
    private Map<String, String> asking;
    private int commands;
    private int port;
    private CheckpointKinds kinds = CheckpointKinds.mixed();
    private List<String> backend = List.of("--backend", "hca");
    private List<String> under = List.of();
    /** The next restart is under a fresh coordinator. */
    private boolean restartsAfresh;

    private Job(final Path dist, final Map<String, String> more) throws IOException {
        this.dist = dist;
        work = Files.createTempDirectory("shadowverbs-job-");
        final Path shm = Path.of("/dev/shm");
        fabric = Files.createTempDirectory(Files.isWritable(shm) ? shm : work, "shadowverbs-fabric-");
        environment = new HashMap<>(System.getenv());
        environment.keySet().removeIf(k -> k.startsWith("SHADOWVERBS_") || k.startsWith("SV_HCA_"));
        environment.put("SHADOWVERBS_RUN_DIR", work.resolve("run").toString());
        environment.put("SV_HCA_FABRIC", fabric.toString());
        environment.put("SV_HCA_REST_US", REST_US);
        // What a program that is killed leaves behind goes with the rest.
        environment.put("TMPDIR", Files.createDirectory(work.resolve("tmp")).toString());
        final String personality = System.getProperty(PERSONALITY);
        if (personality != null) {
            environment.put("SV_HCA_PERSONALITY", personality);
        }
        environment.putAll(more);
        asking = environment;
    }

    /**
     * With a coordinator, as soon as one is asked for: a test may want another than the usual one.
     *
     * @param more is added to the environment of all commands and programs
     */
    public static Job start(final Path dist, final Map<String, String> more) throws IOException {
        return new Job(dist, more);
    }

    /** A fresh coordinator, at a port of its own, in place of the one before. */
    public void startCoordinator(final String... options) throws IOException, InterruptedException {
        endCoordinator();
        final Path file = work.resolve("port-" + commands);
        succeed("coordinator", concat(List.of("--daemon", "--port", "0", "--port-file", file.toString(), "--ckptdir",
                checkpoints().toString()), options).toArray(new String[0]));
        port = Integer.parseInt(Files.readString(file).strip());
    }

    /** A coordinator in place of one that was lost, at the same port: it goes on with the job. */
    public void recoverCoordinator() throws IOException, InterruptedException {
        succeed("coordinator", "--daemon", "--recover", "--port", Integer.toString(port), "--ckptdir",
                checkpoints().toString());
    }

    /** The processes of this job's coordinator. */
    public List<Long> coordinatorPids() {
        return pids("coordinator", checkpoints().toString());
    }

    /** The processes of this job's agents on this host. */
    public List<Long> agentPids() {
        return pids("agent", Integer.toString(port));
    }

    private static List<Long> pids(final String daemon, final String argument) {
        final List<Long> pids = new ArrayList<>();
        try (Stream<Path> processes = Files.list(Path.of("/proc"))) {
            for (final Path process : processes.filter(p -> p.getFileName().toString().matches("[0-9]+")).toList()) {
                final List<String> arguments;
                try {
                    arguments = List.of(Files.readString(process.resolve("cmdline")).split("\0"));
                } catch (IOException e) {
                    continue; // it has ended
                }
                final int at = arguments.indexOf("org.shadowverbs.coordinator.cli.Main");
                if (at > 0 && at + 1 < arguments.size() && arguments.get(at + 1).equals(daemon)
                        && arguments.contains(argument)) {
                    pids.add(Long.parseLong(process.getFileName().toString()));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return pids;
    }

    private void needCoordinator() {
        if (port != 0) {
            return;
        }
        try {
            startCoordinator();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while the coordinator was started", e);
        }
    }

    /** Ends what it runs, and it. One that is not there any more is none to be ended. */
    private void endCoordinator() {
        if (port != 0) {
            try {
                ask("kill", Map.of("now", "true"));
                ask("quit", Map.of());
            } catch (CommandException | CoordinatorClient.Unreachable e) {
                // It is not there any more, or ends: what it has left is ended with the job.
            }
            port = 0;
        }
    }

    public Path work() {
        return work;
    }

    /** Where the software HCA's settings file lies (see test-fabric/hca/README.md). */
    public Path fabric() {
        return fabric;
    }

    /** Writes the software HCA's settings, which count for devices opened from now on. */
    public void configure(final String... settings) throws IOException {
        Files.write(fabric.resolve("conf"), List.of(settings));
    }

    /** Changes a setting of all devices that are open, by its name in small letters. */
    public void set(final String setting) throws IOException, InterruptedException {
        runNative("fabricctl-" + commands++, program("fabricctl"), "set", "all", setting).succeed(COMMAND);
    }

    public Path checkpoints() {
        return work.resolve("checkpoints");
    }

    public int port() {
        needCoordinator();
        return port;
    }

    /** What coordinator and agent keep of the job while it runs. */
    public Path runDirectory() {
        return work.resolve("run").resolve(Integer.toString(port()));
    }

    /**
     * What launches and restarts are given from now on as {@code --backend}; null: nothing, and no software HCA, either.
     *
     * @param options more for the same commands
     */
    public void backend(final String name, final String... options) {
        backend = name == null ? List.of() : concat(List.of("--backend", name), options);
    }

    /** In the environment of all commands from now on, and of the programs they run. */
    public void environment(final String name, final String value) {
        environment.put(name, value);
    }

    /** All commands from now on, and the programs they run, are started with this umask, in octal. */
    public void umask(final String mask) {
        under = List.of("sh", "-c", "umask " + mask + "; exec \"$@\"", "sh");
    }

    /** A new folder of the user's, among the job's. */
    public Path folder(final String name) throws IOException {
        final Path folder = Files.createDirectory(work.resolve(name));
        Files.setAttribute(folder, "unix:uid", Files.getAttribute(work, "unix:uid"));
        return folder;
    }

    /** All commands from now on, and the programs they run, are those of this user, who has no privilege. */
    public void user(final int id) throws IOException {
        endCoordinator();
        giveTo(id, work, path -> true);
        giveTo(id, fabric, path -> true);
        // Root reads no secret from a folder of the user's: the job has one in its environment.
        asking = new HashMap<>(environment);
        asking.put("SHADOWVERBS_RUN_DIR", "/nonexistent");
        under = commandOf(id);
    }

    static void giveTo(final int user, final Path folder, final Predicate<Path> which) throws IOException {
        LiveFolder.visit(folder, (path, attributes) -> {
            if (which.test(path)) {
                Files.setAttribute(path, "unix:uid", user, LinkOption.NOFOLLOW_LINKS);
                Files.setAttribute(path, "unix:gid", user, LinkOption.NOFOLLOW_LINKS);
            }
        });
    }

    /** What a command is begun with to be the user's, without any privilege. */
    public static List<String> commandOf(final int user) {
        return List.of("setpriv", "--reuid", Integer.toString(user), "--regid", Integer.toString(user), "--clear-groups");
    }

    /** Runs a program under the preload on the software HCA, or what {@link #backend} says. */
    public Running launch(final String name, final String... program) throws IOException {
        final List<String> options = new ArrayList<>(concat(at(), backend.toArray(new String[0])));
        options.addAll(backend.isEmpty() ? List.of("--") : List.of("--test-fabric", "--"));
        final String[] beside = concat(BESIDE, program).toArray(new String[0]);
        return run(name, concat(AS_AT_A_TERMINAL, command("launch", options, beside).toArray(new String[0])));
    }

    /** The path of one of the fabric's own programs. */
    public String program(final String name) {
        return dist.resolve("programs").resolve(name).toString();
    }

    /** Runs a program on the software HCA without the preload. */
    public Running runNative(final String name, final String... program) throws IOException {
        final Map<String, String> bare = new HashMap<>(environment);
        bare.put("LD_LIBRARY_PATH", dist.resolve("fabric").toString());
        return start(name, bare, List.of(program));
    }

    /** Whether checkpoints that leave it open leave devices open, in turn with others at random, or always, or never. */
    public void kinds(final CheckpointKinds which) {
        kinds = which;
    }

    /** The job's checkpoint command, in the background. */
    public Running startCheckpoint(final String... options) throws IOException {
        return run("checkpoint-" + commands++, command("checkpoint", concat(at(), "--json"), kinds.add(options)));
    }

    /**
     * Takes a checkpoint, without the command.
     *
     * @param options of the command
     * @return what that would print with {@code --json}: folder, image_bytes, checkpoint_ms, drain_ms, ...
     */
    public JsonNode checkpoint(final String... options) throws IOException {
        final Map<String, String> arguments = new HashMap<>();
        for (final String option : kinds.add(options)) {
            arguments.put(option.substring("--".length()), "true");
        }
        final StringBuilder said = new StringBuilder();
        try {
            final Result result = ask("checkpoint", arguments, line -> said.append(line).append('\n'));
            if (result.status() != 0) {
                throw new IOException("a checkpoint failed: " + said + result.text());
            }
            return JSON.readTree(result.json());
        } catch (CommandException | CoordinatorClient.Unreachable e) {
            throw new IOException("a checkpoint failed: " + said + e.getMessage(), e);
        }
    }

    /** Waits for the end of a checkpoint command, which must be with status 0. @return what it printed */
    public JsonNode checkpointed(final Running command) throws IOException, InterruptedException {
        command.succeed(COMMAND);
        return JSON.readTree(command.output());
    }

    /** Takes a checkpoint that must fail with status 1. @return what the command printed; "problem" says why */
    public JsonNode failCheckpoint(final String... options) throws IOException, InterruptedException {
        return failed(startCheckpoint(options));
    }

    /** Waits for the end of a checkpoint command that must fail with status 1. */
    public JsonNode failed(final Running command) throws IOException, InterruptedException {
        final int status = command.awaitEnd(COMMAND);
        if (status != 1) {
            throw new IOException(command.name() + " ended with status " + status + ", not 1; it said: "
                    + command.output() + command.errors());
        }
        return JSON.readTree(command.output());
    }

    /**
     * Restarts a checkpoint, and waits until all its ranks run. What is left of the job is ended.
     *
     * @param options of a fresh coordinator. Without any the one that is there goes on, if it is, and a fresh one comes the next time,
     *                in turn.
     */
    public Running restartAndAwait(final String checkpoint, final int ranks, final String... options)
            throws IOException, InterruptedException {
        if (options.length > 0 || restartsAfresh || !end()) {
            startCoordinator(options);
        }
        restartsAfresh = !restartsAfresh;
        final Running restart = restart(checkpoint);
        awaitRestarted(ranks, restart);
        return restart;
    }

    /** Takes a checkpoint, kills what runs, and restarts it on that backend, as {@link #restartAndAwait} does. */
    public Running killAndRestart(final String on, final int ranks, final Running... running)
            throws IOException, InterruptedException {
        final String folder = checkpoint().get("folder").asText();
        for (final Running program : running) {
            program.killHard();
        }
        backend(on);
        return restartAndAwait(folder, ranks);
    }

    /** @return false: there is no coordinator any more */
    private boolean end() throws IOException {
        if (port == 0) {
            return false;
        }
        try {
            ask("kill", Map.of("now", "true"));
            return true;
        } catch (CoordinatorClient.Unreachable e) {
            return false;
        } catch (CommandException e) {
            throw new IOException("the job's processes do not end: " + e.getMessage(), e);
        }
    }

    /** Waits until all ranks of a restart run; a job that was near its end may have come to it, with status 0. */
    public void awaitRestarted(final int ranks, final Running restart) throws IOException, InterruptedException {
        final long end = System.nanoTime() + COMMAND.toNanos();
        final Looks looks = new Looks();
        while (runningRanks() < ranks) {
            if (!restart.isRunning()) {
                restart.succeed(COMMAND);
                return;
            }
            if (System.nanoTime() > end) {
                throw new IOException("waited " + COMMAND.toSeconds() + " s for " + ranks + " ranks of "
                        + restart.name() + ": " + status() + words());
            }
            looks.rest();
        }
    }

    /** Restarts a checkpoint, in the background; the command ends with the job. */
    public Running restart(final String checkpoint) throws IOException {
        return run("restart-" + commands++, command("restart", concat(at(), backend.toArray(new String[0])), checkpoint));
    }

    /** What the command {@code status} prints as JSON. */
    public JsonNode status() throws IOException {
        try {
            return JSON.readTree(ask("status", Map.of()).json());
        } catch (CommandException | CoordinatorClient.Unreachable e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    private Result ask(final String command, final Map<String, String> arguments)
            throws CommandException, CoordinatorClient.Unreachable {
        return ask(command, arguments, line -> { });
    }

    private Result ask(final String command, final Map<String, String> arguments, final Consumer<String> lines)
            throws CommandException, CoordinatorClient.Unreachable {
        return CoordinatorClient.call(new Address("127.0.0.1", port(), true, asking), command, arguments, COMMAND.toMillis(), lines);
    }

    /** The phase of the checkpoint that goes on; else "running". */
    public String stage() {
        try {
            return status().get("stage").asText();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Waits until so many ranks have joined and run, while all programs given run. */
    public void awaitRanks(final int ranks, final Running... programs) throws IOException, InterruptedException {
        final long end = System.nanoTime() + COMMAND.toNanos();
        final Looks looks = new Looks();
        for (;;) {
            if (runningRanks() >= ranks) {
                return;
            }
            checkRunning(ranks + " ranks", programs);
            if (System.nanoTime() > end) {
                throw new IOException("waited " + COMMAND.toSeconds() + " s for " + ranks + " ranks: " + status()
                        + words());
            }
            looks.rest();
        }
    }

    /** Whether the coordinator knows of so many ranks, in whatever state. */
    public boolean hasRanks(final int ranks) {
        try {
            return status().get("ranks").size() == ranks;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Whether so many ranks run, at least. */
    public boolean hasRunningRanks(final int ranks) {
        try {
            return runningRanks() >= ranks;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private int runningRanks() throws IOException {
        int running = 0;
        for (final JsonNode rank : status().get("ranks")) {
            running += "running".equals(rank.get("state").asText()) ? 1 : 0;
        }
        return running;
    }

    /** Waits for a condition, looking now and then, while all programs given run. */
    public void await(final String what, final BooleanSupplier condition, final Running... running)
            throws IOException, InterruptedException {
        final long end = System.nanoTime() + COMMAND.toNanos();
        final Looks looks = new Looks();
        while (!condition.getAsBoolean()) {
            if (ended(running) != null) {
                if (condition.getAsBoolean()) {
                    return; // it came to be so between the two looks
                }
                checkRunning(what, running);
            }
            if (System.nanoTime() > end) {
                throw new IOException("waited " + COMMAND.toSeconds() + " s for " + what + words());
            }
            looks.rest();
        }
    }

    private static void checkRunning(final String what, final Running... running) throws IOException {
        final Running program = ended(running);
        if (program != null) {
            throw new IOException("waited for " + what + ", but " + program.name() + " ended: " + program.output()
                    + program.errors());
        }
    }

    /** One of them that has ended; null: all run. */
    private static Running ended(final Running... running) {
        return Stream.of(running).filter(program -> !program.isRunning()).findFirst().orElse(null);
    }

    /** Waits until a program has printed so many lines that hold a text. */
    public void awaitLines(final Running program, final String text, final int lines)
            throws IOException, InterruptedException {
        await(lines + " lines with \"" + text + "\" of " + program.name(), () -> program.lines(text) >= lines, program);
    }

    /** Runs a command of the distribution to its end, which must be with status 0. @return its standard output */
    public String succeed(final String command, final String... arguments) throws IOException, InterruptedException {
        final Running running = runCommand(command, arguments);
        running.succeed(COMMAND);
        return running.output();
    }

    /** Runs a command of the distribution, in the background. */
    public Running runCommand(final String command, final String... arguments) throws IOException {
        return run(command + "-" + commands++, command(command, List.of(), arguments));
    }

    /** Runs any command with the job's environment, in the background. */
    public Running runCommandLine(final String name, final String... command) throws IOException {
        return run(name, List.of(command));
    }

    /** The options that name this job's coordinator. */
    public List<String> at() {
        return List.of("-h", "127.0.0.1", "-p", Integer.toString(port()));
    }

    Running start(final String name, final Map<String, String> with, final List<String> command) throws IOException {
        final Running running = Running.start(name, work, with, command);
        programs.add(running);
        return running;
    }

    private Running run(final String name, final List<String> command) throws IOException {
        return start(name, environment, command);
    }

    private List<String> command(final String command, final List<String> options, final String... arguments) {
        final List<String> all = new ArrayList<>(under);
        all.addAll(List.of(dist.resolve("bin/shadowverbs").toString(), command));
        all.addAll(options);
        all.addAll(List.of(arguments));
        return all;
    }

    private static List<String> concat(final List<String> first, final String... second) {
        return Stream.concat(first.stream(), Stream.of(second)).toList();
    }

    /** What the programs have said, for a message. */
    private String words() throws IOException {
        final StringBuilder words = new StringBuilder();
        for (final Running program : programs) {
            final String said = (program.output() + program.errors()).strip();
            if (!said.isEmpty() && !program.name().startsWith("status")) {
                words.append("\n  ").append(program.name()).append(": ").append(said);
            }
        }
        return words.toString();
    }

    @Override
    public void close() throws IOException {
        try {
            endCoordinator();
            for (final Running program : programs) {
                program.close();
            }
        } finally {
            // A coordinator or agent that has not answered, and what programs that have ended left behind.
            Running.endAllOf(work);
            remove(fabric);
            if (System.getProperty("shadowverbs.keep") == null) {
                remove(work);
            }
        }
    }

    /** Removes a folder with all that is in it, but for what somebody removes meanwhile: an agent that ends, for one. */
    public static void remove(final Path folder) throws IOException {
        Files.walkFileTree(folder, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(final Path file, final BasicFileAttributes attributes) throws IOException {
                Files.deleteIfExists(file);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(final Path file, final IOException e) throws IOException {
                if (e instanceof NoSuchFileException && !file.equals(folder)) {
                    return FileVisitResult.CONTINUE;
                }
                throw e;
            }

            @Override
            public FileVisitResult postVisitDirectory(final Path each, final IOException e) throws IOException {
                Files.deleteIfExists(each);
                return FileVisitResult.CONTINUE;
            }
        });
    }
}
