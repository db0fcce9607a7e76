// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.ib2tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.EnoughRounds;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Perftest;
import org.shadowverbs.fabric.harness.Running;

/** Debian's verbs programs of all transports on the verbs device over TCP, and between it and the software HCA. */
final class Ib2TcpProgramsSystemTest {
    /** More than a program does between two checkpoints here; else there are more, of these and of the datagrams. */
    private static final int ITERATIONS = 1_000;
    /** So large that it is the bytes that take time: on a crowded machine, too, on TCP as on the HCA. */
    private static final int LARGE = 4 << 20;
    private static final int DATAGRAMS = 100_000;
    private static final int DATAGRAM = 1 << 10;
    private static final Duration ENDING = Running.DEADLINE;

    /** Programs that compare what they receive: from TCP to the HCA and back, twice, each time killed in the midst. */
    @ParameterizedTest
    @ValueSource(strings = {"ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"})
    void pingPongGoesToTheHcaAndBack(final String program) throws Exception {
        EnoughRounds.from(program.equals("ibv_ud_pingpong") ? DATAGRAMS : ITERATIONS, n -> goesToTheHcaAndBack(program, n));
    }

    /** @return whether there were so many iterations that the programs had not ended before they were to be saved */
    private static boolean goesToTheHcaAndBack(final String program, final int iterations) throws Exception {
        try (Job job = Distribution.start()) {
            job.configure(Job.SLOW);
            job.backend("ib2tcp");
            final boolean datagrams = program.equals("ibv_ud_pingpong");
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

            Running restarted = goOn(job, "hca", server, client);
            restarted = restarted == null ? null : goOn(job, "ib2tcp", restarted);
            job.configure("");
            restarted = restarted == null ? null : goOn(job, "hca", restarted);
            if (restarted == null) {
                return false;
            }
            restarted.succeed(ENDING);
            for (final Running running : List.of(server, client)) {
                assertEquals(1, running.lines(iterations + " iters in"), running.output() + running.errors());
                assertEquals(0, running.lines("invalid data"), running.output() + running.errors());
            }
            return true;
        }
    }

    /** Kills and restarts two ranks that run under those commands. @return null if they had ended before they could be saved */
    private static Running goOn(final Job job, final String backend, final Running... running) throws Exception {
        final Running checkpoint = job.startCheckpoint("--kill");
        checkpoint.awaitEnd(ENDING);
        if (Stream.of(running).anyMatch(Running::hasSucceeded)) {
            return null;
        }
        final JsonNode saved = job.checkpointed(checkpoint);
        assertEquals(2, saved.get("ranks").asInt());
        job.backend(backend);
        return job.restartAndAwait(saved.get("folder").asText(), 2);
    }

    @ParameterizedTest
    @ValueSource(strings = {"ib_send_bw", "ib_send_bw --use-srq -q 4", "ib_write_bw -c UC", "ib_send_lat -c UD",
        "ib_send_bw -c UD --use-srq", "ib_send_bw -c XRC -b"})
    void measuresOnAfterACheckpoint(final String program) throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final int port = LocalPort.free();
            final Running server = job.launch("server", command(program, port));
            job.await("the server to listen", LocalPort.listens(port), server);
            final Running client = job.launch("client", command(program, port, "127.0.0.1"));
            job.awaitRanks(2, server, client);
            Perftest.work(job, client);
            assertEquals(2, job.checkpoint().get("ranks").asInt());
            Perftest.work(job, client);
            Perftest.end(client, server);
            Perftest.assertPlausible(client);
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
                final Running server = job.launch("server-" + n, command(program, port));
                job.await("the server to listen", LocalPort.listens(port), server);
                final Running client = job.launch("client-" + n++, command(program, port, "127.0.0.1"));
                job.awaitRanks(2, server, client);
                Perftest.work(job, client);
                Perftest.end(client, server);
                Perftest.assertPlausible(client);
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

    private static String[] command(final String program, final int port, final String... more) {
        return Perftest.command(program.contains("atomic") ? program : program + " -s 2048", port, more);
    }
}
