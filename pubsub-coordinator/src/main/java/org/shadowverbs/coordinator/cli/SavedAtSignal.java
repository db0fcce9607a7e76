// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;

/**
 * Has a job saved and ended when this process is signalled: by SIGUSR1, as early as time allows, or by SIGTERM, after which there is
 * little time.
 */
final class SavedAtSignal {
    /** Slurm's SIGKILL comes 30 s after its SIGTERM (KillWait). */
    private static final Duration TERM_PATIENCE = Duration.ofSeconds(20);
    private static final Duration PAUSE = Duration.ofSeconds(2);
    private static final Duration END = Duration.ofSeconds(60);

    private final Path directory;
    private final CountDownLatch guarded = new CountDownLatch(1);
    private Process program;
    private Address address;
    private Thread saving;
    /** When the program is to be ended, saved or not; 0: when it is saved. */
    private volatile long end;
    private volatile String saved;

    /** @param directory of the checkpoints */
    SavedAtSignal(final Path directory) throws CommandException {
        this.directory = directory;
        Signals.handle("USR1", number -> begin(false));
        Signals.handle("TERM", number -> begin(true));
        // These are the program's, which a terminal sends them to as well.
        Signals.handle("INT", number -> { });
        Signals.handle("HUP", number -> { });
    }

    /** What is to be saved: what a signal has asked for before is done now. */
    void guard(final Process started, final Address coordinator) {
        program = started;
        address = coordinator;
        guarded.countDown();
    }

    /** Waits until what a signal has begun is done. */
    void await() throws InterruptedException {
        final Thread thread;
        synchronized (this) {
            thread = saving;
        }
        if (thread != null) {
            thread.join();
        }
    }

    /** The checkpoint that has ended the job; null when there is none. */
    String saved() {
        return saved;
    }

    private synchronized void begin(final boolean hurry) {
        if (hurry && end == 0) {
            end = System.nanoTime() + TERM_PATIENCE.toNanos();
        }
        if (saving == null) {
            saving = Thread.ofPlatform().daemon().name("save").start(this::save);
        }
    }

    private void save() {
        try {
            guarded.await();
            String before = "";
            while (program.isAlive()) {
                final String problem = checkpoint();
                if (problem.isEmpty()) {
                    if (!program.waitFor(END.toSeconds(), TimeUnit.SECONDS)) {
                        program.destroy();
                    }
                    return;
                }
                if (!program.isAlive()) {
                    return;
                }
                if (!problem.equals(before)) {
                    JobCommand.say(problem);
                    before = problem;
                }
                if (end != 0 && System.nanoTime() - end > 0) {
                    JobCommand.say("the program is ended without a new checkpoint; " + (Files.exists(directory.resolve("latest"))
                            ? "the last one is as good as before" : "there is none"));
                    program.destroy();
                    return;
                }
                program.waitFor(PAUSE.toMillis(), TimeUnit.MILLISECONDS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Returns why there is none; empty when the job is saved, and ended. */
    private String checkpoint() {
        try {
            final Result result = CoordinatorClient.call(address, "checkpoint", Map.of("kill", "true"), 0, line -> { });
            if (result.status() == 0 || result.text().startsWith("/")) {
                saved = result.text();
                return "";
            }
            return result.text();
        } catch (CoordinatorClient.Unreachable | CommandException e) {
            return e.getMessage();
        }
    }
}
