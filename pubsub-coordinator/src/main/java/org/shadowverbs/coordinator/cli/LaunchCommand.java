// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.agent.Libc;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.LaunchMessages.RegisterTree;
import org.shadowverbs.coordinator.protocol.LaunchMessages.Registered;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;

/** {@code launch}: joins or starts a coordinator, registers this process with the agent, and becomes the program. */
final class LaunchCommand {
    private static final int ENOEXEC = 8;

    /** What a launcher of several ranks sets. */
    private static final List<String> LAUNCHER_VARIABLES = List.of("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
            "MV2_COMM_WORLD_RANK", "SLURM_PROCID");

    private final Map<String, String> environment;

    LaunchCommand(final Map<String, String> environment) {
        this.environment = environment;
    }

    int run(final List<String> args) throws UsageException, CommandException {
        final Descriptors descriptors = Descriptors.atStart();
        final Arguments a = Arguments.parseUntilProgram("launch", args,
                Set.of("-h", "-p", "-i", "--ckptdir", "--backend", "--keep"), Set.of("--test-fabric"));
        if (a.operands().isEmpty()) {
            throw new UsageException("launch: no program is named (see shadowverbs help launch)");
        }
        final String backend = Backends.ofLaunch(a, environment);
        final int interval = a.number("launch", "-i", 0, 1, 1_000_000_000);
        final int keep = a.number("launch", "--keep", 0, 1, 1_000_000);
        final Address address = Address.of("launch", a, environment);
        final Path program = Program.find(a.operands().getFirst(), environment.getOrDefault("PATH", "/usr/bin:/bin"));
        Program.check(program);
        final Map<String, String> settings = new LinkedHashMap<>();
        if (a.has("--ckptdir") || !coordinatorRuns(address)) {
            final String dir = a.value("--ckptdir", environment.getOrDefault("SHADOWVERBS_CKPTDIR", "."));
            settings.put("ckptdir", Path.of(dir).toAbsolutePath().normalize().toString());
        }
        if (interval > 0) {
            settings.put("interval", Integer.toString(interval));
        }
        if (keep > 0) {
            settings.put("keep", Integer.toString(keep));
        }
        final Path socket = daemons(address, settings);
        final String secret = address.secret();
        final List<String> newEnvironment = environment(a.has("--test-fabric"), backend, socket, secret);
        register(socket, secret, a.operands(), settings);
        leaveForeignSession();
        final String note = Backends.note(backend, a, environment);
        if (!note.isEmpty()) {
            System.err.println("shadowverbs: " + note);
        }
        descriptors.keepInheritedOnly();
        become(program, a.operands(), newEnvironment);
        throw new AssertionError();
    }

    private static boolean coordinatorRuns(final Address address) throws CommandException {
        return !CoordinatorClient.ping(address).isEmpty();
    }

    private Path daemons(final Address address, final Map<String, String> settings) throws CommandException {
        final boolean runs = coordinatorRuns(address);
        if (!runs && address.named()) {
            throw new CommandException("no coordinator answers at " + address
                    + "; start it there with: shadowverbs coordinator --daemon --port " + address.port());
        }
        if (!runs && severalRanks()) {
            throw new CommandException("this is one of several ranks and no coordinator runs on this host; before the"
                    + " launcher, start one with: shadowverbs coordinator --daemon --exit-on-last");
        }
        final List<String> flags = new ArrayList<>(List.of("--exit-on-last", "--ckptdir",
                settings.getOrDefault("ckptdir", Path.of("").toAbsolutePath().toString())));
        return new Daemons(environment).ensure(address, flags);
    }

    /** Under mpirun and its like each rank would otherwise start a coordinator of its own on its host. */
    private boolean severalRanks() {
        if (environment.containsKey("SLURM_PROCID") && "1".equals(environment.get("SLURM_NTASKS"))) {
            return false;
        }
        return LAUNCHER_VARIABLES.stream().anyMatch(environment::containsKey);
    }

