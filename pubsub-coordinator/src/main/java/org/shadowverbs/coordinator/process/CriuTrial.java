// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Has a CRIU save a process that sleeps, and bring it back. "criu check" only asks what the kernel has. Where a virtual machine lacks
 * the processor's breakpoints, CRIU before 4.2 passes that check, and no dump of its ever ends.
 */
final class CriuTrial {
    private static final String SLEEP_SECONDS = "300";
    private static final Duration ENDING = Duration.ofSeconds(20);

    private CriuTrial() {
    }

    /**
     * Makes the trial, as root.
     *
     * @param limit for the dump, and for the restore
     * @return what is wrong; empty: nothing
     */
    static String of(final Path criu, final Duration limit) {
        try {
            final Path images = Files.createTempDirectory("shadowverbs-trial-");
            try {
                return of(criu, limit, images);
            } finally {
                CriuFrozenTrees.remove(images);
            }
        } catch (final IOException e) {
            return "can't be tried: " + e.getMessage();
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            return "the trial was interrupted";
        }
    }

    private static String of(final Path criu, final Duration limit, final Path images) throws IOException, InterruptedException {
        // Of a session of its own, and with no descriptor of ours: else CRIU would have to be told of both.
        final Process sleeper = new ProcessBuilder("setsid", "sleep", SLEEP_SECONDS)
                .redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        final String pid = Long.toString(sleeper.pid());
        try {
            awaitSleep(sleeper);
            final String problem = run(criu, limit, images, "dump", List.of("-t", pid));
            if (!problem.isEmpty()) {
                return problem;
            }
            // CRIU makes it again with the same pid, of which nothing may be left.
            if (!sleeper.waitFor(ENDING.toSeconds(), TimeUnit.SECONDS)) {
                return "waited " + ENDING.toSeconds() + " s for the end of the process that it has saved";
            }
            return run(criu, limit, images, "restore", List.of("-d"));
        } finally {
            end(sleeper);
        }
    }

    /** Ends the one that was started, and the one that was brought back, which is no child of ours. */
    private static void end(final Process sleeper) throws IOException, InterruptedException {
        if (!sleeper.destroyForcibly().waitFor(ENDING.toSeconds(), TimeUnit.SECONDS)) {
            throw new IOException("waited " + ENDING.toSeconds() + " s for the end of the process that it was to save");
        }
        ProcessHandle.of(sleeper.pid()).filter(CriuTrial::sleeps).ifPresent(ProcessHandle::destroyForcibly);
    }

    /** Until setsid has become the sleeper. */
    private static void awaitSleep(final Process sleeper) throws IOException, InterruptedException {
        final long deadline = System.nanoTime() + ENDING.toNanos();
        while (!sleeps(sleeper.toHandle())) {
            if (!sleeper.isAlive()) {
                throw new IOException("setsid sleep ended with status " + sleeper.exitValue());
            }
            if (System.nanoTime() - deadline > 0) {
                throw new IOException("waited " + ENDING.toSeconds() + " s for setsid to run sleep");
            }
            TimeUnit.MILLISECONDS.sleep(1);
        }
    }

    private static boolean sleeps(final ProcessHandle process) {
        return process.info().command().orElse("").endsWith("/sleep")
                && List.of(process.info().arguments().orElse(new String[0])).equals(List.of(SLEEP_SECONDS));
    }

    private static String run(final Path criu, final Duration limit, final Path images, final String action, final List<String> options)
            throws IOException, InterruptedException {
        final List<String> command = new ArrayList<>(List.of(criu.toString(), action, "-D", images.toString(), "-o", CriuCommand.LOG));
        command.addAll(options);
        final CriuCommand.Result result = CriuCommand.run(command, limit);
        return switch (result.status()) {
            case 0 -> "";
            case -1 -> "its " + action + " of a process that sleeps was not done within " + limit.toSeconds() + " s";
            default -> "its " + action + " of a process that sleeps failed: "
                    + CriuCommand.reason(images.resolve(CriuCommand.LOG), result.output());
        };
    }
}
