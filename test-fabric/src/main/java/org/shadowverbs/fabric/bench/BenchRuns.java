// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** How {@code dataplane} is run, natively and under the preload: both on the software HCA's null mode. */
final class BenchRuns {
    static final Duration RUN_DEADLINE = Duration.ofSeconds(60);
    private static final Duration COMMAND_DEADLINE = Duration.ofSeconds(90);

    private final Path home;
    private final Path work;
    private final int processor;
    private final Map<String, String> nativeEnvironment;
    private Map<String, String> preloadedEnvironment;

    /**
     * @param home the distribution
     * @param work a folder for what is written meanwhile
     */
    BenchRuns(final Path home, final Path work, final int processor) {
        this.home = home;
        this.work = work;
        this.processor = processor;
        nativeEnvironment = new HashMap<>(System.getenv());
        nativeEnvironment.put("LD_LIBRARY_PATH", home.resolve("fabric").toString());
        nativeEnvironment.put("SV_HCA_FABRIC", work.resolve("fabric").toString());
        nativeEnvironment.put("SV_HCA_NULL", "1");
        nativeEnvironment.put("SV_HCA_NULL_RECV", "1");
        nativeEnvironment.put("SHADOWVERBS_RUN_DIR", work.resolve("run").toString());
        // A job of the caller's own is not to be joined, and the commands here say which coordinator they mean.
        nativeEnvironment.remove("SHADOWVERBS_COORD_HOST");
        nativeEnvironment.remove("SHADOWVERBS_COORD_PORT");
        nativeEnvironment.remove("LD_PRELOAD");
    }

    void requireParts() throws BenchException {
        for (final String part : new String[] {"fabric/libibverbs.so.1", "lib/libshadowverbs.so", "programs/dataplane",
            "bin/shadowverbs"}) {
            if (!Files.exists(home.resolve(part))) {
                throw new BenchException("the distribution has no " + part + ": build it again");
            }
        }
    }

    /**
     * Takes the environment that {@code launch} gives a program on the software HCA.
     *
     * @param port the coordinator's
     */
    void learnEnvironment(final int port) throws BenchException, InterruptedException {
        preloadedEnvironment = environmentOfLaunch(port, "--test-fabric");
    }

    /**
     * The environment that {@code launch} gives a program. Runs then start without {@code launch}, so that each costs a
     * JVM less; they have no agent, and need none.
     */
    Map<String, String> environmentOfLaunch(final int port, final String... options)
            throws BenchException, InterruptedException {
        final List<String> command = new ArrayList<>(List.of("launch", "-h", "127.0.0.1", "-p", Integer.toString(port)));
        command.addAll(List.of(options));
        command.addAll(List.of("--", "/usr/bin/env", "-0"));
        final String output = command("launch of env", command);
        final Map<String, String> launched = new HashMap<>(nativeEnvironment);
        for (final String variable : output.split("\0")) {
            final int end = variable.indexOf('=');
            if (end > 0) {
                launched.put(variable.substring(0, end), variable.substring(end + 1));
            }
        }
        launched.remove("SHADOWVERBS_AGENT");
        launched.remove("SHADOWVERBS_TREE");
        if (!launched.getOrDefault("LD_PRELOAD", "").contains("libshadowverbs.so")) {
            throw new BenchException("launch did not preload libshadowverbs.so; LD_PRELOAD is \""
                    + launched.get("LD_PRELOAD") + "\"");
        }
        return launched;
    }

    /** One native run; the values that it printed. */
    Map<String, Double> runNative(final BenchCase benchCase, final String... options)
            throws BenchException, InterruptedException {
        return run("native " + benchCase.name(), nativeEnvironment, benchCase, options);
    }

    /** One run under the preload. */
    Map<String, Double> runPreloaded(final BenchCase benchCase, final String... options)
            throws BenchException, InterruptedException {
        return run("preloaded " + benchCase.name(), preloadedEnvironment, benchCase, options);
    }

    private Map<String, Double> run(final String what, final Map<String, String> environment, final BenchCase benchCase,
            final String... options) throws BenchException, InterruptedException {
        final List<String> command = dataplane(benchCase.queuePairs(), benchCase.regions(), options);
        command.add(benchCase.program());
        final Map<String, Double> values;
        try (BenchProcess process = BenchProcess.start(work, what, environment, command)) {
            values = BenchProcess.values(process.finish(RUN_DEADLINE));
        }
        if (!values.containsKey("ns")) {
            throw new BenchException(what + " ended without a measurement");
        }
        return values;
    }

    /** The command line but for the case. */
    List<String> dataplane(final int queuePairs, final int regions, final String... options) {
        final List<String> command = new ArrayList<>(List.of(home.resolve("programs/dataplane").toString(),
                "-c", Integer.toString(processor), "-q", Integer.toString(queuePairs), "-m", Integer.toString(regions)));
        command.addAll(List.of(options));
        return command;
    }

    /** Starts a native program that goes on running. */
    BenchProcess startNative(final String what, final List<String> command) throws BenchException {
        return BenchProcess.start(work, what, nativeEnvironment, command);
    }

    /** Runs a command of ShadowVerbs to its end, and returns its output. */
    String command(final String what, final List<String> arguments) throws BenchException, InterruptedException {
        try (BenchProcess process = startCommand(what, arguments)) {
            return process.finish(COMMAND_DEADLINE);
        }
    }

    BenchProcess startCommand(final String what, final List<String> arguments) throws BenchException {
        final List<String> command = new ArrayList<>();
        command.add(home.resolve("bin/shadowverbs").toString());
        command.addAll(arguments);
        return BenchProcess.start(work, what, nativeEnvironment, command);
    }

    /** The path of one of the fabric's own programs. */
    String program(final String name) {
        return home.resolve("programs").resolve(name).toString();
    }

    Path work() {
        return work;
    }
}
