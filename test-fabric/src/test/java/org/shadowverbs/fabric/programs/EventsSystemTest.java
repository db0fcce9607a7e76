// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.programs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.LocalPort;
import org.shadowverbs.fabric.harness.Running;

/**
 * Programs that sleep until a completion event, from each backend to each: through a checkpoint, and killed and restarted
 * again and again. gloo, of Debian's package, asks for events before it polls, from eight queues on one channel; perftest counts its
 * events; UCX asks for one after its last poll, and relies on being told then of what has come in between.
 */
final class EventsSystemTest {
    private static final int GLOO_RANKS = 3;
    /** Each is run as a server and a client; none comes to its end. */
    private static final List<String> PAIRS = List.of("ib_send_lat -c UD -e -F -n 4000000", "ib_send_bw -s 4096 -e -F -N -n 100000000",
            "env UCX_TLS=rc ucx_perftest -E sleep -t tag_lat -n 1000000000", "env UCX_TLS=ud ucx_perftest -E sleep -t tag_lat -n 1000000000");
    /** Of a main thread's time on a processor, in clock ticks: enough for hundreds of events. */
    private static final int TICKS_OF_WORK = 2;
    /** So long the HCA takes for each request: at full speed the pairs leave little of the processors to a checkpoint. */
    private static final String SLOWER = "SV_HCA_EXEC_DELAY_US=1000";
    /** The header of the library, from which its program is built. */
    private static final Path GLOO = Path.of("/usr/include/gloo/config.h");

    /** It checks every sum. */
    @ParameterizedTest
    @ValueSource(strings = {"hca, hca, ib2tcp, ib2tcp", "ib2tcp, ib2tcp, hca, hca"})
    void glooGoesOn(final String backends) throws Exception {
        assumeTrue(Files.exists(GLOO), "there is no " + GLOO + ", of which libgloo-dev is the package");
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", "scrambled"))) {
            final List<String> each = List.of(backends.split(", "));
            job.backend(each.getFirst());
            final Path meeting = Files.createDirectory(job.work().resolve("gloo"));
            final Running[] ranks = new Running[GLOO_RANKS];
            for (int i = 0; i < GLOO_RANKS; i++) {
                ranks[i] = job.launch("gloo-" + i, job.program("allreduce"), Integer.toString(i),
                        Integer.toString(GLOO_RANKS), meeting.toString());
            }
            prints(job, "round ", ranks[0], ranks);
            job.checkpoint();
            prints(job, "round ", ranks[0], ranks);
            Running[] running = ranks;
            for (final String next : each.subList(1, each.size())) {
                running = new Running[] {job.killAndRestart(next, GLOO_RANKS, running)};
                prints(job, "round ", ranks[0], running);
            }
        }
    }

    /** From an HCA to ib2tcp and back; with one as UCX needs it: on others it may sleep for ever by itself. */
    @Test
    void pairsGoOn() throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", "scrambled", "SV_HCA_PERSONALITY", "mlx5"))) {
            UcxSystemTest.assumeDeviceOf(job);
            job.configure(SLOWER);
            final List<Running> programs = new ArrayList<>();
            for (final String pair : PAIRS) {
                final int port = LocalPort.free();
                final String command = pair + " -p " + port;
                final Running server = job.launch("server-" + programs.size(), command.split(" "));
                programs.add(server);
                job.await("the server to listen", LocalPort.listens(port), server);
                programs.add(job.launch("client-" + programs.size(), (command + " 127.0.0.1").split(" ")));
            }
            final Running[] launched = programs.toArray(new Running[0]);
            job.awaitRanks(launched.length, launched);
            work(job, launched);
            job.checkpoint();
            work(job, launched);
            Running restarted = job.killAndRestart("ib2tcp", launched.length, launched);
            work(job, restarted);
            restarted = job.killAndRestart("hca", launched.length, restarted);
            work(job, restarted);
        }
    }

    /** Waits until the main thread of each of the pairs' processes has worked: what sleeps for ever does not. */
    private static void work(final Job job, final Running... running) throws Exception {
        final Map<Long, Integer> before = new HashMap<>();
        for (final Running program : running) {
            Stream.concat(Stream.of(program.pid()), program.descendants().stream().map(ProcessHandle::pid))
                    .filter(EventsSystemTest::isOfAPair).forEach(pid -> before.put(pid, ticks(pid)));
        }
        assertEquals(2 * PAIRS.size(), before.size(), before.toString());
        for (final Map.Entry<Long, Integer> process : before.entrySet()) {
            job.await("the events of process " + process.getKey() + ", " + name(process.getKey()),
                    () -> ticks(process.getKey()) >= process.getValue() + TICKS_OF_WORK, running);
        }
    }

    private static boolean isOfAPair(final long pid) {
        return name(pid).startsWith("ib_send") || name(pid).startsWith("ucx_perftest");
    }

    private static String name(final long pid) {
        return ofMainThread(pid, "comm").strip();
    }

    private static int ticks(final long pid) {
        final String stat = ofMainThread(pid, "stat");
        final String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        return Integer.parseInt(fields[11]) + Integer.parseInt(fields[12]);
    }

    private static String ofMainThread(final long pid, final String file) {
        try {
            return Files.readString(Path.of("/proc", Long.toString(pid), "task", Long.toString(pid), file));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void prints(final Job job, final String line, final Running from, final Running... running)
            throws Exception {
        final long before = from.lines(line);
        job.await("more of \"" + line + "\" from " + from.name(), () -> from.lines(line) >= before + 2, running);
    }
}
