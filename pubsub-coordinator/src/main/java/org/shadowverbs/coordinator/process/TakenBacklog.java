// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * The {@link Backlog} of trees that stand still: held, then taken out of the listeners' queues, to be made again when all goes on. Those
 * that have come from other hosts are made again there, and those there that have gone from here, here.
 */
final class TakenBacklog {
    private final TcpHold tcp;
    private final Sharing sharing;
    private final long pid;
    private final Backlog backlog;
    private final Map<TcpConnection, TcpHold.Had> had = new HashMap<>();
    private final List<Taken> all = new ArrayList<>();

    /** @param tree whose image has it: the client's; when nobody has the client's end any more, one that comes back where it was */
    private record Taken(ProcessTree tree, TcpHold.Again again) {
    }

    private TakenBacklog(final TcpHold tcp, final Sharing sharing, final long pid, final Backlog backlog) {
        this.tcp = tcp;
        this.sharing = sharing;
        this.pid = pid;
        this.backlog = backlog;
    }

    /**
     * From now on no connection takes in anything, and none comes to a listener.
     *
     * @param pid a process in the network of the job's
     * @throws PassingStateException when others have come meanwhile, which can't be made again; they are left as they are
     */
    static TakenBacklog hold(final TcpHold tcp, final Sharing sharing, final long pid)
            throws IOException, CheckpointException, InterruptedException {
        final Backlog before = sharing.backlog(TcpSockets.of(pid));
        tcp.hold(sharing.connected(), sharing.listening().stream()
                .map(socket -> new TcpHold.Listener(socket, before.room(socket.inode()))).toList());
        final Backlog backlog = sharing.backlog(TcpSockets.of(pid));
        final List<Finding> passing = sharing.passing(backlog);
        if (!passing.isEmpty()) {
            throw new PassingStateException(passing.getFirst().toString());
        }
        return new TakenBacklog(tcp, sharing, pid, backlog);
    }

    /** Whether some have come from other hosts. */
    boolean fromElsewhere() {
        return !backlog.fromElsewhere().isEmpty();
    }

    /** Takes them out of the queues. @return those that have come from other hosts, and have been there */
    List<UnacceptedEnd> accept() throws IOException, CheckpointException, InterruptedException {
        for (final TcpHold.Had one : tcp.accept()) {
            had.put(one.connection(), one);
        }
        return backlog.fromElsewhere().stream().map(one -> had.get(one.end().connection().mirrored())).filter(one -> one != null)
                .map(one -> new UnacceptedEnd(one.connection(), one.sequence(), one.data())).toList();
    }

    /**
     * They are made again when all goes on.
     *
     * @param gone those that have gone from here to other hosts
     */
    void makeAgain(final List<UnacceptedEnd> gone) throws IOException, CheckpointException, InterruptedException {
        for (final Backlog.Waiting one : backlog.waiting()) {
            final long holder = one.client() == null ? one.listener().inode() : one.client().inode();
            add(sharing.tree(holder), one.connection(), one.client(), had.get(one.connection()));
        }
        // In the order in which they have come; those of several trees may come in another one after a restart.
        all.sort(Comparator.comparingInt(one -> one.again().had() == null ? Integer.MAX_VALUE : one.again().had().number()));
        if (!gone.isEmpty()) {
            final Map<TcpConnection, TcpSockets.Socket> connected = sharing.connected(TcpSockets.of(pid));
            for (final UnacceptedEnd one : gone) {
                final TcpSockets.Socket client = connected.get(one.connection());
                add(client == null ? sharing.anyTree() : sharing.tree(client.inode()), one.connection(), client,
                        one.sequence() == null ? null : TcpHold.Had.elsewhere(one.connection(), one.sequence(), one.data()));
            }
        }
        tcp.again(all.stream().map(Taken::again).toList());
    }

    /** @param client null: its program has closed it, and all of it has come */
    private void add(final ProcessTree tree, final TcpConnection connection, final TcpSockets.Socket client, final TcpHold.Had its)
            throws IOException {
        if (client == null) {
            // What is left of it in the kernel would be in the way of the one that is made.
            SockDiag.dropOrphan(connection);
        }
        all.add(new Taken(tree, new TcpHold.Again(connection, client == null ? null : sharing.held(client.inode()), its)));
    }

    /** Writes what of it belongs to a tree into the tree's folder. */
    List<UnacceptedConnection> write(final ProcessTree tree, final Path folder) throws IOException {
        final List<UnacceptedConnection> connections = new ArrayList<>();
        for (final Taken taken : all) {
            if (taken.tree() == tree) {
                final TcpHold.Again again = taken.again();
                final boolean data = again.had() != null && again.had().data().length > 0;
                final String name = data ? "unaccepted-" + connections.size() : "";
                if (data) {
                    PrivateFiles.makeEmpty(folder.resolve(name));
                    Files.write(folder.resolve(name), again.had().data());
                }
                connections.add(new UnacceptedConnection(again.connection(), again.had() == null ? null : again.had().sequence(),
                        again.client() == null, name));
            }
        }
        return connections;
    }
}
