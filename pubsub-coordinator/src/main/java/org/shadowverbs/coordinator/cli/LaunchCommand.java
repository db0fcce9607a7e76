// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.client.AgentPlace;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.Criu;
import org.shadowverbs.coordinator.process.JobRoot;
import org.shadowverbs.coordinator.process.RemoteShell;
import org.shadowverbs.coordinator.process.Rights;
import org.shadowverbs.coordinator.process.UserCommands;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.LaunchMessages.RegisterTree;
import org.shadowverbs.coordinator.protocol.LaunchMessages.Registered;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;
import org.shadowverbs.coordinator.system.Libc;

/**
 * {@code launch}: joins or starts a coordinator, registers the program's tree with the agent, and becomes the program, or its
 * stand-in where a job root has it.
 */
final class LaunchCommand extends CliCommand {
    /** The topmost process of the tree that a rank is in. */
    private static final String TREE = "SHADOWVERBS_TREE";

    /** To a job root: a program that fails is to be noticed at once, also after a restore. */
    private static final String HEALS = "SHADOWVERBS_RECOVER";

    /** Names the descriptor of a rank's line to its launcher. */
    private static final String PMI_SOCKET = "PMI_FD";
    /** How the names of the variables begin that say where a process finds its PMIx server. */
    private static final String PMIX_SERVER = "PMIX_SERVER_URI";

    /** What a launcher of several ranks sets. */
    private static final List<String> LAUNCHER_VARIABLES = List.of("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
            "MV2_COMM_WORLD_RANK", "SLURM_PROCID");

    private final Map<String, String> environment;
    private final AddressOptions coordinator = new AddressOptions(this);
    private final IntervalOptions interval = new IntervalOptions(this);
    private final ImageOptions images = new ImageOptions(this);
    private final RecoverOptions recovery = new RecoverOptions(this, "--recover");
    private final StoreOptions store = new StoreOptions(this, "for the coordinator that is started: what the job must not lose with"
            + " this host is kept there");
    private final Supplier<Boolean> checkpointSignals = flag("--checkpoint-signals", "SIGUSR1 to this command takes a checkpoint,"
            + " SIGUSR2 takes one and ends the job; the program does not get them from it");
    private final Supplier<Path> ckptdir = checkpointDirectory();
    private final Supplier<Integer> keep = number(List.of("--keep"), "N", 1, 1_000_000, null,
            "how many checkpoints of the job are kept (2)");
    private final Supplier<String> save = text(List.of("--save"), "CMD", null,
            "saves a process tree in CRIU's place: docs/COMMANDS.md");
    private final Supplier<String> restore = text(List.of("--restore"), "CMD", null,
            "brings back what the command of --save has saved");
    private final Backends backends = new Backends(this, "hca; ib2tcp on a host without an RDMA device", "ethernet");
    private final Supplier<Boolean> fabric = flag("--test-fabric", "put the software HCA's libibverbs.so.1 in front");
    private final Supplier<List<String>> argv = operands("PROGRAM", "1..*", "the program and its arguments");

    LaunchCommand(final Map<String, String> environment) {
        super("runs a program so that its job can be checkpointed", "This process becomes the program, or its stand-in. A coordinator and an"
                + " agent are started when no coordinator is named and none runs at this host's default port.");
        footer("exit status: the program's; 126 it can't be executed, 127 not found");
        this.environment = environment;
    }

