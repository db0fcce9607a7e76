// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.Outbox;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Alive;

/**
 * The agent's connection to its coordinator. When it breaks the coordinator is started anew, if this agent is the one
 * to do that, and everything it must know is told again by the hello. What was sent in between is lost: the hello has
 * it.
 */
final class CoordinatorLink implements AutoCloseable {
    private static final int CONNECT_MILLIS = 5_000;
    private static final long LONGEST_PAUSE_MILLIS = 2_000;
    /** Of one that looks in a store: the shorter, the sooner the job has a coordinator again. */
    private static final long LOOK_MILLIS = 250;
    private static final int CONNECT_NEW_MILLIS = 2_000;
    private static final long LONG_NANOS = 60_000_000_000L;

    private final AgentOptions options;
    private final EventLog log;
    private final Supplier<AgentHello> hello;
    private final Handler handler;
    private final Succession succession;
    private final Runnable whenLost;
    private final Thread thread;
    private volatile Outbox outbox;
    private volatile FrameChannel channel;
    private volatile boolean closing;
    private volatile String refusal = "";
    private final Runnable whenLong;
    private final Runnable whenCutOff;
    /** Within which the coordinator's host is to answer; 0: it is not watched. */
    private volatile int answersWithinMillis;
    private volatile Thread heart;
    /** Of the thread: the coordinator's host did not answer, or another is in its place: it is looked for elsewhere first. */
    private boolean silent;
    /** The coordinator's host does not answer, as far as is known. */
    private volatile boolean cutOff;

    interface Handler {
        void handle(Message message) throws IOException;
    }

    CoordinatorLink(final AgentOptions options, final EventLog log, final Succession succession, final Supplier<AgentHello> hello,
            final Handler handler, final Runnable whenLost, final Runnable whenLong, final Runnable whenCutOff) {
        this.options = options;
        this.log = log;
        this.succession = succession;
        this.hello = hello;
        this.handler = handler;
        this.whenLost = whenLost;
        this.whenLong = whenLong;
        this.whenCutOff = whenCutOff;
        thread = Thread.ofPlatform().daemon().name("coordinator").unstarted(this::run);
    }

    /** Begins to connect. What is sent before the hello is lost, as in every pause between two connections. */
    void start() {
        thread.start();
    }

    /** Whether the coordinator's host does not answer; else only nobody listens there. */
    boolean isCutOff() {
        return cutOff;
    }

    /** Why the coordinator turned this agent away at last, or an empty string. */
    String refusal() {
        return refusal;
    }

    /** Returns whether there is a connection; without one it is lost. */
    boolean send(final Message message) {
        final Outbox out = outbox;
        if (out != null) {
            out.send(message);
        }
        return out != null;
    }

    private void run() {
        InetSocketAddress at = new InetSocketAddress(options.coordinatorHost(), options.coordinatorPort());
        long pause = 10;
        long since = System.nanoTime();
        boolean said = false;
        while (!closing) {
            try {
                final InetSocketAddress found = connect(at, !said && !silent);
                if (!found.equals(at)) {
                    log.add("the coordinator is at " + found + " now");
                    at = found;
                }
            } catch (IOException e) {
                if (!FrameChannel.isOtherHostLost(e.getMessage())) {
                    cutOff = false;
                } else if (!cutOff && answersWithinMillis != 0 && System.nanoTime() - since > answersWithinMillis * 1_000_000L) {
                    cutOff = true;
                    whenCutOff.run();
                }
                if (!said) {
                    log.add("no coordinator at " + at.getHostString() + ":" + at.getPort() + ": " + e.getMessage());
                    said = true;
                    startCoordinator();
                }
                if (System.nanoTime() - since > LONG_NANOS) {
                    since = System.nanoTime();
                    whenLong.run();
                }
                if (!sleep(pause)) {
                    break;
                }
                pause = Math.min(succession.isKnown() ? LOOK_MILLIS : LONGEST_PAUSE_MILLIS, pause * 2);
                continue;
            }
            pause = 10;
            said = false;
            cutOff = false;
            silent = false;
            talk();
            since = System.nanoTime();
        }
        succession.close();
    }

