// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import java.util.function.Predicate;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Output;
import org.shadowverbs.coordinator.system.Libc;

/**
 * Takes what restored programs write, on a host without a launching command, to one on another host, by way of the coordinator. One
 * piece at a time is under way from a host, so that who writes much waits as at a pipe.
 */
final class FarOutput implements AutoCloseable {
    private static final int PIECE = 32 << 10;
    private static final Duration PAUSE = Duration.ofMillis(20);

    private final Path runDirectory;
    private final EventLog log;
    private final Predicate<Message> coordinator;
    private final Semaphore mayBeSent = new Semaphore(1);
    /** By the number of the descriptor that it is for. */
    private final Map<Integer, Pipe> pipes = new TreeMap<>();
    private volatile boolean closed;

    /** A FIFO and who reads it. */
    private static final class Pipe {
        final Path path;
        /** Open for both, so that programs never wait to open it, and there is no end. */
        final RandomAccessFile end;
        /** How often all that was in it had been sent. */
        volatile long empty;

        Pipe(final Path path) throws IOException {
            Files.deleteIfExists(path);
            Libc.mkfifo(path, 0600);
            this.path = path;
            end = new RandomAccessFile(path.toFile(), "rw");
        }
    }

    /** @param coordinator is sent messages; returns whether there is one */
    FarOutput(final Path runDirectory, final EventLog log, final Predicate<Message> coordinator) {
        this.runDirectory = runDirectory;
        this.log = log;
        this.coordinator = coordinator;
    }

    /** What is to be opened in place of the descriptor of that number. */
    synchronized Path of(final int number) {
        try {
            Pipe pipe = pipes.get(number);
            if (pipe == null) {
                pipe = new Pipe(runDirectory.resolve("output-" + number));
                pipes.put(number, pipe);
                final Pipe read = pipe;
                Thread.ofPlatform().daemon().name("output-" + number).start(() -> read(number, read));
            }
            return pipe.path;
        } catch (IOException e) {
            log.add("what programs write here is lost: " + e.getMessage());
            return Path.of("/dev/null");
        }
    }

    /** Java cannot wait for a FIFO and for the wish to know that it is empty at once: so it is looked at. */
    private void read(final int number, final Pipe pipe) {
        final byte[] piece = new byte[PIECE];
        try {
            final FileInputStream in = new FileInputStream(pipe.end.getFD());
            while (!closed) {
                final int there = in.available();
                if (there == 0) {
                    pipe.empty++;
                    Thread.sleep(PAUSE);
                    continue;
                }
                final byte[] data = Arrays.copyOf(piece, in.read(piece, 0, Math.min(there, PIECE)));
                mayBeSent.acquire();
                while (!coordinator.test(new Output((byte) number, data)) && !closed) {
                    Thread.sleep(PAUSE); // the next coordinator takes it
                }
            }
        } catch (IOException e) {
            log.add("what programs write here is lost: " + e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The last piece has arrived, or will not. */
    void taken() {
        mayBeSent.drainPermits();
        mayBeSent.release();
    }

    /** Waits until all has been sent that was written before, for at most so long. */
    void flush(final Duration time) throws InterruptedException {
        final Map<Integer, Pipe> all;
        synchronized (this) {
            all = Map.copyOf(pipes);
        }
        final long end = System.nanoTime() + time.toNanos();
        for (final Pipe pipe : all.values()) {
            final long before = pipe.empty;
            // The look that goes on may have begun before.
            while (pipe.empty < before + 2 && System.nanoTime() - end < 0) {
                Thread.sleep(PAUSE);
            }
        }
    }

    @Override
    public synchronized void close() throws IOException {
        closed = true;
        for (final Pipe pipe : pipes.values()) {
            Files.deleteIfExists(pipe.path);
        }
        pipes.clear();
    }
}
