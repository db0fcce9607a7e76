// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

/** A program under test. Its output goes to files, so that nothing has to read while it runs. */
public final class Running implements AutoCloseable {
    /** In the environment of all that it starts: what a job root has for it is no descendant of its. */
    private static final String MARK = "RUN_OF_JOB";
    private static final Path HERE = pidNamespace();
    private static final AtomicInteger MARKS = new AtomicInteger();
    /** What anything gets that is waited for. Generous, for it counts only when a test fails, and other tests run beside it. */
    public static final Duration DEADLINE = Duration.ofSeconds(240);

    private final String name;
    private final Process process;
    private final Path output;
    private final Path errors;
    private final String mark;

    private Running(final String name, final Process process, final Path output, final Path errors, final String mark) {
        this.mark = mark;
        this.name = name;
        this.process = process;
        this.output = output;
        this.errors = errors;
    }

    /** @param name names the program in messages, and its output files in the folder */
    static Running start(final String name, final Path folder, final Map<String, String> environment,
            final List<String> command) throws IOException {
        final Path output = folder.resolve(name + ".out");
        final Path errors = folder.resolve(name + ".err");
        // They are the user's whose job it is, as they would be if his shell had opened them.
        for (final Path file : List.of(output, errors)) {
            Files.deleteIfExists(file);
            Files.createFile(file);
            Files.setAttribute(file, "unix:uid", Files.getAttribute(folder, "unix:uid"));
        }
        final ProcessBuilder builder = new ProcessBuilder(command)
                .directory(folder.toFile())
                .redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(output.toFile())
                .redirectError(errors.toFile());
        builder.environment().clear();
        builder.environment().putAll(environment);
        final String mark = ProcessHandle.current().pid() + "." + MARKS.incrementAndGet() + ".";
        builder.environment().put(MARK, mark);
        return new Running(name, builder.start(), output, errors, mark);
    }

    /** @return the exit status; a signal's is 128 and its number */
    public int awaitEnd(final Duration deadline) throws IOException, InterruptedException {
        if (!endsWithin(deadline)) {
            throw new IOException("waited " + deadline.toSeconds() + " s for the end of " + name + "; it said: "
                    + output() + errors());
        }
        return process.exitValue();
    }

    /** Waits for the end, which must be with status 0. */
    public void succeed(final Duration deadline) throws IOException, InterruptedException {
        final int status = awaitEnd(deadline);
        if (status != 0) {
            throw new IOException(name + " ended with status " + status + "; it said: " + output() + errors());
        }
    }

    /** Waits so long for the end. @return whether it has come */
    public boolean endsWithin(final Duration time) throws InterruptedException {
        return process.waitFor(time.toMillis(), TimeUnit.MILLISECONDS);
    }

    public String name() {
        return name;
    }

    public long pid() {
        return process.pid();
    }

    public boolean isRunning() {
        return process.isAlive();
    }

    /** Whether it has ended by itself, and well. */
    public boolean hasSucceeded() {
        return !process.isAlive() && process.exitValue() == 0;
    }

    public String output() throws IOException {
        return Files.readString(output);
    }

    public String errors() throws IOException {
        return Files.readString(errors);
    }