    @Override
    public Integer call() throws CommandException {
        final Descriptors descriptors = Descriptors.atStart();
        refuseForeignPmix();
        final UserCommands commands = commands();
        final String chosen = backends.ofLaunch(fabric.get(), environment);
        final Address address = coordinator.address(environment);
        final Path program = Program.find(argv.get().getFirst(), environment.getOrDefault("PATH", "/usr/bin:/bin"));
        Program.check(program);
        final Map<String, String> settings = new LinkedHashMap<>();
        settings.putAll(interval.settings());
        settings.putAll(images.settings());
        settings.putAll(recovery.options().settings());
        if (keep.get() != null) {
            settings.put("keep", keep.get().toString());
        }
        if (ckptdir.get() != null || !coordinatorRuns(address)) {
            settings.put("ckptdir", CheckpointDirectory.of(ckptdir.get(), environment).toString());
        }
        final Path socket = daemons(address, settings);
        final String secret = address.secret();
        // What started it is of the job already, and so is this.
        final boolean nested = socket.toString().equals(environment.get(AgentPlace.SOCKET)) && environment.containsKey(TREE);
        final boolean inside = nested && JobRoot.isAround();
        if (!nested && JobRoot.isAround()) {
            throw new CommandException("launch: this process is of another job already, and a program can't be of two");
        }
        final boolean heals = heals(address);
        refuseWithCommands(commands, nested, heals);
        final UserCommands ofTree = nested ? UserCommands.of(environment.get(UserCommands.SAVE_VARIABLE),
                environment.get(UserCommands.RESTORE_VARIABLE)) : commands;
        if (ofTree != null) {
            settings.putAll(ofTree.settings());
        }
        final Path wanted = nested || commands != null ? null : jobRoot(socket, heals);
        final long root = wanted == null ? 0 : start(wanted, socket, heals);
        final Path jobRoot = root == 0 ? null : wanted;
        final Map<String, String> newEnvironment = environment(chosen, socket, secret);
        if (!nested) {
            newEnvironment.put(AgentPlace.ORIGIN, hostName());
        }
        if (commands != null) {
            newEnvironment.put(UserCommands.SAVE_VARIABLE, commands.save());
            newEnvironment.put(UserCommands.RESTORE_VARIABLE, commands.restore());
        }
        if (inside) {
            newEnvironment.put(AgentPlace.JOB, environment.getOrDefault(AgentPlace.JOB, ""));
            newEnvironment.put(TREE, environment.get(TREE));
        } else {
            final long top = jobRoot == null ? ProcessHandle.current().pid() : root;
            newEnvironment.put(TREE, Long.toString(top));
            newEnvironment.put(AgentPlace.JOB, register(socket, secret, top, argv.get(), settings));
        }
        if (jobRoot == null && !inside) {
            leaveForeignSession();
        }
        final String note = backends.note(chosen, environment);
        if (!note.isEmpty()) {
            System.err.println("shadowverbs: " + note);
        }
        descriptors.keepInheritedOnly();
        final List<String> variables = newEnvironment.entrySet().stream().map(x -> x.getKey() + "=" + x.getValue()).toList();
        if (jobRoot == null) {
            throw Execution.become(program, argv.get(), variables);
        }
        try {
            throw standIn(heals || checkpointSignals.get() ? JobRoot.attend(jobRoot, socket, heals, checkpointSignals.get())
                    : JobRoot.run(jobRoot), program, argv.get(), variables);
        } catch (CheckpointException e) {
            throw new CommandException("launch: " + e.getMessage());
        }
    }

    /** Those of the user that save and restore the program; null: CRIU does. */
    private UserCommands commands() throws CommandException {
        if (save.get() == null != (restore.get() == null)) {
            throw new UsageException("launch: --save and --restore need each other: what one command has saved only the other"
                    + " can bring back");
        }
        if (save.get() != null && (save.get().isBlank() || restore.get().isBlank())) {
            throw new UsageException("launch: " + (save.get().isBlank() ? "--save" : "--restore") + " needs a command");
        }
        if (save.get() != null && (severalRanks() || environment.containsKey(PMI_SOCKET))) {
            throw new CommandException("launch: --save can't be used for one rank of a launcher, whose line to it would be"
                    + " lost; put launch before the launcher: shadowverbs launch --save CMD --restore CMD mpirun ... PROGRAM");
        }
        return UserCommands.of(save.get(), restore.get());
    }

    /** What only the job root does, which the commands know nothing of. */
    private void refuseWithCommands(final UserCommands commands, final boolean nested, final boolean heals) throws CommandException {
        if (commands == null) {
            return;
        }
        if (nested) {
            throw new CommandException("launch: this process is of a job already, and is saved with the program that has started it;"
                    + " --save and --restore belong to the first launch");
        }
        if (heals || checkpointSignals.get()) {
            throw new CommandException("launch: --save can't be together with "
                    + (heals ? "--recover" : "--checkpoint-signals") + ": a job that is brought back by commands is so by restart alone");
        }
    }

