// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.RemoteShell;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.JobSecret;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * Starts agents on other hosts: by srun in an allocation of Slurm's, whose step then lasts as long as the agent; by ssh elsewhere,
 * where the agent is a daemon. One at a time for each host.
 */
final class RemoteAgents {
    /** What an agent that is ready says, and the name by which the coordinator knows it. */
    static final String READY = "agent of job %s on host %s ready";
    private static final Pattern READY_LINE = Pattern.compile("agent of job \\S* on host (\\S+) ready");
    private static final int START_SECONDS = 60;

    private final AgentOptions options;
    private final EventLog log;
    private final Map<String, CompletableFuture<String>> starting = new HashMap<>();

    RemoteAgents(final AgentOptions options, final EventLog log) {
        this.options = options;
        this.log = log;
    }

    /**
     * Has one there, and waits until it is ready.
     *
     * @param host as whoever asks names it
     * @param coordinator the address at which that host reaches the coordinator
     * @param environment of the program that asks, as it was before its launch
     * @return the name of that host
     * @throws IOException when it does not start; the message says why, and how to start it by hand
     */
    String start(final String host, final String coordinator, final Map<String, String> environment)
            throws IOException, InterruptedException {
        final CompletableFuture<String> mine = new CompletableFuture<>();
        final CompletableFuture<String> other;
        synchronized (starting) {
            other = starting.putIfAbsent(host, mine);
        }
        if (other != null) {
            try {
                return other.get();
            } catch (ExecutionException e) {
                throw new IOException(e.getCause().getMessage(), e);
            }
        }
        try {
            final String name = startOne(host, coordinator, environment);
            mine.complete(name);
            return name;
        } catch (IOException | InterruptedException | RuntimeException e) {
            mine.completeExceptionally(e);
            throw e;
        } finally {
            synchronized (starting) {
                starting.remove(host);
            }
        }
    }

    private String startOne(final String host, final String coordinator, final Map<String, String> environment)
            throws IOException, InterruptedException {
        final boolean slurm = !environment.getOrDefault("SLURM_JOB_ID", "").isEmpty();
        final List<String> address = List.of("-h", coordinator, "-p", Integer.toString(options.coordinatorPort()));
        final String byHand = "start it there by: shadowverbs agent --daemon " + String.join(" ", address);
        final String what = "the agent on host " + host + ", started by " + (slurm ? "srun" : "ssh") + ",";
        final Path errors = options.runDirectory().resolve("agent-of-" + host.replace('/', '_') + ".err");
        PrivateFiles.makeEmpty(errors);
        final Process process = begin(host, address, slurm, environment, errors);
        final CompletableFuture<String> line = new CompletableFuture<>();
        Thread.ofPlatform().daemon().name("agent-of-" + host).start(() -> listen(process, host, line));
        try {
            final String name = line.get(START_SECONDS, TimeUnit.SECONDS);
            if (name != null) {
                return name;
            }
            final List<String> said = Files.readAllLines(errors, StandardCharsets.UTF_8).stream()
                    .filter(text -> !text.isBlank()).toList();
            throw new IOException(what + " did not start: " + (said.isEmpty() ? "it said nothing"
                    : said.getLast().replaceFirst("^shadowverbs: ", "")) + "; " + byHand);
        } catch (TimeoutException e) {
            process.destroy();
            throw new IOException(what + " was not ready within " + START_SECONDS + " s; " + byHand, e);
        } catch (ExecutionException e) {
            throw new IOException(what + " could not be waited for: " + e.getCause(), e);
        }
    }

    private Process begin(final String host, final List<String> address, final boolean slurm,
            final Map<String, String> environment, final Path errors) throws IOException {
        final String shadowverbs;
        try {
            shadowverbs = RemoteShell.shadowverbs().toString();
        } catch (CheckpointException e) {
            throw new IOException(e.getMessage(), e);
        }
        // By env(1), which looks in the PATH of whoever asks.
        final List<String> command = new ArrayList<>(List.of("/usr/bin/env"));
        if (slurm) {
            command.addAll(List.of("srun", "--nodes=1", "--ntasks=1", "--nodelist=" + host, "--overlap", "--cpu-bind=none",
                    "--mpi=none", "--export=ALL", "--input=none", "--chdir=/", shadowverbs, "agent"));
            command.addAll(address);
        } else {
            command.addAll(List.of("ssh", "-o", "BatchMode=yes", "--", host, "exec /bin/sh"));
        }
        log.add("starting an agent on host " + host + ": " + String.join(" ", command));
        final ProcessBuilder builder = new ProcessBuilder(command).redirectError(errors.toFile());
        if (slurm) {
            builder.redirectInput(ProcessBuilder.Redirect.from(new File("/dev/null")));
        }
        builder.environment().clear();
        builder.environment().putAll(environment);
        final Process process = builder.start();
        if (!slurm) {
            try (OutputStream script = process.getOutputStream()) {
                script.write(script(shadowverbs, address, environment).getBytes(StandardCharsets.UTF_8));
            } catch (IOException e) {
                log.add("ssh to " + host + " does not read its input: " + e.getMessage()); // and has said why
            }
        }
        return process;
    }

    /** By standard input, as everybody there sees arguments. */
    private static String script(final String shadowverbs, final List<String> address, final Map<String, String> environment) {
        final StringBuilder script = new StringBuilder();
        for (final String name : List.of(JobSecret.VARIABLE, "SHADOWVERBS_RUN_DIR")) {
            if (environment.containsKey(name)) {
                script.append(name).append('=').append(quoted(environment.get(name))).append("; export ").append(name).append('\n');
            }
        }
        script.append("exec ").append(quoted(shadowverbs)).append(" agent --daemon");
        address.forEach(word -> script.append(' ').append(quoted(word)));
        return script.append('\n').toString();
    }

    private static String quoted(final String word) {
        return "'" + word.replace("'", "'\\''") + "'";
    }

    /** Until it ends; what srun says later would else keep it waiting. */
    private void listen(final Process process, final String host, final CompletableFuture<String> line) {
        try (BufferedReader out = process.inputReader(StandardCharsets.UTF_8)) {
            for (String text = out.readLine(); text != null; text = out.readLine()) {
                final Matcher ready = READY_LINE.matcher(text);
                if (ready.matches()) {
                    line.complete(ready.group(1));
                }
            }
        } catch (IOException e) {
            log.add("from the agent on host " + host + ": " + e.getMessage());
        }
        line.complete(null);
    }
}
