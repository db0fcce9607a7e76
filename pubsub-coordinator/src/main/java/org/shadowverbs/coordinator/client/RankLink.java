// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Abort;
import org.shadowverbs.coordinator.protocol.RankMessages.Answer;
import org.shadowverbs.coordinator.protocol.RankMessages.AskCheckpoint;
import org.shadowverbs.coordinator.protocol.RankMessages.AskWork;
import org.shadowverbs.coordinator.protocol.RankMessages.Asked;
import org.shadowverbs.coordinator.protocol.RankMessages.Check;
import org.shadowverbs.coordinator.protocol.RankMessages.Checked;
import org.shadowverbs.coordinator.protocol.RankMessages.Checkpoint;
import org.shadowverbs.coordinator.protocol.RankMessages.Contribute;
import org.shadowverbs.coordinator.protocol.RankMessages.Detached;
import org.shadowverbs.coordinator.protocol.RankMessages.Done;
import org.shadowverbs.coordinator.protocol.RankMessages.ExitMessages;
import org.shadowverbs.coordinator.protocol.RankMessages.Fail;
import org.shadowverbs.coordinator.protocol.RankMessages.Found;
import org.shadowverbs.coordinator.protocol.RankMessages.GiveBack;
import org.shadowverbs.coordinator.protocol.RankMessages.Goodbye;
import org.shadowverbs.coordinator.protocol.RankMessages.Held;
import org.shadowverbs.coordinator.protocol.RankMessages.Hello;
import org.shadowverbs.coordinator.protocol.RankMessages.Hold;
import org.shadowverbs.coordinator.protocol.RankMessages.Lookup;
import org.shadowverbs.coordinator.protocol.RankMessages.Notified;
import org.shadowverbs.coordinator.protocol.RankMessages.Notify;
import org.shadowverbs.coordinator.protocol.RankMessages.Peer;
import org.shadowverbs.coordinator.protocol.RankMessages.Progress;
import org.shadowverbs.coordinator.protocol.RankMessages.Publish;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;
import org.shadowverbs.coordinator.protocol.RankMessages.Welcome;
import org.shadowverbs.coordinator.protocol.RankMessages.Work;

/**
 * A rank's link to its agent and through it to the coordinator. The checkpoint thread calls {@link #next} and
 * {@link #exchange}, and has descriptors held and given back; all that only sends or asks may be called by any thread.
 *
 * <p>What sends throws an IOException when the link is broken, what waits for an answer a {@link LinkLostException} when that
 * is so or the deadline passes.
 */
public final class RankLink implements AutoCloseable {
    /** Begins the keys of what is published outside of exchanges, and is of no use when the epoch that goes on is over. */
    public static final String OF_EPOCH = "of-epoch/";

    /** The coordinator answers within its own deadline; past it by this much, the link counts as lost. */
    private static final int GRACE_SECONDS = 15;

    private final FrameChannel channel;
    private final Welcome welcome;
    private final RankMessageListener listener;
    private final Thread reader;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();

    private final ArrayDeque<Command> commands = new ArrayDeque<>();
    private final Map<Integer, Map<String, byte[]>> found = new HashMap<>();
    private Answer answer;
    private Abort abort;
    private Held held;
    private String lost;
    private int attempt;
    /** The epoch whose attempt it is. */
    private long attemptOf;
    private int lookups;
    private int deadlineSeconds;

    private RankLink(final FrameChannel channel, final Welcome welcome, final RankMessageListener listener) {
        this.channel = channel;
        this.welcome = welcome;
        this.listener = listener;
        this.attempt = welcome.attempt();
        this.attemptOf = welcome.epoch();
        this.deadlineSeconds = welcome.deadlineSeconds();
        reader = new Thread(null, this::readLoop, "shadowverbs-link", 256 << 10);
        reader.setDaemon(true);
        reader.start();
    }

    /**
     * Connects to the agent and waits until the coordinator has given this rank its number. An agent that is not there
     * yet is tried again until the deadline.
     *
     * @param listener of what other ranks tell this one
     * @throws IOException when the agent refuses (the message is its reason), or the deadline passes
     */
    public static RankLink connect(final Path socket, final RankHello hello, final Duration deadline,
            final RankMessageListener listener) throws IOException {
        final long end = System.nanoTime() + deadline.toNanos();
        long pause = 5;
        for (;;) {
            final FrameChannel channel;
            try {
                channel = FrameChannel.connect(socket);
            } catch (IOException e) {
                final long left = (end - System.nanoTime()) / 1_000_000;
                if (left <= 0) {
                    throw new LinkLostException("no agent answers at " + socket + " within " + deadline.toMillis()
                            + " ms: " + e.getMessage());
                }
                pauseMillis(Math.min(pause, left));
                pause = Math.min(200, pause * 2);
                continue;
            }
            return greet(channel, socket, hello, end, deadline, listener);
        }
    }

