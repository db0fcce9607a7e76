// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.shadowverbs.coordinator.client.RankMessageListener;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * Ends librdmacm's connections after a restart, when the kernel's connection managers do not know them any more. A rank whose
 * program disconnects, or destroys its id, tells the peer's rank, which gives its program the event and answers. As the
 * connection manager does with DREQ and DREP, it asks again until it is answered or the deadline is over. For a process that
 * has ended, however it ended, the coordinator delivers the message that it left (EXIT_MESSAGES).
 *
 * <p>Thread-safe. Sources: rdma_disconnect(3); IBTA volume 1, 12.6.10, 12.6.11.
 */
final class Disconnections implements RankMessageListener, Runnable {
    static final int DISCONNECT = 0;
    static final int DISCONNECTED = 1;

    private static final long DEADLINE_NANOS = TimeUnit.SECONDS.toNanos(20);
    private static final long AGAIN_MILLIS = 1_000;
    private static final long STACK = 256 << 10;

    /** The way to the other ranks, as of now. Errors: there is none, or the agent is gone. */
    interface Others {
        void tell(int rank, byte[] what) throws IOException;

        void leaveExitMessages(List<Integer> ranks, List<byte[]> what) throws IOException;

        /** Waits for a sign of life of the coordinator. Errors: it gives none, which the message says, or those of the others. */
        void awaitCoordinator() throws IOException;
    }

    /** The two ends of a connection, by virtual queue pair numbers. */
    private record Ends(int rank, int own, int peers) {
        @Override
        public String toString() {
            return "queue pair 0x" + Integer.toHexString(own) + " (peer: queue pair 0x" + Integer.toHexString(peers) + " of rank "
                    + rank + ')';
        }
    }

    /** One that waits for its peer's answer. */
    private static final class Asked {
        final long token;
        final Ends ends;
        /** When the peer was first asked, in nanoseconds. */
        final long since;
        /** Why no agent has taken the question yet; null when one has. */
        volatile String untold = "";

        Asked(final long token, final Ends ends, final long since) {
            this.token = token;
            this.ends = ends;
            this.since = since;
        }
    }

    private final Native library;
    private final Model model;
    private final Others others;
    private final LongSupplier nanoTime;
    /** Connections from before the restart that nobody has ended, by token. */
    private final Map<Long, Ends> connections = new HashMap<Long, Ends>();
    /** Those whose peer has not answered yet. */
    private final Map<Long, Asked> asked = new HashMap<Long, Asked>();
    private boolean asking;

    Disconnections(final Native library, final Model model, final Others others) {
        this(library, model, others, System::nanoTime);
    }

    Disconnections(final Native library, final Model model, final Others others, final LongSupplier nanoTime) {
        this.library = library;
        this.model = model;
        this.others = others;
        this.nanoTime = nanoTime;
    }

    static byte[] encode(final int what, final int own, final int peers) {
        return new RecordWriter(9).i8(what).i32(own).i32(peers).toByteArray();
    }

    /** Before the gate opens: what event channels have lost are from now on this class's connections. */
    synchronized void takeOver() {
        for (final long token : library.cmLost()) {
            final Qp qp = model.qps.find(token);
            if (qp != null && qp.peerRank >= 0) {
                connections.putIfAbsent(token, new Ends(qp.peerRank, qp.virtualQpNum, qp.attributes.destQpNum()));
            }
        }
    }

    /** After it has opened: peers that were lost meanwhile have disconnected. */
    void reattached() {
        final List<Long> gone = new ArrayList<Long>();
        synchronized (this) {
            for (final long token : connections.keySet()) {
                final Qp qp = model.qps.find(token);
                if (qp != null && qp.peerGone) {
                    gone.add(token);
                }
            }
        }
        for (final long token : gone) {
            end(token, 0);
        }
    }

