// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.shadowverbs.coordinator.client.Hearer;
import org.shadowverbs.ids.RecordReader;
import org.shadowverbs.ids.RecordWriter;

/**
 * What is left of librdmacm's connections after a restart, when the kernel's connection managers know nothing of them: who
 * disconnects, or destroys its id, says so to its peer's rank, which gives its program the event and answers. As the
 * connection manager does with DREQ and DREP: it asks again until it is answered, for a while; and a process that has ended,
 * however, has said so by its last will.
 *
 * <p>Thread-safe. Sources: rdma_disconnect(3); IBTA volume 1, 12.6.10, 12.6.11.
 */
final class Disconnections implements Hearer, Runnable {
    static final int DISCONNECT = 0;
    static final int DISCONNECTED = 1;

    private static final long DEADLINE_NANOS = TimeUnit.SECONDS.toNanos(20);
    private static final long AGAIN_MILLIS = 1_000;
    private static final long STACK = 256 << 10;

    /** The way to the other ranks, as of now. Errors: there is none, or the agent is gone. */
    interface Others {
        void tell(int rank, byte[] what) throws IOException;

        void leaveWill(List<Integer> ranks, List<byte[]> what) throws IOException;
    }

    /** The two ends of a connection, by virtual queue pair numbers. */
    private record Ends(int rank, int own, int peers) {
    }

    private final Native library;
    private final Model model;
    private final Others others;
    /** Connections of before the restart that nobody has ended, by token. */
    private final Map<Long, Ends> connections = new HashMap<Long, Ends>();
    /** Those whose peer has not answered yet, and when it was first asked, in nanoseconds. */
    private final Map<Long, Long> asked = new HashMap<Long, Long>();
    private boolean asking;

    Disconnections(final Native library, final Model model, final Others others) {
        this.library = library;
        this.model = model;
        this.others = others;
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
    void leaveWill() throws IOException {
        final List<Integer> ranks = new ArrayList<Integer>();
        final List<byte[]> what = new ArrayList<byte[]>();
        synchronized (this) {
            for (final Ends ends : connections.values()) {
                ranks.add(ends.rank);
                what.add(encode(DISCONNECT, ends.own, ends.peers));
            }
        }
        if (!ranks.isEmpty()) {
            others.leaveWill(ranks, what);
        }
    }

    /** The application disconnects, or destroys the id. It gets its event when the peer has been told, or cannot be. */
    void disconnect(final long token) {
        final Ends ends;
        synchronized (this) {
            ends = connections.get(token);
            if (ends != null) {
                asked.put(token, System.nanoTime());
                if (!asking) {
                    asking = true;
                    final Thread thread = new Thread(null, this, "shadowverbs-disconnect", STACK);
                    thread.setDaemon(true);
                    thread.start();
                }
            }
        }
        if (ends == null) {
            library.cmEnded(token, -VerbsErrno.ETIMEDOUT);
        } else {
            tell(DISCONNECT, ends);
        }
    }

    private void tell(final int what, final Ends ends) {
        try {
            others.tell(ends.rank, encode(what, ends.own, ends.peers));
        } catch (IOException e) {
            return; // who is not answered asks again, until agent and coordinator are back or it is too late
        }
    }

    /** Asks again. */
    @Override
    public void run() {
        try {
            for (;;) {
                Thread.sleep(AGAIN_MILLIS);
                final List<Long> late = new ArrayList<Long>();
                final List<Ends> unanswered = new ArrayList<Ends>();
                synchronized (this) {
                    final long now = System.nanoTime();
                    for (final Map.Entry<Long, Long> e : asked.entrySet()) {
                        // On another host the clock may have gone back.
                        if (Math.abs(now - e.getValue()) > DEADLINE_NANOS) {
                            late.add(e.getKey());
                        } else {
                            unanswered.add(connections.get(e.getKey()));
                        }
                    }
                    asking = !asked.isEmpty();
                    if (!asking) {
                        return;
                    }
                }
                for (final Ends ends : unanswered) {
                    tell(DISCONNECT, ends);
                }
                for (final long token : late) {
                    end(token, -VerbsErrno.ETIMEDOUT);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void end(final long token, final int status) {
        synchronized (this) {
            connections.remove(token);
            asked.remove(token);
        }
        library.cmEnded(token, status);
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
            tell(DISCONNECTED, ends);
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