    /** Who breaks the connection refuses nothing: it may be an agent that was killed, and another one comes. */
    private static Message ask(final FrameChannel channel, final Path socket, final Hello hello) throws IOException {
        try {
            channel.write(hello);
            return channel.read();
        } catch (java.nio.channels.ClosedChannelException | ProtocolException e) {
            throw e;
        } catch (IOException e) {
            throw new LinkLostException("the agent at " + socket + " closed the connection");
        }
    }

    private static RankLink greet(final FrameChannel channel, final Path socket, final RankHello hello, final long end,
            final Duration deadline, final RankMessageListener listener) throws IOException {
        // A read of a Unix socket has no time-out of its own: closing the channel ends it.
        final Thread self = Thread.currentThread();
        final Thread guard = new Thread(null, () -> {
            try {
                final long left = Math.max(1, (end - System.nanoTime()) / 1_000_000);
                if (!self.isInterrupted()) {
                    Thread.sleep(left);
                }
                channel.close();
            } catch (InterruptedException e) {
                return;
            }
        }, "shadowverbs-greet", 128 << 10);
        guard.setDaemon(true);
        guard.start();
        boolean welcomed = false;
        try {
            final String secret = System.getenv("SHADOWVERBS_SECRET");
            final Message message = ask(channel, socket, new Hello(FrameType.VERSION, secret == null ? "" : secret,
                    hello.uid(), hello.pid(), hello.treeRootPid(), hello.program(), hello.epoch(),
                    (byte) hello.state().ordinal(), hello.writes()));
            if (message instanceof Refused refused) {
                throw new IOException(refused.reason());
            }
            if (!(message instanceof Welcome welcome)) {
                throw new LinkLostException("the agent at " + socket + " answered hello with message type "
                        + message.type());
            }
            guard.interrupt();
            welcomed = true;
            return new RankLink(channel, welcome, listener);
        } catch (java.nio.channels.ClosedChannelException e) {
            throw new LinkLostException("the agent at " + socket + " gave no rank number within "
                    + deadline.toMillis() + " ms (is its coordinator running?)");
        } finally {
            guard.interrupt();
            if (!welcomed) {
                channel.close();
            }
        }
    }

    /** This rank's number in the job; the same after reattachment and restart. */
    public int rank() {
        return welcome.rank();
    }

    /** The job's name. */
    public String job() {
        return welcome.job();
    }

    /** The epoch that is going on (for a rank that reattaches), or the last one; 0 when there was none. */
    public long epoch() {
        return welcome.epoch();
    }

    /** How often the epoch that is going on has begun anew: the same for all ranks in one of its phases. */
    public int attempt() {
        lock.lock();
        try {
            return attempt;
        } finally {
            lock.unlock();
        }
    }

    /**
     * The FIFO that the verdict of a checkpoint comes through. To be opened for reading before DETACH, with O_NONBLOCK
     * (the agent has its end open already), then set to blocking, and kept open over the image.
     */
    public Path verdictPipe() {
        return Path.of(welcome.verdictPipe());
    }

