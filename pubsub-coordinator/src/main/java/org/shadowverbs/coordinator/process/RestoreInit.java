// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The first process of a pid namespace in which trees are restored, seen from outside: restore-init.c. */
final class RestoreInit implements AutoCloseable {
    private static final long END_SECONDS = 10;
    /** How what runs in the namespace ends with its first process: 128 + SIGKILL. */
    private static final int KILLED = 128 + 9;

    private final Process process;
    private final OutputStream commands;
    private final CompletableFuture<Long> started = new CompletableFuture<>();
    private final Map<Long, CompletableFuture<Integer>> ended = new ConcurrentHashMap<>();
    private final Map<Integer, CompletableFuture<Integer>> running = new ConcurrentHashMap<>();
    private volatile boolean gone;
    private boolean clocksTold;
    private int tags;

    /** @param ordinary whether this process has no privilege, so that a user namespace is needed around the others */
    RestoreInit(final Path program, final Path errors, final boolean ordinary) throws IOException {
        process = new ProcessBuilder(program.toString())
                .redirectError(errors.toFile())
                .start();
        commands = process.getOutputStream();
        Thread.ofPlatform().daemon().name("restore-init-answers").start(this::answers);
        if (ordinary) {
            send("user");
        }
    }

    void send(final String... fields) throws IOException {
        for (final String field : fields) {
            if (field.indexOf('\t') >= 0 || field.indexOf('\n') >= 0) {
                throw new IOException("a name with a tab or a line break: " + field);
            }
        }
        synchronized (commands) {
            commands.write((String.join("\t", fields) + "\n").getBytes(StandardCharsets.UTF_8));
            commands.flush();
        }
    }

    /** Makes the namespace. Returns the host's pid of its first process. */
    long start(final long lastPid, final Stall stall) throws IOException, CheckpointException, InterruptedException {
        try {
            send("start", Long.toString(lastPid));
        } catch (final IOException e) {
            // It ended at an earlier command, and its answer says why.
            started.completeExceptionally(e);
        }
        return get(started, stall, "the pid namespace");
    }

    /**
     * Runs a program in the namespace, beside those that run.
     *
     * @param ahead how far its clocks, and those of its children, are ahead of this process's; null: not at all
     * @return its exit status, when it has ended
     */
    CompletableFuture<Integer> run(final Clocks ahead, final List<String> command) throws IOException {
        final int tag = tags++;
        final CompletableFuture<Integer> ran = new CompletableFuture<>();
        running.put(tag, ran);
        final List<String> fields = new ArrayList<>(List.of("run", Integer.toString(tag),
                ahead == null ? "-" : Long.toString(ahead.monotonic()),
                ahead == null ? "-" : Long.toString(ahead.boottime())));
        fields.addAll(command);
        send(fields.toArray(String[]::new));
        return ran;
    }

    CompletableFuture<Integer> ended(final long pid) {
        final CompletableFuture<Integer> future = ended.computeIfAbsent(pid, key -> new CompletableFuture<>());
        if (gone) {
            future.complete(KILLED);
        }
        return future;
    }

    void signal(final long pid, final int signal) throws IOException {
        send("kill", Long.toString(pid), Integer.toString(signal));
    }

    @Override
    public void close() {
        try {
            commands.close();
        } catch (final IOException e) {
            process.destroyForcibly(); // It does not read: it is gone, or will be.
        }
        try {
            if (!process.waitFor(END_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (final InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    private void answers() {
        String error = "it has ended";
        try (BufferedReader reader = process.inputReader(StandardCharsets.UTF_8)) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                final String[] field = line.split("\t", 3);
                switch (field[0]) {
                    case "started" -> started.complete(Long.parseLong(field[1]));
                    case "ran" -> running.remove(Integer.parseInt(field[1])).complete(Integer.parseInt(field[2]));
                    case "exit" -> ended(Long.parseLong(field[1])).complete(Integer.parseInt(field[2]));
                    case "clocks" -> {
                        if (!clocksTold) {
                            clocksTold = true;
                            System.err.println("shadowverbs: the restored processes will see that time has passed: their"
                                    + " clocks cannot go on from where they were: " + field[1]);
                        }
                    }
                    default -> {
                        error = field[field.length - 1];
                        fail(new IOException(error));
                    }
                }
            }
        } catch (final IOException e) {
            error = e.getMessage();
        }
        final IOException failure = new IOException(error);
        fail(failure);
        gone = true;
        ended.values().forEach(future -> future.complete(KILLED));
    }

    /** What has not been answered will not be. */
    private void fail(final IOException failure) {
        started.completeExceptionally(failure);
        running.values().forEach(future -> future.completeExceptionally(failure));
    }

    static <T> T get(final CompletableFuture<T> answer, final Stall stall, final String what)
            throws CheckpointException, InterruptedException {
        for (;;) {
            try {
                return answer.get(Stall.ASK_NANOS, TimeUnit.NANOSECONDS);
            } catch (final TimeoutException e) {
                if (stall.passed()) {
                    throw new CheckpointException(what + ": not done, and nothing has been read for " + stall.deadline(), e);
                }
            } catch (final ExecutionException e) {
                throw new CheckpointException(what + ": " + e.getCause().getMessage(), e.getCause());
            }
        }
    }
}