    /**
     * Whether the job heals itself, be it for another launch. Then all its programs are in job roots from the beginning.
     *
     * @throws CommandException this one is to begin that, and there are programs that it would not bring back
     */
    private boolean heals(final Address address) throws CommandException {
        // Of one moment: another launch may begin it meanwhile, and its program is no other's then.
        final String said = CoordinatorClient.said(address);
        if (CoordinatorClient.number(said, "recover") > 0) {
            return true;
        }
        if (recovery.options().asked() && CoordinatorClient.number(said, "programs") > 0) {
            throw new CommandException("launch: programs of this job run already that were launched without --recover; a job heals"
                    + " itself from its first program on, or never");
        }
        return recovery.options().asked();
    }

    /**
     * Where the job root listens that is to be the program's parent; null when this process is to become the program. Ranks that a
     * launcher starts side by side share memory and pipes, it keeps their lines to the launcher, and an ordinary user's are saved
     * in a user namespace of his. So may the commands that several processes of other hosts run on this one. A job that heals itself ends
     * and brings back all processes of a host at once, and what has launched them stays.
     */
    private Path jobRoot(final Path agent, final boolean heals) {
        return heals || checkpointSignals.get() || Rights.ordinary() || severalRanks() || environment.containsKey(PMI_SOCKET)
                || environment.containsKey(RemoteShell.PLACE) ? JobRoot.socket(agent.getParent()) : null;
    }

    /** @return the pid of the topmost process of the job root; 0 when root can't have one, and does without */
    private static long start(final Path jobRoot, final Path agent, final boolean heals) throws CommandException {
        final Map<String, String> variables = new LinkedHashMap<>(Map.of(AgentPlace.SOCKET, agent.toString()));
        if (heals) {
            variables.put(HEALS, "1");
        }
        try {
            return JobRoot.start(jobRoot, variables);
        } catch (CheckpointException e) {
            final String problem = "the namespaces that a job's processes on this host live in can't be made: " + e.getMessage();
            if (heals) {
                throw new CommandException("launch: " + problem);
            }
            if (Rights.ordinary()) {
                throw new CommandException("launch: " + problem + "; " + Criu.NO_NAMESPACES);
            }
            System.err.println("shadowverbs: ranks that share memory can't be saved: " + problem);
            return 0;
        }
    }

    private static CommandException standIn(final List<String> standIn, final Path program, final List<String> argv,
            final List<String> newEnvironment) throws CommandException {
        final List<String> command = new ArrayList<>(standIn);
        final Path executable = Path.of(command.getFirst());
        command.add(program.toAbsolutePath().toString());
        command.addAll(argv);
        return Execution.become(executable, command, newEnvironment);
    }

    /** What a launcher keeps for its ranks behind PMIx nobody can ask it for, and no image of the ranks has it. */
    private void refuseForeignPmix() throws CommandException {
        if (environment.containsKey(TREE) || environment.keySet().stream().noneMatch(name -> name.startsWith(PMIX_SERVER))) {
            return;
        }
        final boolean slurm = environment.containsKey("SLURM_PROCID") && !environment.containsKey("OMPI_COMM_WORLD_RANK");
        throw new CommandException("launch: the PMIx server of this process is outside of the job and would be lost with it; "
                + (slurm ? "use srun --mpi=pmi2 shadowverbs launch PROGRAM (MPICH, MVAPICH, Intel MPI), or srun --mpi=none for a"
                        + " program without MPI" : "put launch before it: shadowverbs launch mpirun ... PROGRAM"));
    }

    private static String hostName() throws CommandException {
        try {
            return AgentCommand.hostName();
        } catch (IOException e) {
            throw new CommandException("launch: this host's name can't be read: " + e.getMessage());
        }
    }

    private static boolean coordinatorRuns(final Address address) throws CommandException {
        return !CoordinatorClient.ping(address).isEmpty();
    }

