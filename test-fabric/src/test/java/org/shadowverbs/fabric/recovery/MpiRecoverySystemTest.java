// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.TwoNodes;

/** An MPI job that mpirun has started on two nodes loses one of them, and goes on by itself on the first and a spare one. */
@Timeout(600)
final class MpiRecoverySystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int NODES = 3;
    private static final int RANKS = 4;
    /** The nodes have one kernel, so libraries take them for one host: messages are to use no memory between them. */
    private static final Map<String, String> SETTINGS = Map.of("SHADOWVERBS_SECRET", "known to all nodes",
            "OMPI_ALLOW_RUN_AS_ROOT", "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", "OMPI_MCA_rmaps_base_oversubscribe", "1",
            "OMPI_MCA_pml", "ucx", "OMPI_MCA_btl", "tcp,self", "UCX_TLS", "rc,self", "MPIR_CVAR_NOLOCAL", "1");

    private TwoNodes nodes;
    private Path log;

    @ParameterizedTest
    @CsvSource({"mpirun.openmpi, mpi-exchange-openmpi", "mpirun.mpich, mpi-exchange"})
    void survivesTheLossOfANode(final String launcher, final String program) throws Exception {
        try (TwoNodes three = TwoNodes.start(SETTINGS, NODES)) {
            nodes = three;
            final Path checkpoints = three.folder("checkpoints");
            final Path port = three.work().resolve("port");
            three.shadowverbs(0, "coordinator", "--daemon", "--exit-on-last", "--address", TwoNodes.address(0), "--port", "0",
                    "--port-file", port.toString(), "--ckptdir", checkpoints.toString(), "--recover-job", "3").succeed(ENDING);
            final String[] at = {"-h", TwoNodes.address(0), "-p", Files.readString(port).strip()};
            log = three.work().resolve("run-" + TwoNodes.name(0)).resolve(at[3]).resolve("coordinator.log");
            three.shadowverbs(2, with(at, "agent", "--daemon", "--spare")).succeed(ENDING);
            final Path go = three.work().resolve("go");
            final Running first = three.shadowverbs(0, with(at, "launch", "--backend", "ib2tcp", "--", launcher, "-n",
                    Integer.toString(RANKS), "--host", "node0,node0,node1,node1",
                    Distribution.DIST.resolve("programs").resolve(program).toString(), "--go", go.toString()));
            goesOn(first);
            three.shadowverbs(0, with(at, "checkpoint")).succeed(ENDING);
            goesOn(first);
            three.cut(1, true);
            three.await("the job to be back", () -> logged(" recovered in "), first);
            assertTrue(logged("what ran on host node1 goes on on node2"), Files.readString(log));
            goesOn(first);
            Files.createFile(go);
            first.succeed(ENDING);
            assertEquals(RANKS, first.lines("DONE ok "), first.output());
            three.cut(1, false);
        }
    }

    private boolean logged(final String text) {
        try {
            return Files.readString(log).contains(text);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The options for the coordinator go behind the command. */
    private static String[] with(final String[] at, final String command, final String... arguments) {
        return Stream.of(Stream.of(command), Stream.of(at), Stream.of(arguments)).flatMap(s -> s).toArray(String[]::new);
    }

    private void goesOn(final Running program) throws Exception {
        final long before = program.lines("ROUND ");
        nodes.await("rounds of the MPI program", () -> program.lines("ROUND ") >= before + 3, program);
    }
}
