// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

/**
 * One end of a TCP connection whose other end is not on the same host.
 *
 * @param holder     which process has it, for messages; empty: none has, only the kernel
 * @param connection its addresses and ports
 * @param state      the kernel's number of its state (include/net/tcp_states.h)
 */
public record TcpEnd(String holder, TcpConnection connection, int state) {
    private static final int ESTABLISHED = 1;
    private static final int SYN_SENT = 2;
    private static final int SYN_RECEIVED = 3;
    private static final int FIN_WAIT_1 = 4;
    private static final int FIN_WAIT_2 = 5;
    private static final int CLOSE_WAIT = 8;
    private static final int LAST_ACK = 9;
    private static final int CLOSING = 11;

    /**
     * Whether it only waits for an answer to its first segment, which is sent again after a restart.
     *
     * @return true if so
     */
    public boolean connecting() {
        return state == SYN_SENT;
    }

    /**
     * Of one that no process has: whether it waits to be accepted.
     *
     * @return true if so
     */
    public boolean notAccepted() {
        return state == ESTABLISHED || state == SYN_RECEIVED || ending();
    }

    /**
     * Whether the other end has sent all.
     *
     * @return true if so
     */
    public boolean ending() {
        return state == CLOSE_WAIT;
    }

    /**
     * Whether it is made, and its other end has not sent all.
     *
     * @return true if so
     */
    public boolean hasBegun() {
        return state == ESTABLISHED || state == FIN_WAIT_1 || state == FIN_WAIT_2;
    }

    /**
     * Whether it has been closed, and the other end has not acknowledged all that was sent before and the end itself.
     *
     * @return true if so
     */
    public boolean sending() {
        return state == FIN_WAIT_1 || state == LAST_ACK || state == CLOSING;
    }
}
