// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.system.Libc;

/** Where CRIU and our helper are, how they are run, and what CRIU said. */
final class CriuCommand {
    static final String LOG = "criu.log";
    /** Of a dump that may have TCP connections. */
    static final String CONNECTED = "--tcp-established";
    /** In the environment of a CRIU that waits for a byte on its standard input: native/restore-init/criu-standby.c. */
    static final String STANDBY = "SHADOWVERBS_CRIU_STANDBY";
    private static final String COUNTS = "SHADOWVERBS_CRIU_WRITES=1";
    private static final String PRELOAD = "libshadowverbs-criu.so";
    /** Alone in its folder: CRIU loads all that is there. */
    private static final String PLUGIN = "criu-plugins/shadowverbs-devices.so";
    /** CRIU raises limits for itself as it goes; in a container it may not, and goes on. */
    private static final String HARMLESS = "rlimit: Can't setup RLIMIT_NOFILE";
    /** And with no right to the network it says so, and goes on. */
    private static final String NO_NETWORK = "net: Unexpected error: -1(Operation not permitted)";

    /** What CRIU says of a socket or thread in a state that passes as soon as its process runs on. */
    private static final List<String> PASSING = List.of(
            "netlink: The socket has data to read",
            "inet: In-flight connection",
            "unix: In-flight connection",
            "unix: Non-empty write queue on an in-flight socket",
            "unix: Found a closed in-flight socket",
            "thread with a pending SIGTRAP",
            "Timeout reached. Try to interrupt"); // CRIU gives itself 10 s to stop a tree, which are too few on a starved host
    private static final Duration END_TIMEOUT = Duration.ofSeconds(20);
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final int SIGKILL = 9;
    private static final int SIGSTOP = 19;

    private CriuCommand() {
    }

    /** Finds CRIU: what the environment names, else the project's own, else that of the system; null when nowhere. */
    static Path find() {
        final String named = System.getenv("SHADOWVERBS_CRIU");
        if (named != null && !named.isEmpty()) {
            return Files.isExecutable(Path.of(named)) ? Path.of(named).toAbsolutePath() : null;
        }
        final Path own = above(".tools/criu/sbin/criu");
        return own != null ? own : onPath("criu");
    }

    /** Finds the first process of a restored namespace; null when it is nowhere. */
    static Path findRestoreInit() {
        final String named = System.getenv("SHADOWVERBS_RESTORE_INIT");
        if (named != null && !named.isEmpty()) {
            return Files.isExecutable(Path.of(named)) ? Path.of(named).toAbsolutePath() : null;
        }
        return findHelper("shadowverbs-restore-init");
    }

