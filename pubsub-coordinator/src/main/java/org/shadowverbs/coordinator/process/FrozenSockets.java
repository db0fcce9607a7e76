// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** The TCP sockets of trees that stand still: what is under way comes in, then they are held, until the trees go on. */
final class FrozenSockets implements AutoCloseable {
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
    /** Longer than most acknowledgements are delayed. */
    private static final long SETTLE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);
    /** So long it may take until what was sent on closed connections has come. */
    private static final long LEFT_OVER_NANOS = TimeUnit.SECONDS.toNanos(10);

    private final List<ProcessTree> trees;
    private final Sharing sharing;
    /** Those that have gone to other hosts, where nobody has accepted them. */
    private final List<UnacceptedEnd> gone = new ArrayList<>();
    /** Null: nothing is connected, and nothing waits. */
    private TcpHold tcp;
    /** Null until they are held. */
    private TakenBacklog backlog;
    private boolean accepted;
    private boolean taken;

    FrozenSockets(final List<ProcessTree> trees, final Sharing sharing) {
        this.trees = List.copyOf(trees);
        this.sharing = sharing;
    }

    /**
     * Waits until what processes have sent and closed has come to the other end, for on their side nobody has it any more. Of
     * other bytes it waits only a little until none is under way, so that few have to be sent again when the connections go on:
     * {@link TcpHold} drops what comes later.
     */
    void settle() throws IOException, CheckpointException {
        if (sharing.connected().isEmpty() && !sharing.unaccepted()) {
            return;
        }
        try {
            tcp = TcpHold.start();
            tcp.open(sharing.receiving());
            final long deadline = System.nanoTime() + LEFT_OVER_NANOS;
            while (leftOver()) {
                if (System.nanoTime() - deadline > 0) {
                    throw new PassingStateException("TCP connections that were closed have data that has not come to the other end");
                }
                tcp.tell();
                LockSupport.parkNanos(POLL_NANOS);
            }
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CheckpointException("freezing: interrupted", e);
        }
        final long deadline = System.nanoTime() + SETTLE_NANOS;
        while (System.nanoTime() - deadline < 0 && trees.stream().anyMatch(this::underWay)) {
            LockSupport.parkNanos(POLL_NANOS);
        }
    }

    private boolean leftOver() throws IOException {
        if (sharing.leftOver().isEmpty()) {
            return false;
        }
        final Map<TcpConnection, TcpSockets.Socket> unheld = TcpSockets.of(pid()).unheld();
        return sharing.leftOver().stream().map(unheld::get).anyMatch(end -> end != null && end.leftOver());
    }

    private boolean underWay(final ProcessTree tree) {
        try {
            return TcpSockets.of(tree.top().pid()).unacknowledged(sharing.connections(tree));
        } catch (final IOException e) {
            return false; // It has ended, which the dump will say.
        }
    }

    /** One of the processes, all of which are in the same network. */
    private long pid() {
        return trees.getFirst().top().pid();
    }

    /** Those to other hosts, when what was closed here has come there. */
    TcpEnds ends() throws CheckpointException {
        // Their other hosts make room, as this one does, when they freeze theirs.
        final long deadline = System.nanoTime() + LEFT_OVER_NANOS;
        TcpEnds ends = sharing.ends();
        while (ends.foreign().stream().anyMatch(end -> end.holder().isEmpty() && end.sending()) && System.nanoTime() - deadline < 0) {
            LockSupport.parkNanos(POLL_NANOS);
            ends = sharing.ends();
        }
        return ends;
    }

    /** From now on they take in nothing. @return the ends as they stay */
    TcpEnds hold() throws IOException, CheckpointException, InterruptedException {
        if (tcp == null) {
            tcp = TcpHold.start();
        }
        backlog = TakenBacklog.hold(tcp, sharing, pid());
        return sharing.ends();
    }

    /** @return what has come from other hosts and waits */
    List<UnacceptedEnd> accept() throws IOException, CheckpointException, InterruptedException {
        accepted = true;
        return backlog.accept();
    }

    void makeAgain(final List<UnacceptedEnd> connections) {
        gone.addAll(connections);
    }

    /** Before the first image of any tree is made: two ends may be in two trees. */
    void take() throws IOException, CheckpointException, InterruptedException {
        if (tcp == null) {
            return;
        }
        if (backlog == null) {
            backlog = TakenBacklog.hold(tcp, sharing, pid());
        }
        if (!accepted) {
            if (backlog.fromElsewhere()) {
                throw new PassingStateException("a TCP connection has come from another host that nobody has accepted yet");
            }
            accept();
        }
        taken = true;
        backlog.makeAgain(gone);
    }

    /** The inodes of those that ask else whether the other end is alive. */
    List<Long> alive() {
        return tcp == null ? List.of() : tcp.alive();
    }

    /** Writes what is to be made again with a tree into the tree's folder. */
    List<UnacceptedConnection> write(final ProcessTree tree, final Path folder) throws IOException {
        return backlog == null ? List.of() : backlog.write(tree, folder);
    }

    /** Without it what is left of each would be in the way of a restart on this host, for a minute. */
    void drop() throws IOException, CheckpointException, InterruptedException {
        if (tcp != null) {
            tcp.drop();
        }
    }

    /** Lets them go on; also those that were accepted for a checkpoint that was given up before it had images. */
    @Override
    public void close() {
        if (tcp == null) {
            return;
        }
        try {
            if (accepted && !taken) {
                backlog.makeAgain(gone);
            }
        } catch (final IOException | CheckpointException e) {
            // Their clients hear of a reset, as from a listener that has ended.
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            tcp.close();
        }
    }
}
