// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

/**
 * Two nodes of a cluster, or more: namespaces of this machine, joined by a cable or a switch, with a host name, a /dev/shm, a folder
 * of temporary files and a {@link #runDirectory() run directory} of their own and all other files in common, which know each other by
 * their names and reach each other by ssh. All of it is removed at the end.
 */
public class TwoNodes implements AutoCloseable {
    static final Duration COMMAND = Running.DEADLINE;
    /** Who has an account on them, beside root. */
    public static final int USER = 12345;

    private final Path work;
    private final int count;
    private final Map<String, String> environment;
    private final List<Running> programs = new ArrayList<>();
    private final List<Running> nodes = new ArrayList<>();
    private TwoNetworks networks;
    private List<String> under = List.of();
    private int commands;

    TwoNodes(final Map<String, String> more) throws IOException {
        this(more, 2);
    }

    private TwoNodes(final Map<String, String> more, final int count) throws IOException {
        this.count = count;
        work = Files.createTempDirectory("shadowverbs-nodes-");
        // Other users come through here.
        Files.setPosixFilePermissions(work, PosixFilePermissions.fromString("rwxr-xr-x"));
        environment = new HashMap<>(System.getenv());
        environment.keySet().removeIf(k -> k.startsWith("SHADOWVERBS_") || k.startsWith("SLURM_") || k.startsWith("SV_HCA_"));
        environment.put("PATH", Files.createDirectory(work.resolve("bin")) + ":"
                + environment.getOrDefault("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin");
        environment.put("TMPDIR", Files.createDirectory(work.resolve("tmp")).toString());
        environment.put("SHADOWVERBS_RUN_DIR", Files.createDirectory(runDirectory()).toString());
        environment.put("SV_HCA_FABRIC", Files.createDirectory(work.resolve("fabric")).toString());
        environment.putAll(more);
    }

    /** Skips the test where network namespaces cannot be made. {@code more} is added to the environment of all. */
    public static TwoNodes start(final Map<String, String> more) throws IOException, InterruptedException {
        return start(more, 2);
    }

    /** @param count how many nodes */
    public static TwoNodes start(final Map<String, String> more, final int count) throws IOException, InterruptedException {
        final TwoNodes nodes = new TwoNodes(more, count);
        try {
            nodes.boot();
            return nodes;
        } catch (IOException | InterruptedException | RuntimeException e) {
            nodes.close();
            throw e;
        }
    }

    final void boot() throws IOException, InterruptedException {
        networks = TwoNetworks.make(work, count);
        final StringBuilder known = new StringBuilder("127.0.0.1 localhost\n");
        for (int node = 0; node < count; node++) {
            known.append(address(node)).append(' ').append(name(node)).append('\n');
        }
        Files.writeString(work.resolve("hosts"), known);
        Files.writeString(work.resolve("passwd"), Files.readString(Path.of("/etc/passwd")).lines()
                .filter(line -> !line.contains(":" + USER + ":")).reduce("", (all, line) -> all + line + "\n")
                + "somebody:x:%d:%d::%s:/bin/sh\n".formatted(USER, USER, work));
        for (int node = 0; node < count; node++) {
            // As /tmp is, where run directories are: each user's own is in it.
            for (final String folder : List.of("run-", "tmp-")) {
                Files.setAttribute(Files.createDirectory(work.resolve(folder + name(node))), "unix:mode", 01777);
            }
            final Running running = start(name(node), List.of("nsenter", "--net=" + networks.file(node), "unshare", "--uts",
                    "--mount", "--ipc", "sh", "-euc", NODE, "sh", name(node), work.toString()));
            nodes.add(running);
            await("the namespaces", () -> running.lines("ready") > 0, running);
            Files.writeString(work.resolve("pid-" + name(node)), running.pid() + "\n");
        }
        final Path ssh = Files.writeString(work.resolve("bin/ssh"), SSH.formatted(work));
        Files.setPosixFilePermissions(ssh, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    /** A node's own files, and then nothing, for as long as it is there. */
    private static final String NODE = """
            hostname "$1"
            mount --make-rprivate /
            mount --bind "$2/hosts" /etc/hosts
            mount --bind "$2/passwd" /etc/passwd
            mount -t tmpfs -o mode=1777 tmpfs /dev/shm
            mount --bind "$2/run-$1" "$2/run"
            mount --bind "$2/tmp-$1" "$2/tmp"
            mkdir "$2/cgroup-$1"
            mount --rbind /sys/fs/cgroup "$2/cgroup-$1"
            mount -t sysfs sysfs /sys
            mount --rbind "$2/cgroup-$1" /sys/fs/cgroup
            umount -l "$2/cgroup-$1"
            echo ready
            exec sleep 1000000
            """;

    /** To a login shell on the other node: what it knows of the caller's environment is what that has set for all its logins. */
    private static final String SSH = """
            #!/bin/sh
            while :; do case $1 in -o) shift 2 ;; --) shift ;; *) break ;; esac; done
            host=$1 && shift
            if [ ! -e %1$s/pid-"$host" ]; then
                echo "ssh: Could not resolve hostname $host: Name or service not known" >&2
                exit 255
            fi
            exec env -i HOME="$HOME" PATH=/usr/bin:/bin SHADOWVERBS_RUN_DIR=%1$s/run \\
                nsenter --target "$(cat %1$s/pid-"$host")" --net --uts --mount --ipc sh -c "$*"
            """;

    /** Of three nodes or more: nothing that the node sends arrives from now on, nor does anything arrive there; or all does again. */
    public final void cut(final int node, final boolean off) throws IOException, InterruptedException {
        networks.cut(node, off);
    }

    public static String name(final int node) {
        return "node" + node;
    }

    public static String address(final int node) {
        return TwoNetworks.address(node);
    }

    public final Path work() {
        return work;
    }

    /** What SHADOWVERBS_RUN_DIR says: one path, and on each node a folder of its own. */
    private Path runDirectory() {
        return work.resolve("run");
    }

    /** In the environment of all that is run from now on. */
    public final void environment(final String name, final String value) {
        environment.put(name, value);
    }

    /** What is run from now on is run by {@link #USER}, who has no privilege. */
    public void byOrdinaryUser() throws IOException {
        Files.setAttribute(work.resolve("fabric"), "unix:uid", USER);
        Files.setAttribute(work.resolve("fabric"), "unix:gid", USER);
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

    /** Runs a command on a node, in the background, such as srun or sbatch. Its files are opened by the node's mounts, as all else there. */
    public final Running run(final int node, final String... command) throws IOException {
        final String pid = Long.toString(nodes.get(node).pid());
        final String name = Path.of(command[0]).getFileName() + "-" + commands++;
        final List<String> all = new ArrayList<>(List.of("nsenter", "--target", pid, "--net", "--uts", "--mount", "--ipc", "sh", "-c",
                "cd \"$0\" && name=$1 && shift && exec \"$@\" </dev/null >>\"$name.out\" 2>>\"$name.err\"", work.toString(), name));
        all.addAll(under);
        all.addAll(List.of(command));
        return start(name, all);
    }

    /** Runs a command on a node to its end, which must be with status 0. @return its standard output */
    public final String succeed(final int node, final String... command) throws IOException, InterruptedException {
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
    public final void await(final String what, final BooleanSupplier condition, final Running... running)
            throws IOException, InterruptedException {
        final long end = System.nanoTime() + COMMAND.toNanos();
        final Looks looks = new Looks();
        while (!condition.getAsBoolean()) {
            for (final Running program : running) {
                if (!program.isRunning()) {
                    throw new IOException("waited for " + what + ", but " + program.name() + " ended: " + words());
                }
            }
            if (System.nanoTime() > end) {
                throw new IOException("waited " + COMMAND.toSeconds() + " s for " + what + words());
            }
            looks.rest();
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

    final Running start(final String name, final List<String> command) throws IOException {
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
        final List<InputStream> held = new ArrayList<>();
        try {
            final List<Path> hostNames = new ArrayList<>();
            for (final Running node : nodes) {
                if (node.isRunning()) { // else it could not be made, which is what is to be said
                    // Held, so that its number is not given to a node of another test before the last of its processes has ended.
                    held.add(Files.newInputStream(hostName(node.pid())));
                    hostNames.add(Files.readSymbolicLink(hostName(node.pid())));
                }
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
            for (final InputStream namespace : held) {
                namespace.close();
            }
            Job.remove(work);
        }
    }
}
