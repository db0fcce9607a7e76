// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.process.TcpConnection;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSocket;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSockets;

/** Which connections between hosts are within the job, and which of those that nobody has accepted can be made again. */
class ConnectionsTest {
    private static final int ESTABLISHED = 1;
    private static final int SYN_SENT = 2;
    private static final int SYN_RECEIVED = 3;
    private static final int FIN_WAIT_1 = 4;
    private static final int FIN_WAIT_2 = 5;
    private static final int CLOSE_WAIT = 8;
    private static final TcpConnection AS_ITS_CLIENT_HAS_IT = new TcpConnection("10.0.0.1", 40_000, "10.0.0.2", 80);

    private final Connections connections = new Connections();

    private static TcpSocket fromA(final String holder, final int state) {
        return new TcpSocket(holder, "10.0.0.1", 40_000, "10.0.0.2", 80, state);
    }

    private static TcpSocket fromB(final String holder, final int state) {
        return new TcpSocket(holder, "10.0.0.2", 80, "10.0.0.1", 40_000, state);
    }

    private void a(final List<TcpSocket> ofJob, final List<TcpSocket> foreign) {
        connections.add("a", List.of(new NetAddress("eth0", "10.0.0.1")), new TcpSockets(ofJob, foreign, List.of()));
    }

    private void b(final List<TcpSocket> ofJob, final List<TcpSocket> foreign, final TcpSocket... waiting) {
        connections.add("b", List.of(new NetAddress("eth0", "10.0.0.2")), new TcpSockets(ofJob, foreign, List.of(waiting)));
    }

    /** Host b has a listener of the job, to which it has come. */
    private void waitsAtB(final int state) {
        b(List.of(), List.of(fromB("", state)), fromB("server (pid 9, fd 4)", state));
    }

    private void assertNothingInTheWay() {
        assertEquals(List.of(), connections.problems());
        assertEquals(List.of(), connections.passing());
        assertEquals(List.of(), connections.notToBeMadeAgain(Set.of("a", "b")));
    }

    @Test
    void oneWithBothEndsInTheJobIsNone() {
        a(List.of(fromA("p", ESTABLISHED)), List.of());
        b(List.of(fromB("q", ESTABLISHED)), List.of());
        assertNothingInTheWay();
        assertFalse(connections.mayWait());
    }

    @Test
    void oneToAHostOutsideIsNamed() {
        a(List.of(fromA("program (pid 7, fd 3)", ESTABLISHED)), List.of());
        assertEquals(List.of("host a: program (pid 7, fd 3): a TCP connection to 10.0.0.2:80: no host of the job has that address;"
                + " close it before the checkpoint, or launch what it leads to with shadowverbs, too"), connections.problems());
    }

    @Test
    void oneToAProcessOutsideOnAHostOfTheJobIsNamed() {
        a(List.of(fromA("program (pid 7, fd 3)", ESTABLISHED)), List.of());
        b(List.of(), List.of(fromB("pid 9 (sshd)", ESTABLISHED)));
        assertEquals(List.of("host a: program (pid 7, fd 3): a TCP connection to 10.0.0.2:80: pid 9 (sshd) on host b is outside the"
                + " job; close it before the checkpoint"), connections.problems());
    }

    @Test
    void oneToAListenerOutsideThatNobodyHasAcceptedIsNamed() {
        a(List.of(fromA("p", ESTABLISHED)), List.of());
        b(List.of(), List.of(fromB("", ESTABLISHED)));
        assertEquals(List.of("host a: p: a TCP connection to 10.0.0.2:80: what listens there on host b is outside the job; close it"
                + " before the checkpoint"), connections.problems());
    }

    @Test
    void oneThatNobodyHasAcceptedIsMadeAgainByItsClient() {
        a(List.of(fromA("p", ESTABLISHED)), List.of());
        waitsAtB(ESTABLISHED);
        assertNothingInTheWay();
        assertTrue(connections.mayWait());
        assertEquals(Map.of(AS_ITS_CLIENT_HAS_IT, "a"), connections.unaccepted());
    }

    @Test
    void oneWhoseClientIsNotAnsweredYetIsMadeAgain() {
        a(List.of(fromA("p", ESTABLISHED)), List.of());
        waitsAtB(SYN_RECEIVED);
        assertNothingInTheWay();
        assertEquals(Map.of(AS_ITS_CLIENT_HAS_IT, "a"), connections.unaccepted());
    }

    @Test
    void oneThatIsStillBeingMadeAsksAgainByItself() {
        a(List.of(fromA("p", SYN_SENT)), List.of());
        waitsAtB(SYN_RECEIVED);
        assertNothingInTheWay();
        assertTrue(connections.mayWait());
        assertEquals(Map.of(), connections.unaccepted());
    }

    @Test
    void oneThatItsClientHasClosedIsMadeAgainWhenAllHasCome() {
        a(List.of(), List.of(fromA("", FIN_WAIT_2)));
        waitsAtB(CLOSE_WAIT);
        assertNothingInTheWay();
        assertEquals(Map.of(AS_ITS_CLIENT_HAS_IT, "a"), connections.unaccepted());
    }

    @Test
    void oneOfWhichItsClientsKernelHasNothingLeftIsMadeAgainThere() {
        a(List.of(), List.of());
        waitsAtB(CLOSE_WAIT);
        assertNothingInTheWay();
        assertEquals(Map.of(AS_ITS_CLIENT_HAS_IT, "a"), connections.unaccepted());
    }

    @Test
    void oneThatItsClientHasClosedBeforeAllHadComeCanNotBeMadeAgain() {
        a(List.of(), List.of(fromA("", FIN_WAIT_1)));
        waitsAtB(ESTABLISHED);
        assertEquals(List.of("host b: server (pid 9, fd 4): a TCP connection to 10.0.0.1:40000: nobody has accepted it yet, and it was"
                + " closed on host a before all of it had come"), connections.notToBeMadeAgain(Set.of("a", "b")));
    }

    @Test
    void oneFromAHostThatHasNoProgramAnyMoreCanNotBeMadeAgain() {
        a(List.of(), List.of());
        waitsAtB(CLOSE_WAIT);
        assertEquals(List.of("host b: server (pid 9, fd 4): a TCP connection to 10.0.0.1:40000: nobody has accepted it yet, and host a,"
                + " from which it comes, has no program of the job any more"), connections.notToBeMadeAgain(Set.of("b")));
    }

    @Test
    void oneFromAProcessOutsideTheJobCanNotBeMadeAgain() {
        a(List.of(), List.of(fromA("pid 8 (nc)", ESTABLISHED)));
        waitsAtB(ESTABLISHED);
        assertEquals(List.of("host b: server (pid 9, fd 4): a TCP connection to 10.0.0.1:40000: nobody has accepted it yet, and pid 8"
                + " (nc) on host a, from which it comes, is outside the job"), connections.notToBeMadeAgain(Set.of("a", "b")));
    }

    /** Host b may have told of its own before this one came. */
    @Test
    void oneOfWhoseOtherEndNobodyHasToldMayWait() {
        a(List.of(fromA("p", ESTABLISHED)), List.of());
        b(List.of(), List.of());
        assertNothingInTheWay();
        assertTrue(connections.mayWait());
    }

    @Test
    void oneWhoseOtherEndIsClosedIsNone() {
        a(List.of(fromA("p", CLOSE_WAIT), new TcpSocket("p", "10.0.0.1", 1, "10.0.0.2", 2, CLOSE_WAIT)), List.of());
        b(List.of(), List.of(fromB("", FIN_WAIT_2)));
        assertNothingInTheWay();
        assertFalse(connections.mayWait());
    }
}
