// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Debian's verbs programs of all transports on the verbs device over TCP, and between it and the software HCA. */
@Timeout(240)
final class Ib2TcpProgramsSystemTest {
    /** More than a program does between two checkpoints. */
    private static final int ITERATIONS = 3_000;
    /** So large that it is the bytes that take time: on a crowded machine, too, on TCP as on the HCA. */
    private static final int LARGE = 4 << 20;
    private static final int DATAGRAMS = 100_000;
    private static final int DATAGRAM = 1 << 10;
    private static final int SECONDS = 8;
    private static final Duration ENDING = Duration.ofSeconds(120);

    /** Programs that compare what they receive: from TCP to the HCA and back, twice, each time killed in the midst. */
    @ParameterizedTest
    @ValueSource(strings = {"ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"})
    void pingPongGoesToTheHcaAndBack(final String program) throws Exception {
        try (Job job = Distribution.start()) {
            job.configure(Job.SLOW);
            job.backend("ib2tcp");
            final boolean datagrams = program.equals("ibv_ud_pingpong");
            final int iterations = datagrams ? DATAGRAMS : ITERATIONS;
            final int port = LocalPort.free();
            final List<String> command = new ArrayList<>(List.of("stdbuf", "-oL", program, "-c", "-g", "0", "-n",
                    Integer.toString(iterations), "-p", Integer.toString(port), "-s",
                    Integer.toString(datagrams ? DATAGRAM : LARGE)));
            final Running server = job.launch("server", command.toArray(new String[0]));
            job.await("the server to listen", LocalPort.listens(port), server);
            command.add("127.0.0.1");
            final Running client = job.launch("client", command.toArray(new String[0]));
            job.awaitRanks(2, server, client);
            job.awaitLines(client, "remote address", 1);

            goOn(job, "hca");
            goOn(job, "ib2tcp");
            job.configure("");
            goOn(job, "hca").succeed(ENDING);
            for (final Running running : List.of(server, client)) {
                assertEquals(1, running.lines(iterations + " iters in"), running.output() + running.errors());
                assertEquals(0, running.lines("invalid data"), running.output() + running.errors());
            }
        }
    }

    private static Running goOn(final Job job, final String backend) throws Exception {
        final String folder = job.checkpoint("--kill").get("folder").asText();
        job.backend(backend);
        return job.restartAndAwait(folder, 2);
    }

    @ParameterizedTest
    @ValueSource(strings = {"ib_send_bw", "ib_send_bw --use-srq -q 4", "ib_write_bw -c UC", "ib_send_lat -c UD",
        "ib_send_bw -c UD --use-srq", "ib_send_bw -c XRC -b"})
    void measuresOnAfterACheckpoint(final String program) throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final int port = LocalPort.free();
            final Running server = job.launch("server", command(program, SECONDS, port));
            job.await("the server to listen", LocalPort.listens(port), server);
            final Running client = job.launch("client", command(program, SECONDS, port, "127.0.0.1"));
            job.awaitRanks(2, server, client);
            final double start = client.processorSeconds();
            job.await("the client to measure", () -> client.processorSeconds() > start + 0.5, server, client);
            assertEquals(2, job.checkpoint().get("ranks").asInt());
            client.succeed(ENDING);
            server.succeed(ENDING);
            PerftestSystemTest.assertPlausible(client);
        }
    }

    @Test
    void measures() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            int n = 0;
            for (final String program : List.of("ib_send_bw -c UC", "ib_send_bw -c UD", "ib_send_lat -c UD -g", "ib_write_bw", "ib_read_lat",
                    "ib_atomic_bw")) {
                final int port = LocalPort.free();
                final Running server = job.launch("server-" + n, command(program, 1, port));
                job.await("the server to listen", LocalPort.listens(port), server);
                final Running client = job.launch("client-" + n++, command(program, 1, port, "127.0.0.1"));
                client.succeed(ENDING);
                server.succeed(ENDING);
                PerftestSystemTest.assertPlausible(client);
            }
        }
    }

    /** One process is both ends of XRC: its queue pairs send to the other's shared receive queue, and it has one. */
    @Test
    void pingPongOfXrc() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final int port = LocalPort.free();
            final List<String> command = new ArrayList<>(List.of("ibv_xsrq_pingpong", "-g", "0", "-n",
                    Integer.toString(ITERATIONS), "-p", Integer.toString(port)));
            final Running server = job.launch("server", command.toArray(new String[0]));
            job.await("the server to listen", LocalPort.listens(port), server);
            command.add("127.0.0.1");
            final Running client = job.launch("client", command.toArray(new String[0]));
            for (final Running running : List.of(client, server)) {
                running.succeed(ENDING);
                assertEquals(1, running.lines("success"), running.output() + running.errors());
            }
        }
    }

    private static String[] command(final String program, final int seconds, final int port, final String... more) {
        final List<String> command = new ArrayList<>(List.of(program.split(" ")));
        command.addAll(List.of("-F", "-D", Integer.toString(seconds), "-p", Integer.toString(port)));
        if (!program.contains("atomic")) {
            command.addAll(List.of("-s", "2048"));
        }
        command.addAll(List.of(more));
        return command.toArray(new String[0]);
    }
}
