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

/** A {@link Backlog} of trees that stand still: taken out of the listeners' queues, to be made again when all goes on. */
final class TakenBacklog {
    private final List<Taken> all = new ArrayList<>();

    /** @param tree whose image has it: the client's; the listener's, when nobody has the client's end any more */
    private record Taken(ProcessTree tree, TcpHold.Again again) {
    }

    private TakenBacklog() {
    }

    /**
     * From now on no connection takes in anything, and none comes to a listener.
     *
     * @param pid a process in the network of the job's
     * @throws PassingStateException when others have come meanwhile, which can't be made again; they are left as they are
     */
    static TakenBacklog take(final TcpHold tcp, final Sharing sharing, final long pid)
            throws IOException, CheckpointException, InterruptedException {
        final Backlog before = sharing.backlog(TcpSockets.of(pid));
        tcp.hold(sharing.connected(), sharing.listening().stream()
                .map(socket -> new TcpHold.Listener(socket, before.room(socket.inode()))).toList());
        final Backlog backlog = sharing.backlog(TcpSockets.of(pid));
        final List<Finding> passing = sharing.passing(backlog);
        if (!passing.isEmpty()) {
            throw new PassingStateException(passing.getFirst().toString());
        }
        final Map<TcpConnection, TcpHold.Had> had = new HashMap<>();
        for (final TcpHold.Had one : tcp.accept()) {
            had.put(one.connection(), one);
        }
        final TakenBacklog taken = new TakenBacklog();
        for (final Backlog.Waiting one : backlog.waiting()) {
            final TcpSockets.Socket client = one.client();
            if (client == null) {
                // What is left of it in the kernel would be in the way of the one that is made.
                SockDiag.dropOrphan(one.connection());
            }
            taken.all.add(new Taken(sharing.tree(client == null ? one.listener().inode() : client.inode()), new TcpHold.Again(
                    one.connection(), client == null ? null : sharing.held(client.inode()), had.get(one.connection()))));
        }
        // In the order in which they have come; those of several trees may come in another one after a restart.
        taken.all.sort(Comparator.comparingInt(one -> one.again().had() == null ? Integer.MAX_VALUE : one.again().had().number()));
        tcp.again(taken.all.stream().map(Taken::again).toList());
        return taken;
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