    /**
     * Connects to the coordinator where it was, or where the store says that it is.
     *
     * @param first whether it was there just now
     * @return where it is
     * @throws IOException it is nowhere
     */
    private InetSocketAddress connect(final InetSocketAddress at, final boolean first) throws IOException {
        IOException why = null;
        if (first) {
            try {
                return connect(at);
            } catch (IOException e) {
                why = e;
            }
        }
        final List<InetSocketAddress> others = succession.isKnown() ? succession.look() : null;
        if (others == null && !first) {
            return connect(at);
        }
        for (final InetSocketAddress other : others == null ? List.<InetSocketAddress>of() : others) {
            try {
                return connect(other);
            } catch (IOException e) {
                why = e;
            }
        }
        throw why == null ? new IOException("the job has no coordinator at present") : why;
    }

    private InetSocketAddress connect(final InetSocketAddress at) throws IOException {
        final int patience = answersWithinMillis == 0 ? CONNECT_MILLIS : answersWithinMillis;
        // A name that nobody knew may be known by now.
        channel = FrameChannel.connect(new InetSocketAddress(at.getHostString(), at.getPort()),
                succession.isKnown() ? Math.min(patience, CONNECT_NEW_MILLIS) : patience);
        return at;
    }

    /** This host's end of the connection; null when there is none. */
    InetSocketAddress local() throws IOException {
        final FrameChannel current = channel;
        return current == null || !current.isOpen() ? null : (InetSocketAddress) current.channel().getLocalAddress();
    }

    private void talk() {
        final FrameChannel current = channel;
        try (Outbox out = new Outbox(current, "coordinator")) {
            if (closing) {
                return;
            }
            out.send(hello.get());
            outbox = out;
            if (answersWithinMillis != 0) {
                current.breaksAfter(answersWithinMillis);
            }
            for (;;) {
                final Message message = current.read();
                if (message instanceof Refused r) {
                    refusal = r.reason();
                }
                handler.handle(message);
            }
        } catch (IOException | RuntimeException e) {
            if (!closing) {
                log.add(e instanceof EOFException ? "the coordinator closed the connection: " + e.getMessage()
                        : "connection to the coordinator: " + e);
                silent = succession.isKnown() && (FrameChannel.isOtherHostLost(e.getMessage())
                        || e instanceof Succession.Superseded);
                if (answersWithinMillis != 0 && FrameChannel.isOtherHostLost(e.getMessage())) {
                    cutOff = true;
                    whenCutOff.run();
                }
            }
        } finally {
            outbox = null;
            current.close();
        }
        if (!closing) {
            whenLost.run();
        }
    }

    /**
     * From now on this host counts as cut off when the coordinator's has not answered for so long. Something is sent all the time, for
     * it to be acknowledged.
     *
     * @param everyMillis how often
     */
    void watch(final int millis, final int everyMillis) throws IOException {
        answersWithinMillis = millis;
        final FrameChannel current = channel;
        if (current != null) {
            current.breaksAfter(millis);
        }
        if (heart == null) {
            heart = Thread.ofPlatform().daemon().name("alive").start(() -> {
                while (!closing && sleep(everyMillis)) {
                    send(new Alive());
                }
            });
        }
    }

    private void startCoordinator() {
        if (options.coordinatorCommand().isEmpty() || closing || succession.isKnown()) {
            return;
        }
        try {
            log.add("starting a coordinator: " + String.join(" ", options.coordinatorCommand()));
            new ProcessBuilder(options.coordinatorCommand())
                    .redirectInput(ProcessBuilder.Redirect.from(new java.io.File("/dev/null")))
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(ProcessBuilder.Redirect.appendTo(
                            options.runDirectory().resolve("coordinator.err").toFile()))
                    .start();
        } catch (IOException e) {
            log.add("the coordinator can't be started: " + e);
        }
    }

    /** From here on a connection that ends is not lost. */
    void ending() {
        closing = true;
    }

    /** Sends what is queued, and nothing more. */
    void finish(final long millis) throws InterruptedException {
        closing = true;
        final Outbox out = outbox;
        if (out != null) {
            out.closeAfterSending();
            out.join(millis);
        }
    }

    private boolean sleep(final long millis) {
        try {
            Thread.sleep(millis);
            return true;
        } catch (InterruptedException e) {
            return false; // close() ends the pause
        }
    }

    @Override
    public void close() {
        closing = true;
        thread.interrupt();
        final FrameChannel current = channel;
        if (current != null) {
            current.close();
        }
    }
}
