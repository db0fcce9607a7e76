// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.programs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;

/**
 * An MPI job of Debian's MPICH, which is built over UCX: nothing about it is said but how many ranks it has; and one of Open
 * MPI. The program checks every byte and every sum. Through a checkpoint, and killed and restarted, on one device or the other.
 */
final class MpiSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final String PROGRESS = "ROUND ";

    /**
     * {@code network}: messages do not go through memory, as they do between ranks of one host. Of five ranks some speak to
     * each other only after the restart, so that the library connects them then.
     */
    @ParameterizedTest
    @CsvSource({"ib2tcp ib2tcp, 2, false", "ib2tcp ib2tcp hca, 5, true", "hca ib2tcp, 2, true"})
    void goesOnAfterCheckpointAndAfterRestart(final String backends, final int ranks, final boolean network) throws Exception {
        final Map<String, String> settings = network
                ? Map.of("UCX_TLS", "rc,self", "MPIR_CVAR_NOLOCAL", "1", "SHADOWVERBS_IDS", "scrambled") : Map.of();
        try (Job job = Distribution.start(settings)) {
            goesOn(job, backends, ranks, "mpiexec.mpich", "-n", Integer.toString(ranks), job.program("mpi-exchange"));
        }
    }

    /** Its {@code mpirun} has pseudo terminals for the ranks, and it takes UCX when it is told to. */
    @Test
    void openMpiGoesOnAfterCheckpointAndAfterRestart() throws Exception {
        try (Job job = Distribution.start(Map.of("OMPI_ALLOW_RUN_AS_ROOT", "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"))) {
            goesOn(job, "hca ib2tcp ib2tcp", 2, "mpirun.openmpi", "--oversubscribe", "--mca", "pml", "ucx", "-n", "2",
                    job.program("mpi-exchange-openmpi"));
        }
    }

    /** @param backends that it is launched on, and restarted on, one after the other */
    private static void goesOn(final Job job, final String backends, final int ranks, final String... command) throws Exception {
        final List<String> each = List.of(backends.split(" "));
        if (each.contains("hca")) {
            UcxSystemTest.assumeDeviceOf(job);
        }
        job.backend(each.getFirst());
        final Path go = job.work().resolve("go");
        final Running program = job.launch("mpi", Stream.concat(Arrays.stream(command), Stream.of("--go", go.toString()))
                .toArray(String[]::new));
        job.awaitRanks(ranks, program);
        goesOn(job, program, program);
        job.checkpoint();
        goesOn(job, program, program);
        Running running = program;
        for (final String next : each.subList(1, each.size())) {
            running = job.killAndRestart(next, ranks, running);
            goesOn(job, program, running);
        }
        Files.createFile(go);
        running.succeed(ENDING);
        assertEquals(ranks, program.lines("DONE ok "), program.output() + program.errors());
    }

    private static void goesOn(final Job job, final Running output, final Running running) throws Exception {
        final long before = output.lines(PROGRESS);
        job.await("rounds of the MPI program", () -> output.lines(PROGRESS) >= before + 3, running);
    }
}