    /** Finds a program of native/restore-init; null when it is nowhere. */
    static Path findHelper(final String name) {
        for (final String place : new String[] {"bin/", "lib/", "native/restore-init/target/"}) {
            final Path found = above(place + name);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    /** Our library that is preloaded into CRIU: criu-getsockopt.c, criu-socket.c, criu-device-file.c. Null when nowhere. */
    private static Path findPreload() {
        final Path found = above("lib/" + PRELOAD);
        return found != null ? found : above("native/restore-init/target/" + PRELOAD);
    }

    /**
     * How a dump begins. Older kernels do without the library.
     *
     * @param counts whether the kernel counts writes by write protection, which CRIU does not know of: native/restore-init/criu-writes.c
     */
    static List<String> dump(final Path criu, final boolean counts) {
        final List<String> command = new ArrayList<>(preloaded(findPreload(), criu, "dump"));
        if (counts) {
            command.add(1, COUNTS);
        }
        return command;
    }

    /** Whether the kernel has soft-dirty bits. */
    static boolean hasSoftDirty(final Path criu) {
        try {
            return run(List.of(criu.toString(), "check", "--feature", "mem_dirty_track"), END_TIMEOUT).status() == 0;
        } catch (final IOException e) {
            return false;
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /** Whether CRIU can be told what the kernel counts by write protection. */
    static boolean canCount() {
        return findPreload() != null;
    }

    /**
     * The options by which CRIU finds our plugin, for dump and restore; none when that is nowhere, and it is not needed but for
     * devices that stay open.
     */
    static List<String> plugins() {
        Path plugin = above("lib/" + PLUGIN);
        plugin = plugin != null ? plugin : above("native/restore-init/target/" + PLUGIN);
        return plugin == null ? List.of() : List.of("--libdir", plugin.getParent().toString());
    }

    /** How the restore of a tree with TCP connections begins. */
    static List<String> restoreConnected(final Path criu) throws CheckpointException {
        final Path preload = findPreload();
        if (preload == null) {
            throw new CheckpointException(PRELOAD + " is not there: build the project again");
        }
        return preloaded(preload, criu, "restore");
    }

    private static List<String> preloaded(final Path preload, final Path criu, final String action) {
        return preload == null
                ? List.of(criu.toString(), action)
                : List.of("/usr/bin/env", "LD_PRELOAD=" + preload, criu.toString(), action);
    }

    /** A file below one of the folders above the one that this class was loaded from. */
    private static Path above(final String relative) {
        try {
            Path folder = Path.of(
                    CriuCommand.class.getProtectionDomain().getCodeSource().getLocation().toURI());
            for (folder = folder.toAbsolutePath(); folder != null; folder = folder.getParent()) {
                if (Files.isExecutable(folder.resolve(relative))) {
                    return folder.resolve(relative);
                }
            }
        } catch (final java.net.URISyntaxException e) {
            throw new IllegalStateException(e);
        }
        return null;
    }

    private static Path onPath(final String name) {
        final String path = System.getenv().getOrDefault("PATH", "") + File.pathSeparator + "/usr/sbin:/sbin";
        for (final String folder : path.split(File.pathSeparator)) {
            if (!folder.isEmpty() && Files.isExecutable(Path.of(folder, name))) {
                return Path.of(folder, name);
            }
        }
        return null;
    }

    /**
     * What a program that ended left.
     *
     * @param status its exit status, -1 when it did not end in time and was killed
     * @param output what it wrote, both streams
     */
    record Result(int status, String output) {
    }

    /** Runs a program that is not to take longer than this. */
    static Result run(final List<String> command, final Duration timeout) throws IOException, InterruptedException {
        return run(command, new Stall(timeout, () -> 0, Progress.UNTOLD));
    }

    /** Runs a program that may take as long as it does something. */
    static Result run(final List<String> command, final Stall stall) throws IOException, InterruptedException {
        try (Running running = new Running(command, Map.of())) {
            running.process().getOutputStream().close();
            return running.await(stall);
        }
    }

    /** A program that runs, and what it says. */
    static final class Running implements AutoCloseable {
        private final InputStream said;
        private final Process process;

        /** @param variables of its environment, beside ours */
        Running(final List<String> command, final Map<String, String> variables) throws IOException {
            final Path output = Files.createTempFile("shadowverbs-", ".out");
            InputStream stream = Files.newInputStream(output);
            try {
                final ProcessBuilder builder = new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile());
                builder.environment().putAll(variables);
                process = builder.start();
                said = stream;
                stream = null;
            } finally {
                if (stream != null) {
                    stream.close();
                }
                Files.delete(output); // at once: nobody would delete it who is killed meanwhile
            }
        }

        Process process() {
            return process;
        }

        /** Whether it has said anything. */
        boolean hasSpoken() throws IOException {
            return said.available() > 0;
        }

        String output() throws IOException {
            return new String(said.readAllBytes(), StandardCharsets.ISO_8859_1);
        }

        /** Waits until it ends. @return false: it does nothing any more */
        boolean ends(final Stall stall) throws InterruptedException {
            boolean ended;
            do {
                ended = process.waitFor(Stall.ASK_NANOS, TimeUnit.NANOSECONDS);
            } while (!ended && !stall.passed());
            return ended;
        }

        Result result(final boolean ended) throws IOException {
            return new Result(ended ? process.exitValue() : -1, output());
        }

        /** Until it has ended; it is ended when it does nothing any more. */
        Result await(final Stall stall) throws IOException, InterruptedException {
            boolean ended = false;
            try {
                ended = ends(stall);
            } finally {
                if (!ended) {
                    end(process.toHandle());
                }
            }
            return result(ended);
        }

        /** What it says from now on is lost. */
        @Override
        public void close() throws IOException {
            said.close();
        }
    }

    /**
     * Ends a program and all that it has started: of a CRIU in the tree's own namespaces we are but the grandparent. Stopped
     * first, none of them starts another.
     */
    static void end(final ProcessHandle program) throws IOException {
        Set<ProcessHandle> all = Set.of();
        for (Set<ProcessHandle> now = family(program); !now.equals(all); now = family(program)) {
            all = now;
            all.forEach(process -> Libc.signal(process.pid(), SIGSTOP));
        }
        all.forEach(process -> Libc.signal(process.pid(), SIGKILL));
        final long deadline = System.nanoTime() + END_TIMEOUT.toNanos();
        for (final ProcessHandle process : all) {
            while (!Proc.ended(process.pid())) {
                if (System.nanoTime() - deadline > 0) {
                    throw new IOException("pid " + process.pid() + " ("
                            + process.info().command().orElse("CRIU") + ") has not ended after SIGKILL");
                }
                LockSupport.parkNanos(POLL_NANOS);
            }
        }
    }

    /** A program, and all that it has started. */
    static Set<ProcessHandle> family(final ProcessHandle program) {
        return Stream.concat(Stream.of(program), program.descendants()).collect(Collectors.toSet());
    }

    /** The line of CRIU's log that says why it failed. */
    static String reason(final Path log, final String output) {
        final List<String> errors = new ArrayList<>();
        try {
            if (Files.exists(log)) {
                collect(Files.readString(log, StandardCharsets.ISO_8859_1), errors);
            }
        } catch (final IOException e) {
            errors.add(log + " cannot be read: " + e.getMessage());
        }
        if (errors.isEmpty()) {
            collect(output, errors);
        }
        // The first error is the cause, those that follow are its effects.
        return errors.isEmpty() ? output.strip().lines().reduce("it said nothing", (a, b) -> b) : errors.getFirst();
    }

    /** Whether what it has failed for passes by itself. */
    static boolean passes(final String reason) {
        return PASSING.stream().anyMatch(reason::contains);
    }

    private static void collect(final String text, final List<String> errors) {
        text.lines()
                .filter(line -> line.contains("Error (") && !line.contains(HARMLESS) && !line.contains(NO_NETWORK))
                .map(line -> line.replaceFirst("^.*?Error \\([^)]*\\): ", "").strip())
                .forEach(errors::add);
    }
}
