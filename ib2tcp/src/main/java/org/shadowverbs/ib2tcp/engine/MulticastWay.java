// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

/** How datagrams of multicast groups go from one process to all: sockets are in {@link org.shadowverbs.ib2tcp.sockets.MulticastSocket}, tests have another. */
public interface MulticastWay {
    /** Channels, on which several groups may be: a host joins few of them only. */
    int CHANNELS = 16;

    /** What is sent on that channel, by this process, too, is received from now on. */
    void join(int channel);

    void leave(int channel);

    /** @return 0, or an errno value: it is lost, with EAGAIN because there is no room at the moment */
    int send(int channel, long at, int bytes);
}
