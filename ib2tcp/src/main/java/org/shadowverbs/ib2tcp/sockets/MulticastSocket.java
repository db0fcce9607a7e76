// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import org.shadowverbs.ib2tcp.engine.Multicast;
import org.shadowverbs.ib2tcp.engine.MulticastWay;
import org.shadowverbs.ib2tcp.system.Posix;

/**
 * The UDP socket for multicast. Channels are IPv4 multicast groups. Datagrams are sent in fragments where they are longer than
 * the link takes, and stay in this network: their time to live is 1. They use the interface that has the device's address.
 */
final class MulticastSocket implements MulticastWay {
    /** 239.83.86.0 and the next; administratively scoped (RFC 2365). */
    private static final int FIRST_GROUP = 239 << 24 | 'S' << 16 | 'V' << 8;
    /** The same for all processes, which share it. */
    private static final int PORT = 'S' << 8 | 'V';
    private static final int BUFFER = 4 << 20;
    /** So many are taken before others have their turn. */
    private static final int MOST = 64;

    final int fd;
    private final Posix posix;
    private final int ipv4;
    private final long incoming;

    /** @param ipv4 the device's address */
    MulticastSocket(final Posix posix, final int ipv4) {
        this.posix = posix;
        this.ipv4 = ipv4;
        fd = posix.multicastSocket(ipv4, PORT, BUFFER);
        incoming = posix.allocate(Multicast.LONGEST + 1);
    }

    @Override
    public void join(final int channel) {
        posix.membership(fd, FIRST_GROUP + channel, ipv4, true);
    }

    @Override
    public void leave(final int channel) {
        posix.membership(fd, FIRST_GROUP + channel, ipv4, false);
    }

    @Override
    public int send(final int channel, final long at, final int bytes) {
        return posix.sendTo(fd, at, bytes, FIRST_GROUP + channel, PORT) < 0 ? posix.errno() : 0;
    }

    /** There is something to read. */
    void ready(final Multicast multicast) {
        for (int i = 0; i < MOST; i++) {
            // One that is longer than any of ours is cut to one byte more, and so recognised.
            final long bytes = posix.receive(fd, incoming, Multicast.LONGEST + 1);
            if (bytes < 0) {
                return;
            }
            multicast.received(incoming, (int) bytes);
        }
    }

    void close() {
        posix.close(fd);
        posix.free(incoming);
    }
}
