// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.hosts;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Perftest;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.TwoHosts;

/** Debian's verbs programs, as they are, between two hosts that have Ethernet and nothing else. */
final class TwoHostsSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int PORT = 18515;

    @Test
    void pingPongEnds() throws Exception {
        try (TwoHosts hosts = TwoHosts.start()) {
            for (final Running program : run(hosts, "ibv_rc_pingpong", "-g", "0", "-c", "-n", "2000", "-p",
                    Integer.toString(PORT))) {
                assertEquals(1, program.lines("2000 iters in"), program.output() + program.errors());
                assertEquals(0, program.lines("invalid data"), program.output() + program.errors());
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_atomic_lat", "ib_send_lat -c UD -g"})
    void perftestMeasures(final String program) throws Exception {
        try (TwoHosts hosts = TwoHosts.start()) {
            Perftest.assertPlausible(run(hosts, Stream.concat(Stream.of(program.split(" ")),
                    Stream.of("-F", "-n", "2000", "-p", Integer.toString(PORT))).toArray(String[]::new)).getLast());
        }
    }

    /** Server on the first host, client on the second; both end with status 0. */
    private static List<Running> run(final TwoHosts hosts, final String... program) throws Exception {
        final Running server = hosts.launch(0, program);
        TwoHosts.await("the port", TwoHosts.listens(server, PORT), server);
        final Running client = hosts.launch(1, Stream.concat(Stream.of(program), Stream.of(TwoHosts.address(0)))
                .toArray(String[]::new));
        client.succeed(ENDING);
        server.succeed(ENDING);
        return List.of(server, client);
    }
}
