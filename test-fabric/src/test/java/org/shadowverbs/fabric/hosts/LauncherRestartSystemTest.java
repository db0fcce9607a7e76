// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.hosts;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.TwoNodes;

/**
 * MPI jobs that {@code launch mpirun} has started on two nodes, through checkpoints and restarts. The program checks all that it
 * receives, and speaks to new neighbours at its end.
 */
@Timeout(280)
final class LauncherRestartSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int RANKS = 4;
    /** The nodes have one kernel, so libraries take them for one host: messages are to use no memory between them. */
    private static final Map<String, String> SETTINGS = Map.of("SHADOWVERBS_SECRET", "known to both nodes",
            "OMPI_ALLOW_RUN_AS_ROOT", "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", "MPIR_CVAR_NOLOCAL", "1", "OMPI_MCA_rmaps_base_oversubscribe", "1",
            "UCX_TLS", "rc,self", "OMPI_MCA_btl", "tcp,self");

    private TwoNodes nodes;
    private Path checkpoints;
    private List<String> at = List.of();
    private int coordinators;

    @ParameterizedTest
    @CsvSource({"mpirun.openmpi, ucx", "mpirun.openmpi, ob1", "mpirun.mpich, ucx"})
    void goesOnOnTheSameNodesAndExchanged(final String launcher, final String messaging) throws Exception {
        try (TwoNodes two = TwoNodes.start(SETTINGS)) {
            nodes = two;
            two.environment("OMPI_MCA_pml", messaging);
            checkpoints = two.folder("checkpoints");
            final Path go = two.work().resolve("go");
            final String program = "programs/mpi-exchange" + (launcher.endsWith("openmpi") ? "-openmpi" : "");
            final Running first = two.shadowverbs(0, "launch", "--backend", "ib2tcp", "--ckptdir", checkpoints.toString(), "--", launcher,
                    "-n", Integer.toString(RANKS), "--host", "node0,node0,node1,node1", Distribution.DIST.resolve(program).toString(),
                    "--go", go.toString());
            goesOn(first, first);
            checkpoint();
            goesOn(first, first);
            checkpoint("--kill");
            first.awaitEnd(ENDING);

            final List<Running> same = restart("node0", "node1");
            goesOn(first, same.get(0));
            checkpoint("--kill");
            end(same);

            final List<Running> exchanged = restart("node1", "node0");
            goesOn(first, exchanged.get(1));
            Files.createFile(go);
            for (final Running restart : exchanged) {
                restart.succeed(ENDING);
            }
            assertEquals(RANKS, first.lines("DONE ok "), first.output() + exchanged.get(1).errors());
        }
    }

    private void checkpoint(final String... options) throws Exception {
        final List<String> command = new ArrayList<>(List.of("checkpoint"));
        command.addAll(at);
        command.addAll(List.of(options));
        nodes.shadowverbs(0, command.toArray(String[]::new)).succeed(ENDING);
    }

    /** By a new coordinator; each node takes over what ran on the nodes named for it. */
    private List<Running> restart(final String... from) throws Exception {
        final Path file = nodes.work().resolve("port-" + coordinators++);
        nodes.shadowverbs(0, "coordinator", "--daemon", "--exit-on-last", "--address", TwoNodes.address(0), "--port", "0", "--port-file",
                file.toString(), "--ckptdir", checkpoints.toString()).succeed(ENDING);
        at = List.of("-h", TwoNodes.address(0), "-p", Files.readString(file).strip());
        final List<Running> restarts = new ArrayList<>();
        for (int node = 0; node < from.length; node++) {
            final List<String> command = new ArrayList<>(List.of("restart"));
            command.addAll(at);
            command.addAll(List.of("--hosts", Integer.toString(from.length), "--from", from[node], checkpoints.toString()));
            restarts.add(nodes.shadowverbs(node, command.toArray(String[]::new)));
        }
        return restarts;
    }

    private static void end(final List<Running> restarts) throws IOException, InterruptedException {
        for (final Running restart : restarts) {
            restart.awaitEnd(ENDING);
        }
    }

    /** @param output has the launcher's output, also after a restart */
    private void goesOn(final Running output, final Running running) throws Exception {
        final long before = output.lines("ROUND ");
        nodes.await("rounds of the MPI program", () -> output.lines("ROUND ") >= before + 3, running);
    }
}
