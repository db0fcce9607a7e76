// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.hosts;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Perftest;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.TwoHosts;

/** Debian's verbs programs, as they are, between two hosts that have Ethernet and nothing else. */
final class TwoHostsSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int PORT = 18515;

    @Test
    void programsEnd() throws Exception {
        try (TwoHosts hosts = TwoHosts.start()) {
            for (final Running program : run(hosts, PORT, "ibv_rc_pingpong", "-g", "0", "-c", "-n", "2000")) {
                assertEquals(1, program.lines("2000 iters in"), program.output() + program.errors());
                assertEquals(0, program.lines("invalid data"), program.output() + program.errors());
            }
            int port = PORT;
            for (final String program : List.of("ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_atomic_lat", "ib_send_lat -c UD -g")) {
                Perftest.assertPlausible(run(hosts, ++port, (program + " -F -n 2000").split(" ")).getLast());
            }
        }
    }

    /** Server on the first host, client on the second; both end with status 0. */
    private static List<Running> run(final TwoHosts hosts, final int port, final String... program) throws Exception {
        final List<String> command = new ArrayList<>(List.of(program));
        command.addAll(List.of("-p", Integer.toString(port)));
        final Running server = hosts.launch(0, command.toArray(new String[0]));
        TwoHosts.await("the port", TwoHosts.listens(server, port), server);
        command.add(TwoHosts.address(0));
        final Running client = hosts.launch(1, command.toArray(new String[0]));
        client.succeed(ENDING);
        server.succeed(ENDING);
        return List.of(server, client);
    }
}