    /** To a coordinator that may not have it yet. Peers do not mind to be told of what has ended. */
    void leaveExitMessages() throws IOException {
        final List<Integer> ranks = new ArrayList<Integer>();
        final List<byte[]> what = new ArrayList<byte[]>();
        synchronized (this) {
            for (final Ends ends : connections.values()) {
                ranks.add(ends.rank);
                what.add(encode(DISCONNECT, ends.own, ends.peers));
            }
        }
        if (!ranks.isEmpty()) {
            others.leaveExitMessages(ranks, what);
        }
    }

    /** The application disconnects, or destroys the id. It gets its event when the peer has been told, or cannot be. */
    void disconnect(final long token) {
        final Asked question;
        synchronized (this) {
            final Ends ends = connections.get(token);
            question = ends == null ? null : new Asked(token, ends, nanoTime.getAsLong());
            if (question != null) {
                asked.put(token, question);
                if (!asking) {
                    asking = true;
                    final Thread thread = new Thread(null, this, "shadowverbs-disconnect", STACK);
                    thread.setDaemon(true);
                    thread.start();
                }
            }
        }
        if (question == null) {
            library.cmEnded(token, -VerbsErrno.ETIMEDOUT);
        } else {
            ask(question);
        }
    }

    /** Who is not answered asks again, until agent and coordinator are back or it is too late. */
    private void ask(final Asked question) {
        try {
            tell(DISCONNECT, question.ends);
            question.untold = null;
        } catch (IOException e) {
            if (question.untold != null) {
                question.untold = e.getMessage();
            }
        }
    }

    private void tell(final int what, final Ends ends) throws IOException {
        others.tell(ends.rank, encode(what, ends.own, ends.peers));
    }

    /** Asks again. */
    @Override
    public void run() {
        try {
            for (;;) {
                Thread.sleep(AGAIN_MILLIS);
                final List<Asked> late = new ArrayList<Asked>();
                final List<Asked> unanswered = new ArrayList<Asked>();
                synchronized (this) {
                    final long now = nanoTime.getAsLong();
                    for (final Asked question : asked.values()) {
                        // On another host the clock may have gone back.
                        (Math.abs(now - question.since) > DEADLINE_NANOS ? late : unanswered).add(question);
                    }
                    asking = !asked.isEmpty();
                    if (!asking) {
                        return;
                    }
                }
                for (final Asked question : unanswered) {
                    ask(question);
                }
                for (final Asked question : late) {
                    giveUp(question);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void giveUp(final Asked question) {
        String untold = question.untold;
        try {
            if (untold == null) {
                others.awaitCoordinator(); // the agent may have had nobody to pass it on to
            }
        } catch (IOException e) {
            untold = e.getMessage();
        }
        if (end(question.token, -VerbsErrno.ETIMEDOUT)) {
            library.say(question.ends + " has waited " + TimeUnit.NANOSECONDS.toSeconds(DEADLINE_NANOS) + " s "
                    + (untold == null ? "for its peer to answer that it disconnects" : "to tell its peer that it disconnects: " + untold)
                    + "; the program's event has status -ETIMEDOUT");
        }
    }

    /** @return whether it had not ended before */
    private boolean end(final long token, final int status) {
        final boolean first;
        synchronized (this) {
            first = connections.remove(token) != null;
            asked.remove(token);
        }
        library.cmEnded(token, status);
        return first;
    }

    @Override
    public void hear(final int from, final byte[] what) {
        final RecordReader in = new RecordReader(what);
        final int kind = in.i8();
        final int peers = in.i32();
        final Ends ends = new Ends(from, in.i32(), peers);
        final long token = find(ends);
        if (token != 0) {
            end(token, 0);
        }
        if (kind == DISCONNECT) {
            try {
                tell(DISCONNECTED, ends);
            } catch (IOException e) {
                return; // it asks again
            }
        }
    }

    private synchronized long find(final Ends ends) {
        for (final Map.Entry<Long, Ends> e : connections.entrySet()) {
            if (e.getValue().equals(ends)) {
                return e.getKey();
            }
        }
        return 0;
    }
}
