// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSocket;

/** Which connections between hosts are within the job. */
class ConnectionsTest {
    private static final int ESTABLISHED = 1;
    private static final int SYN_SENT = 2;
    private static final int CLOSE_WAIT = 8;
    private static final int FIN_WAIT_2 = 5;
    private static final List<NetAddress> A = List.of(new NetAddress("eth0", "10.0.0.1"));
    private static final List<NetAddress> B = List.of(new NetAddress("eth0", "10.0.0.2"));

    private final Connections connections = new Connections();

    private static TcpSocket fromA(final String holder, final int state) {
        return new TcpSocket(holder, "10.0.0.1", 40_000, "10.0.0.2", 80, state);
    }

    private static TcpSocket fromB(final String holder, final int state) {
        return new TcpSocket(holder, "10.0.0.2", 80, "10.0.0.1", 40_000, state);
    }

    @Test
    void oneWithBothEndsInTheJobIsNone() {
        connections.add("a", A, List.of(fromA("p", ESTABLISHED)), List.of());
        connections.add("b", B, List.of(fromB("q", ESTABLISHED)), List.of());
        assertEquals(List.of(), connections.problems());
        assertEquals(List.of(), connections.passing());
    }

    @Test
    void oneToAHostOutsideIsNamed() {
        connections.add("a", A, List.of(fromA("program (pid 7, fd 3)", ESTABLISHED)), List.of());
        assertEquals(List.of("host a: program (pid 7, fd 3): a TCP connection to 10.0.0.2:80: no host of the job has that address;"
                + " close it before the checkpoint, or launch what it leads to with shadowverbs, too"), connections.problems());
    }

    @Test
    void oneToAProcessOutsideOnAHostOfTheJobIsNamed() {
        connections.add("a", A, List.of(fromA("program (pid 7, fd 3)", ESTABLISHED)), List.of());
        connections.add("b", B, List.of(), List.of(fromB("pid 9 (sshd)", ESTABLISHED)));
        assertEquals(List.of("host a: program (pid 7, fd 3): a TCP connection to 10.0.0.2:80: pid 9 (sshd) on host b is outside the"
                + " job; close it before the checkpoint"), connections.problems());
    }

    @Test
    void oneThatNobodyHasAcceptedYetPasses() {
        connections.add("a", A, List.of(fromA("p", ESTABLISHED)), List.of());
        connections.add("b", B, List.of(), List.of(fromB("", ESTABLISHED)));
        assertEquals(List.of(), connections.problems());
        assertEquals(List.of("host a: p: a TCP connection to 10.0.0.2:80: nobody has accepted it yet on host b"),
                connections.passing());
    }

    @Test
    void oneWhoseOtherEndIsClosedOrStillBeingMadeIsNone() {
        connections.add("a", A, List.of(fromA("p", CLOSE_WAIT), new TcpSocket("p", "10.0.0.1", 1, "10.0.0.2", 2, CLOSE_WAIT),
                new TcpSocket("p", "10.0.0.1", 3, "10.0.0.2", 4, SYN_SENT)), List.of());
        connections.add("b", B, List.of(), List.of(fromB("", FIN_WAIT_2)));
        assertEquals(List.of(), connections.problems());
        assertEquals(List.of(), connections.passing());
    }
}
