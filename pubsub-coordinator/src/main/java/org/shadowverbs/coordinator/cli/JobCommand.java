// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestException;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.PrivateFiles;
import org.shadowverbs.coordinator.protocol.RunDirectory;

/**
 * {@code job}: the same line, run again and again under a time limit, until the program is done. It launches the program or goes on
 * from the last checkpoint, and at a signal saves the job and ends.
 */
final class JobCommand extends CliCommand {
    /** EX_TEMPFAIL of sysexits(3): to be tried again. */
    static final int AGAIN = 75;

    private static final String FINISHED = "finished";
    private static final String LOCK = ".job.lock";
    private static final String SECRET = ".job.secret";
    private static final String SRUN = "srun";
    private static final long QUIT_MILLIS = 30_000;
    private static final long SCONTROL_SECONDS = 60;

    private final Map<String, String> environment;
    private final Supplier<Path> ckptdir = checkpointDirectory();
    private final IntervalOptions interval = new IntervalOptions(this);
    private final ImageOptions images = new ImageOptions(this);
    private final RecoverOptions recovery = new RecoverOptions(this, "--recover");
    private final Supplier<Integer> keep = number(List.of("--keep"), "N", 1, 1_000_000, null,
            "how many checkpoints of the job are kept (2)");
    private final Supplier<Boolean> requeue = flag("--requeue", "have Slurm queue this batch job again once it is saved");
    private final Supplier<List<String>> operands = operands("COMMAND", "1..*",
            "a program, which is launched; or a launcher's command with \"shadowverbs launch\" in front of the ranks' program");

    JobCommand(final Map<String, String> environment) {
        super("runs a program under a time limit, as often as it takes", "Starts a coordinator and launches the program, or goes on"
                + " from the last checkpoint in --ckptdir when there is one. At SIGUSR1 it saves the job, ends it, and ends itself"
                + " with status " + AGAIN + ": run the same line again. When no checkpoint can be made it says so and tries again"
                + " as long as the program runs. SIGTERM does the same, but after 20 s without a checkpoint the program is ended.",
                "Under srun the restart takes one task on each host of the allocation. Once the program has ended with status 0,"
                + " DIR/finished says so, and the line does nothing any more until that file is removed.");
        footer("exit status: the program's; " + AGAIN + " when the job was saved and is to be run again");
        this.environment = environment;
    }

