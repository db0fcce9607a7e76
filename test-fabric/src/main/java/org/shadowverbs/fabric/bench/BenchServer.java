// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;

/**
 * The folder of a {@code dataplane} that stays and measures when asked (its option {@code -w}). The process behind it
 * may be another one after a restart; the folder is all that it needs.
 */
final class BenchServer {
    private static final Duration DEADLINE = Duration.ofSeconds(30);

    private final Path folder;
    private final String who;
    private int requests;

    BenchServer(final Path work, final String who) throws BenchException {
        this.who = who;
        try {
            // Of its own: what is left of another program of that name would be taken for its requests and results.
            folder = Files.createTempDirectory(work, who.replace(' ', '-') + ".requests-");
        } catch (IOException e) {
            throw new BenchException(e.toString());
        }
    }

    /** Has the case measured once. */
    double measure(final BenchProcess process, final BenchCase benchCase) throws BenchException, InterruptedException {
        put(benchCase.program() + " " + benchCase.queuePairs() + " " + benchCase.regions());
        final Path result = folder.resolve(requests + ".result");
        await(process, () -> Files.exists(result), who + "'s result of " + benchCase.name());
        try {
            return BenchProcess.values(Files.readString(result)).get("ns");
        } catch (IOException e) {
            throw new BenchException(e.toString());
        }
    }

    /** Tells the process to end. */
    void end() throws BenchException {
        put("end");
    }

    List<String> options() {
        return List.of("-w", folder.toString());
    }

    /** Waits until the program has said that it is set up. */
    void awaitReady(final BenchProcess process) throws BenchException, InterruptedException {
        await(process, () -> {
            try {
                return process.output().endsWith("ready\n");
            } catch (BenchException e) {
                return false;
            }
        }, who + " to be set up");
    }

    private void put(final String text) throws BenchException {
        requests++;
        try {
            final Path part = folder.resolve("part");
            Files.writeString(part, text + "\n");
            Files.move(part, folder.resolve(Integer.toString(requests)), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException e) {
            throw new BenchException(e.toString());
        }
    }

    private static void await(final BenchProcess process, final BooleanSupplier condition, final String what)
            throws BenchException, InterruptedException {
        final long end = System.nanoTime() + DEADLINE.toNanos();
        while (!condition.getAsBoolean()) {
            if (!process.isRunning()) {
                throw new BenchException("waited for " + what + ", but it ended" + process.lastWords());
            }
            if (System.nanoTime() > end) {
                throw new BenchException("waited " + DEADLINE.toSeconds() + " s for " + what + process.lastWords());
            }
            Thread.sleep(2);
        }
    }
}
