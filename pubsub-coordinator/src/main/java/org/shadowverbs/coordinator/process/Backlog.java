// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongPredicate;

/**
 * TCP connections that have come to listeners of the job, and that no program has accepted yet. The kernel alone has their listener's
 * end, and it can be in no image. So the client's end makes them again, when all goes on (native/restore-init/tcp-again.c): its
 * program has had nothing from the other end yet, and notices nothing.
 */
final class Backlog {
    private final List<Waiting> waiting = new ArrayList<>();
    private final List<FromElsewhere> fromElsewhere = new ArrayList<>();
    private final List<Problem> problems = new ArrayList<>();
    private final Map<Long, Integer> rooms = new HashMap<>();

    /**
     * One that waits.
     *
     * @param connection as its client has it
     * @param client     the client's socket; null: its program has closed it, and all of it has come
     * @param listener   that it has come to
     */
    record Waiting(TcpConnection connection, TcpSockets.Socket client, TcpSockets.Socket listener) {
    }

    /**
     * One that waits, and whose client is on another host of the job.
     *
     * @param end      the listener's end
     * @param listener that it has come to
     */
    record FromElsewhere(TcpSockets.Socket end, TcpSockets.Socket listener) {
    }

    /**
     * Why one can't be made again now.
     *
     * @param listener that it has come to
     * @param what     the reason
     */
    record Problem(TcpSockets.Socket listener, String what) {
    }

    private Backlog() {
    }

    /**
     * @param ofJob  whether a process of the job has the socket with an inode
     * @param others addresses of the job's other hosts
     */
    static Backlog of(final TcpSockets sockets, final LongPredicate ofJob, final Set<String> others) {
        final Backlog backlog = new Backlog();
        final Map<TcpConnection, TcpSockets.Socket> held = new HashMap<>();
        sockets.held().stream().filter(TcpSockets.Socket::connected).forEach(socket -> {
            held.put(socket.connection(), socket);
            if (socket.connecting()) {
                backlog.count(sockets.listener(socket));
            }
        });
        sockets.unheld().forEach((connection, end) -> {
            final TcpSockets.Socket listener = end.notAccepted() ? sockets.listenerOf(end) : null;
            if (listener != null && ofJob.test(listener.inode())) {
                backlog.add(end, listener, held.get(connection.mirrored()), sockets.unheld().get(connection.mirrored()), ofJob,
                        others);
            }
        });
        return backlog;
    }

    /**
     * @param held   the client's end, if a process has it; else null
     * @param unheld the client's end, if only the kernel has it; else null
     */
    private void add(final TcpSockets.Socket end, final TcpSockets.Socket listener, final TcpSockets.Socket held,
            final TcpSockets.Socket unheld, final LongPredicate ofJob, final Set<String> others) {
        final TcpConnection connection = end.connection().mirrored();
        count(listener);
        if (held != null && ofJob.test(held.inode())) {
            if (!held.connecting()) { // else its first segment is sent again by itself
                waiting.add(new Waiting(connection, held, listener));
            }
        } else if (held != null) {
            problems.add(new Problem(listener, "from a process outside the job"));
        } else if (unheld == null && !end.withinHost() && others.contains(connection.localAddress())) {
            fromElsewhere.add(new FromElsewhere(end, listener));
        } else if (unheld == null && !end.withinHost()) {
            problems.add(new Problem(listener, "from a host that is not of the job"));
        } else if (end.ending() && (unheld == null || !unheld.leftOver())) {
            waiting.add(new Waiting(connection, null, listener));
        } else {
            problems.add(new Problem(listener, "that was closed before all of it had come"));
        }
    }

    private void count(final TcpSockets.Socket listener) {
        if (listener != null) {
            rooms.merge(listener.inode(), 1, Integer::sum);
        }
    }

    /** How many wait at most at the listener with an inode, when those have come, too, that are on their way. */
    int room(final long inode) {
        return rooms.getOrDefault(inode, 0);
    }

    List<Waiting> waiting() {
        return waiting;
    }

    List<FromElsewhere> fromElsewhere() {
        return fromElsewhere;
    }

    List<Problem> problems() {
        return problems;
    }
}
