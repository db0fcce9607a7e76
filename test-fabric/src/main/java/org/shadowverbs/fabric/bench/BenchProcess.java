// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A program of the benchmark: its output goes to files, so that nothing has to read while it runs. */
final class BenchProcess implements AutoCloseable {
    private final String what;
    private final Process process;
    private final Path output;
    private final Path errors;

    private BenchProcess(final String what, final Process process, final Path output, final Path errors) {
        this.what = what;
        this.process = process;
        this.output = output;
        this.errors = errors;
    }

    /** @param what names the program in messages, and its output files in the folder */
    static BenchProcess start(final Path folder, final String what, final Map<String, String> environment,
            final List<String> command) throws BenchException {
        final Path output = folder.resolve(what.replace(' ', '-') + ".out");
        final Path errors = folder.resolve(what.replace(' ', '-') + ".err");
        final ProcessBuilder builder = new ProcessBuilder(command)
                .redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(output.toFile())
                .redirectError(errors.toFile());
        builder.environment().clear();
        builder.environment().putAll(environment);
        try {
            return new BenchProcess(what, builder.start(), output, errors);
        } catch (IOException e) {
            throw new BenchException(what + ": " + e.getMessage());
        }
    }

    /** Waits for the end with status 0, and returns the output. */
    String finish(final Duration deadline) throws BenchException, InterruptedException {
        if (!process.waitFor(deadline.toMillis(), TimeUnit.MILLISECONDS)) {
            close();
            throw new BenchException("waited " + deadline.toSeconds() + " s for the end of " + what + lastWords());
        }
        if (process.exitValue() != 0) {
            throw new BenchException(what + " ended with status " + process.exitValue() + lastWords());
        }
        return read(output);
    }

    long pid() {
        return process.pid();
    }

    boolean isRunning() {
        return process.isAlive();
    }

    String output() throws BenchException {
        return read(output);
    }

    /** For the end of a message: the last line that the program has said, if any. */
    String lastWords() {
        String last = "";
        try {
            for (final String line : (read(output) + "\n" + read(errors)).split("\n")) {
                if (!line.isBlank()) {
                    last = ": " + line;
                }
            }
        } catch (BenchException e) {
            return last;
        }
        return last;
    }

    /** Lines "KEY VALUE". */
    static Map<String, Double> values(final String output) {
        final Map<String, Double> values = new HashMap<>();
        for (final String line : output.split("\n")) {
            final String[] words = line.split(" ");
            if (words.length == 2) {
                values.put(words[0], Double.valueOf(words[1]));
            }
        }
        return values;
    }

    /** Ends it, and what it has started: nobody would find that once it is not there any more. */
    @Override
    public void close() {
        final List<ProcessHandle> started = process.descendants().toList();
        process.destroy();
        started.forEach(ProcessHandle::destroyForcibly);
        try {
            if (!process.waitFor(5, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    private static String read(final Path file) throws BenchException {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new BenchException(e.toString());
        }
    }
}
