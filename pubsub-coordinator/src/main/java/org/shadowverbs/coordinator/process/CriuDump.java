// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.shadowverbs.coordinator.system.Libc;

/**
 * A CRIU that saves a tree when it is told. Until then it has asked the kernel what it must know, and not looked at the tree: it is
 * started while the tree's programs run, so that they do not stand still for that.
 */
final class CriuDump implements AutoCloseable {
    private static final long END_SECONDS = 20;
    /** One that takes longer is none that the checkpoint should wait for. */
    private static final long READY_NANOS = TimeUnit.SECONDS.toNanos(2);
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
    /** One that has not given up by then never will. */
    private static final long GIVE_UP_NANOS = TimeUnit.SECONDS.toNanos(5);

    private final List<String> command;
    /** Null: the tree stands still by itself. */
    private final HeldDump hold;
    private final CriuCommand.Running running;
    private boolean told;

    private CriuDump(final List<String> command, final HeldDump hold, final CriuCommand.Running running) {
        this.command = command;
        this.hold = hold;
        this.running = running;
    }

    /** @param hold null: the tree will stand still by itself */
    static CriuDump start(final List<String> command, final HeldDump hold) throws IOException {
        return new CriuDump(command, hold, new CriuCommand.Running(command, Map.of(CriuCommand.STANDBY, "1")));
    }

    /** Waits until it stands by: what it does before would take processors from programs that are about to be stopped. */
    void awaitReady() throws IOException {
        final long end = System.nanoTime() + READY_NANOS;
        while (!running.hasSpoken() && running.process().isAlive() && System.nanoTime() - end < 0) {
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    /** Whether it waits, and will do what that command would. It may take connections into an image that has none. */
    boolean does(final List<String> wanted) {
        if (!running.process().isAlive()) {
            return false;
        }
        final List<String> without = new ArrayList<>(command);
        without.remove(CriuCommand.CONNECTED);
        return command.equals(wanted) || without.equals(wanted);
    }

    /** Whether the image goes to that folder. */
    boolean writesTo(final Path folder) {
        return command.contains(folder.toString());
    }

    /** Null: the tree stands still by itself. */
    HeldDump hold() {
        return hold;
    }

    /** Where it writes its log. */
    Path log(final Path folder) {
        return (hold == null ? folder : hold.work()).resolve(CriuCommand.LOG);
    }

    /** @return status -1: it did nothing any more, and was ended; else that of CRIU, 0 when a held one has saved the tree */
    CriuCommand.Result save(final Stall stall) throws IOException, InterruptedException {
        told = true;
        boolean done = false;
        try {
            tell();
            if (hold == null) {
                done = running.ends(stall);
                return running.result(done);
            }
            final CriuCommand.Result result = hold.save(running, stall);
            done = result.status() >= 0;
            return result;
        } finally {
            if (!done) {
                giveUp();
            }
        }
    }

    private void tell() {
        try (OutputStream word = running.process().getOutputStream()) {
            word.write('\n');
        } catch (final IOException e) {
            return; // It has ended, and has said why.
        }
    }

    /**
     * Has it give up in the midst: from now on it can write nothing, so it puts the programs back as they were, and ends. One that is
     * killed leaves them where it has them run code of its own, where they die of SIGTRAP. That is for one that does not end.
     */
    private void giveUp() throws IOException {
        final boolean interrupted = Thread.interrupted();
        try {
            // The pid of one that has ended may be another's.
            CriuCommand.family(running.process().toHandle()).stream().filter(ProcessHandle::isAlive)
                    .forEach(process -> denyWrites(process.pid()));
            if (hold != null) {
                hold.release();
            }
            final long end = System.nanoTime() + GIVE_UP_NANOS;
            while (running.process().isAlive() && System.nanoTime() - end < 0) {
                LockSupport.parkNanos(POLL_NANOS);
            }
            if (running.process().isAlive()) {
                CriuCommand.end(running.process().toHandle());
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static void denyWrites(final long pid) {
        try {
            Libc.denyFileWrites(pid);
        } catch (final IOException e) {
            System.getLogger(CriuDump.class.getName()).log(System.Logger.Level.WARNING, "{0}", e.getMessage());
        }
    }

    /** Lets a tree that it holds go on. One that was not told ends, and has saved nothing. */
    @Override
    public void close() throws IOException {
        try (running) {
            if (!told) {
                running.process().getOutputStream().close();
            }
            if (hold != null) {
                hold.release();
            }
            if (!running.process().waitFor(END_SECONDS, TimeUnit.SECONDS)) {
                throw new IOException("CRIU (pid " + running.process().pid() + ") has not ended within " + END_SECONDS + " s");
            }
            if (hold != null) {
                hold.remove();
            }
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while CRIU (pid " + running.process().pid() + ") ended", e);
        }
    }
}
