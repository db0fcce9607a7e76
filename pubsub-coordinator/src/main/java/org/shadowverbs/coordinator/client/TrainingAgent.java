// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RankMessages.Answer;
import org.shadowverbs.coordinator.protocol.RankMessages.Checkpoint;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;
import org.shadowverbs.coordinator.protocol.RankMessages.Detached;
import org.shadowverbs.coordinator.protocol.RankMessages.Done;
import org.shadowverbs.coordinator.protocol.RankMessages.Found;
import org.shadowverbs.coordinator.protocol.RankMessages.Hello;
import org.shadowverbs.coordinator.protocol.RankMessages.Lookup;
import org.shadowverbs.coordinator.protocol.RankMessages.Publish;
import org.shadowverbs.coordinator.protocol.RankMessages.Shutdown;
import org.shadowverbs.coordinator.protocol.RankMessages.Welcome;

/**
 * An agent and a coordinator to the one rank that trains the AOT cache, so that this goes through whole checkpoints and restarts as
 * a rank of a job does. No image is made: the verdict comes at once.
 */
public final class TrainingAgent implements Runnable, AutoCloseable {
    private static final String JOB = "training";
    private static final int DEADLINE_SECONDS = 60;

    private final Path socket;
    private final Path verdictPipe;
    private final ServerSocketChannel server;
    private final Map<String, byte[]> published = new HashMap<String, byte[]>();
    private final CountDownLatch linked = new CountDownLatch(1);
    private volatile CountDownLatch done;
    private volatile FrameChannel rank;
    private volatile long epoch;
    private volatile Verdict verdict;

    /**
     * Listens.
     *
     * @param verdictPipe a FIFO
     */
    public TrainingAgent(final Path socket, final Path verdictPipe) throws IOException {
        this.socket = socket;
        this.verdictPipe = verdictPipe;
        server = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(socket));
        final Thread thread = new Thread(null, this, "training-agent");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void run() {
        try {
            for (;;) {
                serve(new FrameChannel(server.accept()));
            }
        } catch (IOException e) {
            // Closed, or the rank has gone: who waits for it says so.
            return;
        }
    }

    private void serve(final FrameChannel channel) throws IOException {
        final Hello hello = (Hello) channel.read();
        final boolean fresh = hello.state() == RankHello.State.FRESH.ordinal();
        channel.write(new Welcome(0, JOB, fresh ? 0 : epoch, 0, DEADLINE_SECONDS, verdictPipe.toString()));
        rank = channel;
        linked.countDown();
        for (;;) {
            final Message message = channel.read();
            if (message instanceof Contribute c) {
                published.putAll(c.publish());
                channel.write(new Answer(c.epoch(), c.attempt(), c.phase(), c.round(), found(c.want()), c.agree(), 1,
                        List.of(0, 0), List.of()));
            } else if (message instanceof Lookup l) {
                channel.write(new Found(l.id(), found(l.keys())));
            } else if (message instanceof Publish p) {
                published.putAll(p.values());
            } else if (message instanceof Detached) {
                tell();
                return;
            } else if (message instanceof Done) {
                done.countDown();
            }
        }
    }

    private Map<String, byte[]> found(final Set<String> keys) {
        final Map<String, byte[]> found = new HashMap<String, byte[]>(published);
        found.keySet().retainAll(keys);
        return found;
    }

    private void tell() throws IOException {
        try (RandomAccessFile pipe = new RandomAccessFile(verdictPipe.toFile(), "rw")) {
            pipe.write(verdict.line().getBytes(StandardCharsets.UTF_8));
        }
    }

    /**
     * Has the rank make a checkpoint after which it runs on, its devices as they were.
     *
     * @throws IOException it has not come to an end within the deadline
     */
    public void checkpoint(final Duration deadline) throws IOException, InterruptedException {
        checkpoint(deadline, Verdict.Outcome.RESUMED, Verdict.SAME_BACKEND);
    }

    /**
     * Has the rank make a checkpoint, and go on as one that was restored from it.
     *
     * @param backend that it has from then on: see {@link BackendName}
     * @throws IOException it has not come to an end within the deadline
     */
    public void restart(final String backend, final Duration deadline) throws IOException, InterruptedException {
        checkpoint(deadline, Verdict.Outcome.RESTORED, backend);
    }

    private void checkpoint(final Duration deadline, final Verdict.Outcome outcome, final String backend)
            throws IOException, InterruptedException {
        if (!linked.await(deadline.toMillis(), TimeUnit.MILLISECONDS)) {
            throw new IOException("the rank has not come within " + deadline.toSeconds() + " s");
        }
        done = new CountDownLatch(1);
        epoch++;
        verdict = new Verdict(outcome, epoch, backend, socket, "", "", "");
        final boolean detached = outcome == Verdict.Outcome.RESTORED;
        rank.write(new Checkpoint(epoch, DEADLINE_SECONDS, Map.of(CheckpointRequest.DETACHED, Boolean.toString(detached))));
        if (!done.await(deadline.toMillis(), TimeUnit.MILLISECONDS)) {
            throw new IOException("the rank is not through its checkpoint within " + deadline.toSeconds() + " s");
        }
    }

    /** The rank makes no link any more. */
    @Override
    public void close() throws IOException {
        server.close();
        if (rank != null) {
            try {
                rank.write(new Shutdown("the training is over"));
            } catch (IOException e) {
                return; // it has gone already
            }
        }
    }
}
