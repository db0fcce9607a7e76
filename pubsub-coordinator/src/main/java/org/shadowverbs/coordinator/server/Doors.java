// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.ServerSocketChannel;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.process.Host;
import org.shadowverbs.coordinator.process.HostAddress;
import org.shadowverbs.coordinator.protocol.Acceptor;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.store.Seat;

/**
 * Where a coordinator listens: at the address that it was told, and at others of its host when agents of other hosts need them. For any
 * thread.
 */
final class Doors implements AutoCloseable {
    private static final int BACKLOG = 128;

    private final String address;
    private final int port;
    private final ServerSocketChannel listener;
    private EventLog log;
    private Acceptor.Service service;
    private Acceptor acceptor;
    /** By the addresses at which it listens besides; guarded by this map. */
    private final Map<String, Acceptor> more = new LinkedHashMap<>();
    private boolean closed;

    /**
     * Binds the port; {@link #open} is to follow.
     *
     * @throws IOException when it can't be bound; the message names it
     */
    Doors(final String address, final int wanted) throws IOException {
        this.address = address;
        listener = bind(address, wanted);
        port = ((InetSocketAddress) listener.getLocalAddress()).getPort();
    }

    private static ServerSocketChannel bind(final String address, final int port) throws IOException {
        final ServerSocketChannel listener = ServerSocketChannel.open();
        try {
            listener.setOption(StandardSocketOptions.SO_REUSEADDR, true);
            listener.bind(new InetSocketAddress(address, port), BACKLOG);
            return listener;
        } catch (BindException e) {
            listener.close();
            throw new IOException("port " + port + " of " + address + ": " + e.getMessage(), e);
        } catch (IOException | RuntimeException e) {
            listener.close();
            throw e;
        }
    }

    /** Begins to let in who comes. */
    void open(final EventLog its, final Acceptor.Service what) {
        log = its;
        service = what;
        acceptor = new Acceptor(listener, log, FrameChannel::overTcp, service);
        acceptor.open();
    }

    int port() {
        return port;
    }

    /** Whether it was told to listen where only this host reaches it. */
    boolean isLocal() throws IOException {
        return InetAddress.getByName(address).isLoopbackAddress();
    }

    /** Begins to listen there, too. */
    void openAlsoAt(final String another) throws IOException {
        synchronized (more) {
            if (closed || more.containsKey(another)) {
                return;
            }
            final Acceptor door = new Acceptor(bind(another, port), log, FrameChannel::overTcp, service);
            more.put(another, door);
            door.open();
        }
        log.add("listens also at " + another + ", for agents of other hosts");
    }

    /** Those at which it listens besides. */
    Set<String> others() {
        synchronized (more) {
            return Set.copyOf(more.keySet());
        }
    }

    /** Where agents of other hosts find it; those of this host, when it is nowhere else. */
    Seat seat(final String job) {
        final List<String> at = new ArrayList<>(others());
        final boolean everywhere = isEverywhere();
        if (at.isEmpty() && everywhere) {
            HostAddress.ofThisHost().forEach(a -> at.add(a.address()));
        }
        if (at.isEmpty()) {
            at.add(everywhere ? "localhost" : address);
        }
        return new Seat(job, hostName(), at, port);
    }

    private boolean isEverywhere() {
        try {
            return InetAddress.getByName(address).isAnyLocalAddress();
        } catch (IOException e) {
            throw new UncheckedIOException(e); // it was bound
        }
    }

    /** As agents name this host. */
    static String hostName() {
        try {
            return Host.name();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Lets nobody in any more, and waits until nobody is on his way in. */
    void shut() throws IOException, InterruptedException {
        close();
        if (acceptor != null) {
            acceptor.join();
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        synchronized (more) {
            closed = true;
            for (final Acceptor another : more.values()) {
                another.close();
            }
        }
    }
}