    private Path daemons(final Address address, final Map<String, String> settings) throws CommandException {
        final boolean runs = coordinatorRuns(address);
        if (!runs && address.named()) {
            throw new CommandException(address.nobodyAnswers() + "; start it there with: " + address.start()
                    + store.hint(environment));
        }
        if (!runs && severalRanks()) {
            throw new CommandException("this is one of several ranks and no coordinator runs on this host; before the"
                    + " launcher, start one with: shadowverbs coordinator --daemon --exit-on-last");
        }
        final List<String> flags = new ArrayList<>(List.of("--exit-on-last", "--ckptdir",
                settings.getOrDefault("ckptdir", Path.of("").toAbsolutePath().toString())));
        return new Daemons(environment).ensure(address, flags, runs ? null : store.place(environment));
    }

    /** Under mpirun and its like each rank would otherwise start a coordinator of its own on its host. */
    private boolean severalRanks() {
        if (environment.containsKey("SLURM_PROCID") && "1".equals(environment.get("SLURM_NTASKS"))) {
            return false;
        }
        return LAUNCHER_VARIABLES.stream().anyMatch(environment::containsKey);
    }

    private Map<String, String> environment(final String chosen, final Path socket, final String secret)
            throws CommandException {
        final Map<String, String> e = new LinkedHashMap<>(environment);
        // Ours is to see the handlers that libjsig keeps to itself.
        final String preload = forPreload(Installation.preloadLibrary()) + ":" + forPreload(Installation.libjsig());
        final String before = environment.getOrDefault("LD_PRELOAD", "");
        e.put("LD_PRELOAD", before.isEmpty() ? preload : preload + ":" + before);
        if (fabric.get()) {
            final String path = environment.getOrDefault("LD_LIBRARY_PATH", "");
            e.put("LD_LIBRARY_PATH", Installation.fabric() + (path.isEmpty() ? "" : ":" + path));
        }
        e.put("SHADOWVERBS_HOME", Installation.home().toString());
        e.put(AgentPlace.SOCKET, socket.toString());
        e.put("SHADOWVERBS_JVM", Installation.libjvm().toString());
        e.put("SHADOWVERBS_BACKEND", chosen);
        if (!secret.isEmpty()) {
            e.put(JobSecret.VARIABLE, secret);
        }
        // UCX's ranks of one host share memory by POSIX's calls, as few images can hold System V's.
        e.putIfAbsent("UCX_TLS", "^sysv");
        // UCX measures time by the TSC, which nothing can set back at a restart, and over UD takes a peer for dead that has not
        // acknowledged for 30 s. It has no word for "never"; this is three years.
        e.putIfAbsent("UCX_UD_TIMEOUT", "100000000s");
        try {
            Launchers.prepare(e, RemoteShell.client().toString());
        } catch (CheckpointException x) {
            throw new CommandException("launch: " + x.getMessage());
        }
        // Else the JVM in the rank takes the application's SIGUSR2.
        e.put("_JAVA_SR_SIGNUM", "40");
        return e;
    }

    private static Path forPreload(final Path library) throws CommandException {
        if (library.toString().matches(".*[\\s:].*")) {
            throw new CommandException("LD_PRELOAD can't hold a path with a space or colon: " + library);
        }
        return library;
    }

    /** Returns the job's name. */
    private static String register(final Path socket, final String secret, final long top, final List<String> argv,
            final Map<String, String> settings) throws CommandException {
        try (FrameChannel channel = FrameChannel.connect(socket)) {
            final List<String> words = new ArrayList<>(argv);
            if (top != ProcessHandle.current().pid()) {
                words.addFirst("job root");
            }
            channel.write(new RegisterTree(FrameType.VERSION, secret, top, words,
                    Path.of("").toAbsolutePath().toString(), settings));
            final Message answer = channel.read();
            if (answer instanceof Refused refused) {
                throw new CommandException("the agent at " + socket + " refuses: " + refused.reason());
            }
            if (!(answer instanceof Registered registered)) {
                throw new CommandException("the agent at " + socket + " answered with message type " + answer.type());
            }
            return registered.job();
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
}