    /** How many lines of its output, on either stream, hold a text. */
    public long lines(final String text) {
        try {
            return Stream.concat(output().lines(), errors().lines()).filter(line -> line.contains(text)).count();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Its descendants that still run, for sending signals to. */
    public List<ProcessHandle> descendants() {
        final List<ProcessHandle> own = process.descendants().toList();
        return Stream.concat(own.stream(), inJobRoot(own)).distinct().toList();
    }

    /**
     * Itself, its descendants, and what runs in a job root for it. A look at them alone: descendants() reads of all processes of
     * the machine. One whose sibling ends at that moment may be missed (proc(5), /proc/pid/task/tid/children).
     */
    private List<ProcessHandle> family() {
        final List<Long> pids = new ArrayList<>(List.of(pid()));
        for (int i = 0; i < pids.size(); i++) {
            pids.addAll(children(pids.get(i)));
        }
        final List<ProcessHandle> own = pids.stream().map(ProcessHandle::of).flatMap(Optional::stream).toList();
        return Stream.concat(own.stream(), inJobRoot(own)).distinct().toList();
    }

    private static List<Long> children(final long pid) {
        final List<Long> children = new ArrayList<>();
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc", Long.toString(pid), "task"))) {
            for (final Path thread : threads) {
                for (final String child : childrenOf(thread).split(" ")) {
                    if (!child.isEmpty()) {
                        children.add(Long.parseLong(child));
                    }
                }
            }
        } catch (DirectoryIteratorException | IOException e) {
            return children; // it has ended
        }
        return children;
    }

    private static String childrenOf(final Path thread) {
        try {
            return Files.readString(thread.resolve("children"));
        } catch (IOException e) {
            return ""; // it has ended
        }
    }

    /** What runs in a job root for it, when one of its own processes has become a stand-in. */
    private Stream<ProcessHandle> inJobRoot(final List<ProcessHandle> own) {
        if (Stream.concat(Stream.of(process.toHandle()), own.stream())
                .noneMatch(p -> p.info().command().orElse("").endsWith("/shadowverbs-job-root"))) {
            return Stream.empty();
        }
        final String marked = MARK + "=" + mark;
        return ProcessHandle.allProcesses().filter(p -> {
            try {
                // Not the job's daemons, which the launch may have started too, nor the job root itself.
                final Path proc = Path.of("/proc", Long.toString(p.pid()));
                return !Files.readSymbolicLink(proc.resolve("ns/pid")).equals(HERE)
                        && Files.readString(proc.resolve("environ"), StandardCharsets.ISO_8859_1).contains(marked)
                        && !p.info().command().orElse("").endsWith("/shadowverbs-job-root");
            } catch (IOException e) {
                return false; // it has ended, or is another user's
            }
        });
    }

    /** What has a TMPDIR in that folder, as all has that was started with it. */
    static Stream<ProcessHandle> allOf(final Path folder) {
        return ProcessHandle.allProcesses().filter(process -> {
            try {
                return Files.readString(Path.of("/proc", Long.toString(process.pid()), "environ"), StandardCharsets.ISO_8859_1)
                        .contains("TMPDIR=" + folder + "/");
            } catch (IOException e) {
                return false; // it has ended, or is another user's
            }
        });
    }

    /** Kills, by their pids, what has a TMPDIR in that folder, as all has that was started with it, and waits for the end. */
    static void endAllOf(final Path folder) {
        final List<ProcessHandle> left = allOf(folder).toList();
        left.forEach(ProcessHandle::destroyForcibly);
        for (final ProcessHandle process : left) {
            process.onExit().completeOnTimeout(process, DEADLINE.toSeconds(), TimeUnit.SECONDS).join();
        }
    }

    private static Path pidNamespace() {
        try {
            return Files.readSymbolicLink(Path.of("/proc/self/ns/pid"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Seconds of processor time that it and its children that still run have used. */
    public double processorSeconds() {
        return family().stream()
                .mapToDouble(p -> p.info().totalCpuDuration().orElse(Duration.ZERO).toMillis() / 1e3).sum();
    }

    /** @return whether it has taken so much processor time since now, with its descendants */
    public BooleanSupplier takes(final double seconds) {
        final double enough = processorSeconds() + seconds;
        return () -> processorSeconds() > enough;
    }

    /** SIGKILL to it and all its descendants, and waits for its end. */
    public void killHard() throws IOException, InterruptedException {
        final List<ProcessHandle> descendants = descendants();
        process.destroyForcibly();
        descendants.forEach(ProcessHandle::destroyForcibly);
        awaitEnd(DEADLINE);
    }

    @Override
    public void close() throws IOException {
        if (!process.isAlive()) {
            return;
        }
        try {
            killHard();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