    @Override
    public Integer call() throws CommandException {
        final Path directory = CheckpointDirectory.of(ckptdir.get(), environment);
        final List<String> command = launching(operands.get());
        if (requeue.get() && environment.getOrDefault("SLURM_JOB_ID", "").isEmpty()) {
            throw new CommandException("job: --requeue is for a batch job of Slurm's, and there is no SLURM_JOB_ID");
        }
        try {
            Files.createDirectories(directory, PrivateFiles.FOLDER);
            try (FileChannel file = FileChannel.open(directory.resolve(LOCK),
                    java.util.Set.of(StandardOpenOption.CREATE, StandardOpenOption.WRITE), PrivateFiles.FILE);
                    FileLock lock = file.tryLock()) {
                if (lock == null) {
                    throw new CommandException("job: another one runs with the checkpoints in " + directory
                            + "; name another --ckptdir, or wait");
                }
                return Files.exists(directory.resolve(FINISHED)) ? finished(directory) : run(directory, command);
            }
        } catch (ManifestException e) {
            throw new CommandException("job: " + e.getMessage());
        } catch (IOException e) {
            throw new CommandException("job: " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return 1;
        }
    }

    private static int finished(final Path directory) {
        say("the job in " + directory + " has ended with status 0 already; to begin it anew, remove " + directory.resolve(FINISHED)
                + " and the checkpoints");
        return 0;
    }

    /** The command that launches the program where there is no checkpoint. */
    private static List<String> launching(final List<String> words) throws CommandException {
        for (int i = 0; i + 1 < words.size(); i++) {
            if (baseName(words.get(i)).equals("shadowverbs") && words.get(i + 1).equals("launch")) {
                return words;
            }
        }
        if (baseName(words.getFirst()).equals(SRUN)) {
            throw new UsageException("job: what srun starts is not launched; put launch before the program:"
                    + " shadowverbs job -- srun --mpi=pmi2 shadowverbs launch ./program");
        }
        final List<String> launch = new ArrayList<>(List.of(Installation.command().toString(), "launch", "--"));
        launch.addAll(words);
        return launch;
    }

    private static String baseName(final String word) {
        return word.substring(word.lastIndexOf('/') + 1);
    }

    private int run(final Path directory, final List<String> command) throws CommandException, IOException, InterruptedException {
        final boolean srun = baseName(command.getFirst()).equals(SRUN);
        final SavedAtSignal signals = new SavedAtSignal(directory);
        final Map<String, String> changed = new LinkedHashMap<>(environment);
        if (srun && JobSecret.given(environment).isEmpty()) {
            changed.put(JobSecret.VARIABLE, secret(directory));
        }
        final Address address = coordinator(directory, srun, changed);
        changed.put("SHADOWVERBS_COORD_HOST", address.host());
        changed.put("SHADOWVERBS_COORD_PORT", Integer.toString(address.port()));
        final boolean first = !Files.exists(directory.resolve("latest"));
        final List<String> words = first ? command : restart(command.getFirst(), srun, CheckpointFolder.resolve(directory), address);
        say((first ? "launches" : "goes on from " + words.getLast()) + "; coordinator at " + address);
        final ProcessBuilder builder = new ProcessBuilder(words).inheritIO();
        builder.environment().putAll(changed);
        final int status;
        try {
            final Process program = builder.start();
            signals.guard(program, address);
            status = program.waitFor();
            signals.await();
        } finally {
            quit(address);
        }
        if (signals.saved() != null) {
            say("saved in " + signals.saved() + (requeue.get() ? "" : "; run the same line again to go on"));
            requeue();
            return AGAIN;
        }
        if (status == 0) {
            PrivateFiles.write(directory.resolve(FINISHED),
                    ("status 0, " + Instant.now().truncatedTo(ChronoUnit.SECONDS) + "\n").getBytes(StandardCharsets.UTF_8));
        }
        return status;
    }

    /** The same for each run of the line: the saved ranks know it. It is as private as the images. */
    private static String secret(final Path directory) throws IOException {
        final Path file = directory.resolve(SECRET);
        if (!Files.exists(file)) {
            PrivateFiles.write(file, JobSecret.random().getBytes(StandardCharsets.UTF_8));
        }
        return Files.readString(file).strip();
    }

    /** One of its own, at any port: several jobs may run on a host. */
    private Address coordinator(final Path directory, final boolean severalHosts, final Map<String, String> changed)
            throws CommandException, IOException {
        final List<String> flags = new ArrayList<>(List.of("--exit-on-last", "--ckptdir", directory.toString()));
        if (severalHosts) {
            flags.addAll(List.of("--address", "0.0.0.0"));
        }
        flags.addAll(interval.flags());
        flags.addAll(images.flags());
        flags.addAll(recovery.flags());
        if (keep.get() != null) {
            flags.addAll(List.of("--keep", keep.get().toString()));
        }
        final String ready = Daemons.start("the coordinator", Daemons.coordinatorCommand(0, flags),
                RunDirectory.make(RunDirectory.root(environment), 0).resolve("coordinator.err"), changed);
        final int port = Integer.parseInt(ready.substring(ready.lastIndexOf(' ') + 1));
        return new Address(severalHosts ? hostName() : "localhost", port, true, changed);
    }

    /** By which the other hosts find this one. */
    private String hostName() throws IOException {
        final String node = environment.getOrDefault("SLURMD_NODENAME", "");
        return node.isEmpty() ? AgentCommand.hostName() : node;
    }

    private List<String> restart(final String launcher, final boolean srun, final Path checkpoint, final Address address)
            throws CommandException, ManifestException, IOException {
        final Manifest manifest = ManifestFile.read(checkpoint);
        final int nodes = srun ? nodes() : 1;
        final int hosts = Math.min(nodes, manifest.hosts().size());
        final List<String> words = new ArrayList<>();
        if (hosts > 1) {
            words.addAll(List.of(launcher, "--nodes=" + hosts, "--ntasks=" + hosts, "--ntasks-per-node=1", "--cpu-bind=none"));
        }
        words.addAll(List.of(Installation.command().toString(), "restart", "-h", address.host(), "-p",
                Integer.toString(address.port())));
        if (hosts > 1) {
            words.addAll(List.of("--hosts", Integer.toString(hosts)));
        }
        words.add(checkpoint.toString());
        return words;
    }

    /** How many hosts the allocation has. */
    private int nodes() throws CommandException {
        final String nodes = environment.getOrDefault("SLURM_JOB_NUM_NODES", environment.getOrDefault("SLURM_NNODES", "1"));
        try {
            return Integer.parseInt(nodes);
        } catch (NumberFormatException e) {
            throw new CommandException("job: SLURM_JOB_NUM_NODES is no number: " + nodes);
        }
    }

    private void requeue() throws IOException, InterruptedException {
        if (!requeue.get()) {
            return;
        }
        final String array = environment.getOrDefault("SLURM_ARRAY_JOB_ID", "");
        final String id = array.isEmpty() ? environment.get("SLURM_JOB_ID")
                : array + "_" + environment.getOrDefault("SLURM_ARRAY_TASK_ID", "");
        final Process scontrol = new ProcessBuilder("scontrol", "requeue", id).inheritIO().start();
        if (!scontrol.waitFor(SCONTROL_SECONDS, TimeUnit.SECONDS)) {
            scontrol.destroy();
            say("scontrol requeue " + id + " has not ended within " + SCONTROL_SECONDS + " s; queue it again by hand");
        } else if (scontrol.exitValue() != 0) {
            say("scontrol requeue " + id + " ended with status " + scontrol.exitValue() + "; queue it again by hand");
        }
    }

    /** It ends with the last program, unless there has been none. */
    private static void quit(final Address address) throws CommandException {
        try {
            CoordinatorClient.call(address, "quit", Map.of(), QUIT_MILLIS, line -> { });
        } catch (CoordinatorClient.Unreachable | CommandException e) {
            return; // it has ended, or is about to
        }
    }

    static void say(final String line) {
        System.err.println("shadowverbs: job: " + line);
    }
}
