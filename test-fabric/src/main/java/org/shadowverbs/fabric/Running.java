// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A program under test. Its output goes to files, so that nothing has to read while it runs. */
final class Running implements AutoCloseable {
    private final String name;
    private final Process process;
    private final Path output;
    private final Path errors;

    private Running(final String name, final Process process, final Path output, final Path errors) {
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
        final ProcessBuilder builder = new ProcessBuilder(command)
                .directory(folder.toFile())
                .redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(output.toFile())
                .redirectError(errors.toFile());
        builder.environment().clear();
        builder.environment().putAll(environment);
        return new Running(name, builder.start(), output, errors);
    }

    /** @return the exit status; a signal's is 128 and its number */
    int awaitEnd(final Duration deadline) throws IOException, InterruptedException {
        if (!endsWithin(deadline)) {
            throw new IOException("waited " + deadline.toSeconds() + " s for the end of " + name + "; it said: "
                    + output() + errors());
        }
        return process.exitValue();
    }

    /** Waits for the end, which must be with status 0. */
    void succeed(final Duration deadline) throws IOException, InterruptedException {
        final int status = awaitEnd(deadline);
        if (status != 0) {
            throw new IOException(name + " ended with status " + status + "; it said: " + output() + errors());
        }
    }

    /** Waits so long for the end. @return whether it has come */
    boolean endsWithin(final Duration time) throws InterruptedException {
        return process.waitFor(time.toMillis(), TimeUnit.MILLISECONDS);
    }

    String name() {
        return name;
    }

    long pid() {
        return process.pid();
    }

    boolean isRunning() {
        return process.isAlive();
    }

    /** Whether it has ended by itself, and well. */
    boolean hasSucceeded() {
        return !process.isAlive() && process.exitValue() == 0;
    }

    String output() throws IOException {
        return Files.readString(output);
    }

    String errors() throws IOException {
        return Files.readString(errors);
    }

    /** How many lines of its output, on either stream, hold a text. */
    long lines(final String text) {
        try {
            return Stream.concat(output().lines(), errors().lines()).filter(line -> line.contains(text)).count();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Its descendants that still run, for sending signals to. */
    List<ProcessHandle> descendants() {
        return process.descendants().toList();
    }

    /** Seconds of processor time that it and its children that still run have used. */
    double processorSeconds() {
        return Stream.concat(Stream.of(process.toHandle()), process.descendants())
                .mapToDouble(p -> p.info().totalCpuDuration().orElse(Duration.ZERO).toMillis() / 1e3).sum();
    }

    /** SIGKILL to it and all its descendants, and waits for its end. */
    void killHard() throws IOException, InterruptedException {
        final List<ProcessHandle> descendants = process.descendants().toList();
        process.destroyForcibly();
        descendants.forEach(ProcessHandle::destroyForcibly);
        awaitEnd(Duration.ofSeconds(10));
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