    private List<String> environment(final boolean fabric, final String backend, final Path socket, final String secret)
            throws CommandException {
        final Map<String, String> e = new LinkedHashMap<>(environment);
        // Ours is to see the handlers that libjsig keeps to itself.
        final String preload = forPreload(Installation.preloadLibrary()) + ":" + forPreload(Installation.libjsig());
        final String before = environment.getOrDefault("LD_PRELOAD", "");
        e.put("LD_PRELOAD", before.isEmpty() ? preload : preload + ":" + before);
        if (fabric) {
            final String path = environment.getOrDefault("LD_LIBRARY_PATH", "");
            e.put("LD_LIBRARY_PATH", Installation.fabric() + (path.isEmpty() ? "" : ":" + path));
        }
        e.put("SHADOWVERBS_HOME", Installation.home().toString());
        e.put("SHADOWVERBS_AGENT", socket.toString());
        e.put("SHADOWVERBS_TREE", Long.toString(ProcessHandle.current().pid()));
        e.put("SHADOWVERBS_JVM", Installation.libjvm().toString());
        e.put("SHADOWVERBS_BACKEND", backend);
        if (!secret.isEmpty()) {
            e.put(JobSecret.VARIABLE, secret);
        }
        // UCX's ranks of one host share memory by POSIX's calls, as no image can hold System V's.
        e.putIfAbsent("UCX_TLS", "^sysv");
        // Else the JVM in the rank takes the application's SIGUSR2.
        e.put("_JAVA_SR_SIGNUM", "40");
        return e.entrySet().stream().map(x -> x.getKey() + "=" + x.getValue()).toList();
    }

    private static Path forPreload(final Path library) throws CommandException {
        if (library.toString().matches(".*[\\s:].*")) {
            throw new CommandException("LD_PRELOAD can't hold a path with a space or colon: " + library);
        }
        return library;
    }

    private static void register(final Path socket, final String secret, final List<String> argv,
            final Map<String, String> settings) throws CommandException {
        try (FrameChannel channel = FrameChannel.connect(socket)) {
            channel.write(new RegisterTree(FrameType.VERSION, secret, ProcessHandle.current().pid(), argv,
                    Path.of("").toAbsolutePath().toString(), settings));
            final Message answer = channel.read();
            if (answer instanceof Refused refused) {
                throw new CommandException("the agent at " + socket + " refuses: " + refused.reason());
            }
            if (!(answer instanceof Registered)) {
                throw new CommandException("the agent at " + socket + " answered with message type " + answer.type());
            }
        } catch (IOException e) {
            throw new CommandException("the agent at " + socket + ": " + e.getMessage());
        }
    }

    /**
     * Under {@code unshare --pid}, {@code nsenter} and some containers the session's leader is outside of the pid
     * namespace, so CRIU could not save the program.
     */
    private static void leaveForeignSession() throws CommandException {
        try {
            if (Libc.isSessionLedFromOutside()) {
                Libc.leadSession();
            }
        } catch (IOException e) {
            throw new CommandException("the leader of this session is outside of this pid namespace and no session of its"
                    + " own can be had (" + e.getMessage() + "); start it by: setsid --wait shadowverbs launch ...");
        }
    }

    private static void become(final Path program, final List<String> argv, final List<String> newEnvironment)
            throws CommandException {
        final long mask = originalSignalMask();
        System.out.flush();
        System.err.flush();
        int errno = Libc.exec(program, argv, newEnvironment, mask);
        if (errno == ENOEXEC) { // a script without #! is for the shell, as execvp(3) has it
            final List<String> shell = new ArrayList<>(List.of("/bin/sh", program.toString()));
            shell.addAll(argv.subList(1, argv.size()));
            errno = Libc.exec(Path.of("/bin/sh"), shell, newEnvironment, mask);
        }
        throw new CommandException(program + " can't be executed: errno " + errno, 126);
    }

    /** The launcher's first thread never enters the JVM, so its mask is still what this process was started with. */
    private static long originalSignalMask() throws CommandException {
        try {
            for (final String line : Files.readAllLines(
                    Path.of("/proc/self/task/" + ProcessHandle.current().pid() + "/status"))) {
                if (line.startsWith("SigBlk:")) {
                    return Long.parseUnsignedLong(line.substring(7).strip(), 16);
                }
            }
        } catch (IOException e) {
            throw new CommandException("/proc can't be read: " + e.getMessage());
        }
        return 0;
    }
}