    /** Blocks until there is something to do. After LinkLost or Shutdown the link is of no more use. */
    public Command next() throws InterruptedException {
        lock.lockInterruptibly();
        try {
            while (commands.isEmpty()) {
                if (lost != null) {
                    return new LinkLost(lost);
                }
                changed.await();
            }
            final Command command = commands.remove();
            if (command instanceof CheckpointRequest request) {
                deadlineSeconds = request.deadlineSeconds();
            }
            return command;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Barrier and publish/subscribe in one: answered when every live rank of the epoch has contributed to this phase
     * and round.
     *
     * @throws CheckpointAborted when the checkpoint is given up, by this call or before it
     * @throws LinkLostException when the agent is gone
     */
    public Reply exchange(final long epoch, final Phase phase, final int round, final Contribution contribution)
            throws CheckpointAborted, IOException {
        lock.lock();
        try {
            throwIfAborted(epoch, phase);
            answer = null;
        } finally {
            lock.unlock();
        }
        send(new Contribute(epoch, attempt, (byte) phase.ordinal(), round, contribution.publish(),
                contribution.want(), contribution.agree(), contribution.note()));
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos((long) deadlineSeconds + GRACE_SECONDS);
        lock.lock();
        try {
            while (!answers(epoch, phase, round)) {
                throwIfAborted(epoch, phase);
                if (lost != null) {
                    throw new LinkLostException(lost);
                }
                final long left = end - System.nanoTime();
                if (left <= 0) {
                    throw new LinkLostException("no answer from the coordinator to " + phase + " of epoch " + epoch
                            + " within " + (deadlineSeconds + GRACE_SECONDS) + " s");
                }
                awaitNanos(left);
            }
            final Answer a = answer;
            answer = null;
            return new Reply(a.found(), a.unanimous(), a.ranks(), a.runs(), a.departed());
        } finally {
            lock.unlock();
        }
    }

    private boolean answers(final long epoch, final Phase phase, final int round) {
        return answer != null && answer.epoch() == epoch && answer.attempt() == attempt
                && answer.phase() == phase.ordinal() && answer.round() == round;
    }

    /** An abort ends the exchange it comes into, once; after it, with reattach, the phases start anew. */
    private void throwIfAborted(final long epoch, final Phase phase) throws CheckpointAborted {
        if (abort == null || abort.epoch() != epoch) {
            return;
        }
        final Abort a = abort;
        abort = null;
        attempt = a.attempt();
        throw new CheckpointAborted(epoch, a.reattach(), a.reason());
    }

    /** Whether the epoch's checkpoint was given up: for long work between two exchanges. The next exchange throws. */
    public boolean aborted(final long epoch) {
        lock.lock();
        try {
            return abort != null && abort.epoch() == epoch;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Has the agent take a socket of this process, and hold it with the descriptors in it until {@link #giveBack}.
     *
     * @throws IOException when it can't, or does not answer
     */
    public void hold(final int socket, final Duration deadline) throws IOException {
        ask(new Hold(socket), deadline);
    }

    /** Has the agent send the socket that it holds through another one. Errors are those of {@link #hold}. */
    public void giveBack(final int socket, final Duration deadline) throws IOException {
        ask(new GiveBack(socket), deadline);
    }

    private void ask(final Message question, final Duration deadline) throws IOException {
        lock.lock();
        try {
            held = null;
        } finally {
            lock.unlock();
        }
        send(question);
        final long end = System.nanoTime() + deadline.toNanos();
        lock.lock();
        try {
            while (held == null) {
                if (lost != null) {
                    throw new LinkLostException(lost);
                }
                final long left = end - System.nanoTime();
                if (left <= 0) {
                    throw new LinkLostException("the agent did not take or give back descriptors within "
                            + deadline.toMillis() + " ms");
                }
                awaitNanos(left);
            }
            if (!held.problem().isEmpty()) {
                throw new IOException(held.problem());
            }
        } finally {
            lock.unlock();
        }
    }

    /** The real objects are gone and the process can be saved. To be followed by {@link #close}. */
    public void detached(final long epoch) throws IOException {
        send(new Detached(epoch));
    }

    /**
     * The gate is open again: after REPLAYED, or after an abort without reattachment.
     *
     * @param openNanos for how long, in nanoseconds
     */
    public void done(final long epoch, final long openNanos) throws IOException {
        send(new Done(epoch, openNanos));
    }

    /** This rank can't go on with the checkpoint: it is given up for all, with this message. */
    public void fail(final long epoch, final Phase phase, final String message) throws IOException {
        send(new Fail(epoch, (byte) phase.ordinal(), message));
    }

    /** Says what would become of a checkpoint. */
    public void answer(final CheckQuestion question, final CheckAnswer a) throws IOException {
        send(new Checked(question.id(), a.problems(), a.own(), a.peers().entrySet().stream()
                .map(peer -> new Peer(peer.getKey(), peer.getValue())).toList(), a.listener()));
    }

    /** Says how much work the application has done, by a number that changes with it. */
    public void answer(final WorkQuestion question, final long work) throws IOException {
        send(new Work(question.id(), work));
    }

    /**
     * The program wants a checkpoint.
     *
     * @param call by this number it is answered
     * @param processes how many ask together; 0: this one by itself
     * @param epoch the last that this rank has gone through
     * @param written the one in whose image it is in that call; 0: there is none
     */
    public void askCheckpoint(final long call, final int processes, final long epoch, final long written) throws IOException {
        send(new AskCheckpoint(call, processes, epoch, written));
    }

    /**
     * For the message of the phase's deadline, and for status.
     *
     * @param done how much of the phase's work, in units of the rank's choice, which nobody is shown so far
     * @param total how much it is in all
     * @param waitingFor object and peer that this rank waits for now, or empty
     */
    public void progress(final long epoch, final Phase phase, final long done, final long total,
            final String waitingFor) throws IOException {
        send(new Progress(epoch, (byte) phase.ordinal(), done, total, waitingFor));
    }

    /** The process ends normally. A link that breaks without this is a death. */
    public void goodbye(final int exitStatus) throws IOException {
        send(new Goodbye(exitStatus));
    }

    /** Publishes outside of exchanges: until the job ends, but for {@link #OF_EPOCH} and {@link OwnKey}. */
    public void publish(final Map<String, byte[]> values) throws IOException {
        send(new Publish(values));
    }

    /** Sends a rank bytes, which its {@link RankMessageListener} gets; not if its process has ended or has no link. */
    public void tell(final int rank, final byte[] what) throws IOException {
        send(new Notify(rank, what));
    }

    /** What ranks, one of each index, are to be told when this process has ended, in place of what it has said before. */
    public void leaveExitMessages(final List<Integer> ranks, final List<byte[]> what) throws IOException {
        final List<Notify> messages = new ArrayList<>(ranks.size());
        for (int i = 0; i < ranks.size(); i++) {
            messages.add(new Notify(ranks.get(i), what.get(i)));
        }
        send(new ExitMessages(messages));
    }

    /** The values of those keys that have been published; the others are not in the answer. */
    public Map<String, byte[]> lookup(final Set<String> keys, final Duration deadline) throws IOException {
        return lookup(keys, deadline, "no answer to a lookup of " + keys.size() + " keys");
    }

    /** Waits for a sign of life of the coordinator: an agent may have none, and what it is to pass on is lost then. */
    public void awaitCoordinator(final Duration deadline) throws IOException {
        lookup(Set.of(), deadline, "no sign of life of the coordinator");
    }

    private Map<String, byte[]> lookup(final Set<String> keys, final Duration deadline, final String late) throws IOException {
        final int id;
        lock.lock();
        try {
            id = ++lookups;
            found.put(id, null);
        } finally {
            lock.unlock();
        }
        send(new Lookup(id, keys));
        final long end = System.nanoTime() + deadline.toNanos();
        lock.lock();
        try {
            while (found.get(id) == null) {
                if (lost != null) {
                    throw new LinkLostException(lost);
                }
                final long left = end - System.nanoTime();
                if (left <= 0) {
                    throw new LinkLostException(late + " within " + deadline.toMillis() + " ms");
                }
                awaitNanos(left);
            }
            return found.get(id);
        } finally {
            found.remove(id);
            lock.unlock();
        }
    }

    private void awaitNanos(final long nanos) throws IOException {
        try {
            changed.awaitNanos(nanos);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LinkLostException("interrupted while waiting for the coordinator");
        }
    }

    private void send(final Message message) throws IOException {
        try {
            channel.write(message);
        } catch (IOException e) {
            throw new LinkLostException("the agent is gone: " + e.getMessage());
        }
    }

    private void readLoop() {
        String why;
        try {
            for (;;) {
                final Message message = channel.read();
                if (message instanceof Notified notified) {
                    listener.hear(notified.from(), notified.what());
                } else {
                    take(message);
                }
            }
        } catch (EOFException e) {
            why = "the agent closed the connection";
        } catch (IOException e) {
            why = "the link to the agent broke: " + e.getMessage();
        }
        channel.close();
        lock.lock();
        try {
            lost = why;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void take(final Message message) {
        lock.lock();
        try {
            if (message instanceof Answer a) {
                answer = a;
            } else if (message instanceof Abort a) {
                if (a.epoch() != attemptOf || a.attempt() > attempt) { // else this attempt is the one it tells of
                    abort = a;
                }
            } else if (message instanceof Checkpoint c) {
                attempt = 0; // attempts count within an epoch
                attemptOf = c.epoch();
                abort = null;
                commands.add(new CheckpointRequest(c.epoch(), c.deadlineSeconds(), c.options()));
            } else if (message instanceof Check c) {
                commands.add(new CheckQuestion(c.id()));
            } else if (message instanceof AskWork a) {
                commands.add(new WorkQuestion(a.id()));
            } else if (message instanceof Asked a) {
                commands.add(new ProgramAnswer(a.call(), a.safe(), a.problem()));
            } else if (message instanceof Found f) {
                found.replace(f.id(), f.values());
            } else if (message instanceof Held h) {
                held = h;
            } else if (message instanceof org.shadowverbs.coordinator.protocol.RankMessages.Shutdown s) {
                commands.add(new Shutdown(s.reason()));
            } // what a later coordinator may add is not for this rank
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private static void pauseMillis(final long millis) throws IOException {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LinkLostException("interrupted while connecting to the agent");
        }
    }

    /** Closes the link and waits for its thread to end: a process image is to hold neither. */
    @Override
    public void close() {
        channel.close();
        try {
            if (Thread.currentThread() != reader) {
                reader.join(5_000);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
