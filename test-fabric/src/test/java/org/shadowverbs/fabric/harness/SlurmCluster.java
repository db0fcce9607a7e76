// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

/**
 * Debian's Slurm with two nodes of four processors each: namespaces of this machine, joined by a cable, with a host name,
 * a /dev/shm and a {@link #runDirectory() run directory} of their own and all other files in common. The controller is on the
 * first. All of it is removed at the end.
 */
public final class SlurmCluster implements AutoCloseable {
    private static final Duration COMMAND = Running.DEADLINE;
    /** Who has an account on it, beside root. */
    public static final int USER = 12345;

    private final Path work;
    private final Map<String, String> environment;
    private final List<Running> programs = new ArrayList<>();
    private final List<Running> nodes = new ArrayList<>();
    private TwoNetworks networks;
    private List<String> under = List.of();
    private int commands;

    private SlurmCluster(final Map<String, String> more) throws IOException {
        work = Files.createTempDirectory("shadowverbs-slurm-");
        // Its other users come through here to munge's socket.
        Files.setPosixFilePermissions(work, PosixFilePermissions.fromString("rwxr-xr-x"));
        environment = new HashMap<>(System.getenv());
        environment.keySet().removeIf(k -> k.startsWith("SHADOWVERBS_") || k.startsWith("SLURM_") || k.startsWith("SV_HCA_"));
        environment.put("PATH", environment.getOrDefault("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin");
        environment.put("TMPDIR", Files.createDirectory(work.resolve("tmp")).toString());
        environment.put("SLURM_CONF", work.resolve("slurm.conf").toString());
        environment.put("SHADOWVERBS_RUN_DIR", Files.createDirectory(runDirectory()).toString());
        environment.put("SV_HCA_FABRIC", Files.createDirectory(work.resolve("fabric")).toString());
        environment.putAll(more);
    }

    /** Skips the test where network namespaces cannot be made. {@code more} is added to the environment of all. */
    public static SlurmCluster start(final Map<String, String> more) throws IOException, InterruptedException {
        final SlurmCluster cluster = new SlurmCluster(more);
        try {
            cluster.start();
            return cluster;
        } catch (IOException | InterruptedException | RuntimeException e) {
            cluster.close();
            throw e;
        }
    }

    private void start() throws IOException, InterruptedException {
        networks = TwoNetworks.make(work);
        configure();
        final byte[] key = new byte[1024];
        new SecureRandom().nextBytes(key);
        Files.write(Files.createFile(work.resolve("munge.key"), PosixFilePermissions.asFileAttribute(
                PosixFilePermissions.fromString("rw-------"))), key);
        final Running munge = start("munged", List.of("munged", "--foreground", "--force", "--key-file=" + work.resolve("munge.key"),
                "--socket=" + work.resolve("munge.socket"), "--pid-file=" + work.resolve("munge.pid"),
                "--log-file=" + work.resolve("munge.log"), "--seed-file=" + work.resolve("munge.seed")));
        await("munge's socket", () -> Files.exists(work.resolve("munge.socket")), munge);
        for (int node = 0; node < 2; node++) {
            final Running running = start(name(node), List.of("nsenter", "--net=" + networks.file(node), "unshare", "--uts",
                    "--mount", "--ipc", "sh", "-euc", NODE, "sh", name(node), work.toString()));
            nodes.add(running);
            await("the namespaces", () -> running.lines("ready") > 0, running);
        }
        final List<Running> daemons = new ArrayList<>(List.of(run(0, "slurmctld", "-D")));
        for (int node = 0; node < 2; node++) {
            daemons.add(run(node, "slurmd", "-D", "-N", name(node)));
        }
        await("two idle nodes", () -> states().equals("idle idle"), daemons.toArray(Running[]::new));
    }

    /** A node's own files, and then nothing, for as long as it is there. */
    private static final String NODE = """
            hostname "$1"
            mount --make-rprivate /
            mount --bind "$2/hosts" /etc/hosts
            mount --bind "$2/passwd" /etc/passwd
            mount -t tmpfs -o mode=1777 tmpfs /dev/shm
            mount --bind "$2/run-$1" "$2/run"
            mkdir "$2/cgroup-$1"
            mount --rbind /sys/fs/cgroup "$2/cgroup-$1"
            mount -t sysfs sysfs /sys
            mount --rbind "$2/cgroup-$1" /sys/fs/cgroup
            umount -l "$2/cgroup-$1"
            echo ready
            exec sleep 1000000
            """;

    private void configure() throws IOException {
        Files.writeString(work.resolve("hosts"), "127.0.0.1 localhost\n%s %s\n%s %s\n".formatted(address(0), name(0), address(1), name(1)));
        Files.writeString(work.resolve("passwd"), Files.readString(Path.of("/etc/passwd")).lines()
                .filter(line -> !line.contains(":" + USER + ":")).reduce("", (all, line) -> all + line + "\n")
                + "somebody:x:%d:%d::%s:/bin/sh\n".formatted(USER, USER, work));
        Files.createDirectory(work.resolve("state"));
        final StringBuilder text = new StringBuilder();
        for (int node = 0; node < 2; node++) {
            Files.createDirectory(work.resolve("spool-" + name(node)));
            // As /tmp is, where run directories are: each user's own is in it.
            Files.setAttribute(Files.createDirectory(work.resolve("run-" + name(node))), "unix:mode", 01777);
            text.append("NodeName=%s NodeAddr=%s CPUs=4\n".formatted(name(node), address(node)));
        }
        Files.writeString(work.resolve("cgroup.conf"), "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n");
        Files.writeString(work.resolve("slurm.conf"), """
                ClusterName=test
                SlurmctldHost=%2$s
                SlurmUser=root
                SlurmdUser=root
                AuthInfo=socket=%1$s/munge.socket,cred_expire=5
                StateSaveLocation=%1$s/state
                SlurmctldPidFile=%1$s/slurmctld.pid
                SlurmdPidFile=%1$s/slurmd-%%n.pid
                SlurmdSpoolDir=%1$s/spool-%%n
                SlurmdParameters=config_overrides
                ProctrackType=proctrack/linuxproc
                TaskPlugin=task/none
                JobAcctGatherType=jobacct_gather/none
                SelectType=select/cons_tres
                SelectTypeParameters=CR_CPU
                ReturnToService=2
                KillWait=5
                MpiDefault=pmi2
                PartitionName=all Nodes=ALL Default=YES State=UP
                """.formatted(work, name(0)) + text);
    }

    /** The states of its nodes, as sinfo has them. */
    private String states() {
        try {
            return succeed(0, "sinfo", "-h", "-N", "-o", "%T").strip().replace('\n', ' ');
        } catch (IOException e) {
            return ""; // the controller does not answer yet
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return "";
        }
    }

    public static String name(final int node) {
        return "node" + node;
    }

    public static String address(final int node) {
        return TwoNetworks.address(node);
    }

    public Path work() {
        return work;
    }

    /** What SHADOWVERBS_RUN_DIR says: one path, and on each node a folder of its own. */
    private Path runDirectory() {
        return work.resolve("run");
    }

    /** In the environment of all that is run from now on. */
    public void environment(final String name, final String value) {
        environment.put(name, value);
    }

    /** What is run from now on is run by {@link #USER}, who has no privilege. */
    public void byOrdinaryUser() throws IOException {
        for (final Path folder : List.of(work.resolve("tmp"), work.resolve("fabric"))) {
            Files.setAttribute(folder, "unix:uid", USER);
            Files.setAttribute(folder, "unix:gid", USER);
        }
        under = Job.commandOf(USER);
    }

    /** A folder on all nodes, of whoever runs programs now. */
    public Path folder(final String name) throws IOException {
        final Path folder = Files.createDirectory(work.resolve(name));
        if (!under.isEmpty()) {
            Files.setAttribute(folder, "unix:uid", USER);
            Files.setAttribute(folder, "unix:gid", USER);
        }
        return folder;
    }

    /** Runs a command on a node, in the background, such as srun or sbatch. */
    public Running run(final int node, final String... command) throws IOException {
        final String pid = Long.toString(nodes.get(node).pid());
        final List<String> all = new ArrayList<>(List.of("nsenter", "--target", pid, "--net", "--uts", "--mount", "--ipc", "sh", "-c",
                "cd \"$0\" && exec \"$@\"", work.toString()));
        all.addAll(under);
        all.addAll(List.of(command));
        return start(Path.of(command[0]).getFileName() + "-" + commands++, all);
    }

    /** Runs a command on a node to its end, which must be with status 0. @return its standard output */
    public String succeed(final int node, final String... command) throws IOException, InterruptedException {
        final Running running = run(node, command);
        running.succeed(COMMAND);
        return running.output();
    }

    /** Runs a command of the distribution on a node, in the background. */
    public Running shadowverbs(final int node, final String... arguments) throws IOException {
        return run(node, Stream.concat(Stream.of(shadowverbs()), Stream.of(arguments)).toArray(String[]::new));
    }

    /** The distribution's command. */
    public static String shadowverbs() {
        return Distribution.DIST.resolve("bin/shadowverbs").toString();
    }

    /** Waits for a condition while the programs run. */
    public void await(final String what, final BooleanSupplier condition, final Running... running)
            throws IOException, InterruptedException {
        final long end = System.nanoTime() + COMMAND.toNanos();
        while (!condition.getAsBoolean()) {
            for (final Running program : running) {
                if (!program.isRunning()) {
                    throw new IOException("waited for " + what + ", but " + program.name() + " ended: " + words());
                }
            }
            if (System.nanoTime() > end) {
                throw new IOException("waited " + COMMAND.toSeconds() + " s for " + what + words());
            }
            Thread.sleep(Job.PAUSE);
        }
    }

    /** What all have said, for a message. */
    private String words() throws IOException {
        final StringBuilder words = new StringBuilder();
        for (final Running program : programs) {
            final String said = (program.output() + program.errors()).strip();
            if (!said.isEmpty()) {
                words.append("\n  ").append(program.name()).append(": ").append(said);
            }
        }
        return words.toString();
    }

    private Running start(final String name, final List<String> command) throws IOException {
        final Running running = Running.start(name, work, environment, command);
        programs.add(running);
        return running;
    }

    private static Path hostName(final long pid) {
        return Path.of("/proc", Long.toString(pid), "ns/uts");
    }

    /** They go on trying to reach the controller, have no environment to be known by, and are nobody's children. */
    private static void endStepDaemons(final List<Path> hostNames) {
        ProcessHandle.allProcesses().filter(process -> {
            try {
                return hostNames.contains(Files.readSymbolicLink(hostName(process.pid())));
            } catch (IOException e) {
                return false; // it has ended
            }
        }).forEach(ProcessHandle::destroyForcibly);
    }

    @Override
    public void close() throws IOException {
        try {
            final List<Path> hostNames = new ArrayList<>();
            for (final Running node : nodes) {
                hostNames.add(Files.readSymbolicLink(hostName(node.pid())));
            }
            for (final Running program : programs) {
                program.close();
            }
            Running.endAllOf(work);
            endStepDaemons(hostNames);
            if (networks != null) {
                networks.close();
            }
        } finally {
            Job.remove(work);
        }
    }
}
