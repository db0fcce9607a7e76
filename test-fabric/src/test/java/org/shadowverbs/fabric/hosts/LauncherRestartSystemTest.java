// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.hosts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.SlurmCluster;
import org.shadowverbs.fabric.harness.TwoNodes;

/**
 * MPI jobs that {@code launch mpirun} has started on two nodes, through checkpoints and restarts. Their programs check
 * all that they receive; mpi-exchange speaks to new neighbours at its end.
 */
@Timeout(280)
final class LauncherRestartSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int RANKS = 4;
    private static final Map<String, String> SETTINGS = Map.of("SHADOWVERBS_SECRET", "known to both nodes",
            "OMPI_ALLOW_RUN_AS_ROOT", "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", "OMPI_MCA_rmaps_base_oversubscribe", "1");
    /** The nodes have one kernel, so libraries take them for one host: messages are to use no memory between them. */
    private static final Map<String, String> OVER_UCX = Map.of("OMPI_MCA_pml", "ucx", "OMPI_MCA_btl", "tcp,self",
            "UCX_TLS", "rc,self", "MPIR_CVAR_NOLOCAL", "1");
    /** Open MPI's own: memory of /dev/shm within a node, TCP between them. */
    private static final Map<String, String> OVER_MEMORY_AND_TCP = Map.of("OMPI_MCA_pml", "ob1");
    private static final Map<String, String> OVER_TCP = Map.of("OMPI_MCA_pml", "ob1", "OMPI_MCA_btl", "tcp,self");

    /** It has a FIFO below its folder of temporary files, for a debugger. */
    private static final String OPEN_MPI = "mpirun.openmpi";
    private static final String FIFO_MADE = "debugger_attach_fifo, which this host did not have";

    private TwoNodes nodes;
    private Path checkpoints;
    private List<String> at = List.of();
    private int coordinators;

    @Test
    void openMpiOverUcxGoesOnExchangedAndOnOneNode() throws Exception {
        goesOn(OVER_UCX, OPEN_MPI, "mpi-exchange-openmpi", "node1 node0", "node0");
    }

    @Test
    void openMpiOverItsOwnTransportsGoesOnOnOneNodeAndOnBothAgain() throws Exception {
        goesOn(OVER_MEMORY_AND_TCP, OPEN_MPI, "mpi-exchange-openmpi", "node0", "node1", "any any", "node1 node0");
    }

    @Test
    void mpichGoesOnOnTheSameNodesExchangedAndOnOne() throws Exception {
        goesOn(OVER_UCX, "mpirun.mpich", "mpi-exchange", "node0 node1", "node1 node0", "node1");
    }

    /** @param restarts for each: for each node, what it takes over; for one node alone, which that is */
    private void goesOn(final Map<String, String> settings, final String launcher, final String program, final String... restarts)
            throws Exception {
        try (TwoNodes two = TwoNodes.start(SETTINGS)) {
            nodes = two;
            settings.forEach(two::environment);
            checkpoints = two.folder("checkpoints");
            final Path go = two.work().resolve("go");
            final Running first = two.shadowverbs(0, "launch", "--backend", "ib2tcp", "--ckptdir", checkpoints.toString(),
                    "--", launcher, "-n", Integer.toString(RANKS), "--host", "node0,node0,node1,node1",
                    Distribution.DIST.resolve("programs").resolve(program).toString(), "--go", go.toString());
            goesOn(first, List.of(first));
            checkpoint();
            goesOn(first, List.of(first));
            checkpoint("--kill");
            first.awaitEnd(ENDING);
            List<Running> running = List.of();
            boolean madeFifo = false;
            for (int i = 0; i < restarts.length; i++) {
                running = restart(restarts[i].split(" "));
                goesOn(first, running);
                for (final Running restart : running) {
                    madeFifo |= restart.errors().contains(FIFO_MADE);
                }
                if (i < restarts.length - 1) {
                    checkpoint("--kill");
                    end(running);
                }
            }
            Files.createFile(go);
            for (final Running restart : running) {
                restart.succeed(ENDING);
            }
            assertEquals(RANKS, first.lines("DONE ok "), first.output());
            assertEquals(launcher.equals(OPEN_MPI), madeFifo, "a FIFO was made on a node that did not have it");
        }
    }

    /** In an allocation, and then in another one with the nodes exchanged. Hpcc checks its results. */
    @Test
    void hpccOverTcpAloneGoesOnInAnotherAllocation() throws Exception {
        try (SlurmCluster slurm = SlurmCluster.start(SETTINGS)) {
            nodes = slurm;
            OVER_TCP.forEach(slurm::environment);
            Files.delete(slurm.work().resolve("bin/ssh"));
            checkpoints = slurm.folder("checkpoints");
            Files.writeString(slurm.work().resolve("hpccinf.txt"), HPCC);
            final Path results = slurm.work().resolve("hpccoutf.txt");
            final Running first = slurm.run(0, "salloc", "-Q", "-N", "2", "--ntasks-per-node=1",
                    TwoNodes.shadowverbs(), "launch", "--ckptdir", checkpoints.toString(), OPEN_MPI, "hpcc");
            nodes.await("hpcc's first results", () -> has(results, "Begin of MPIRandomAccess section"), first);
            checkpoint();
            nodes.await("results after the checkpoint", () -> has(results, "Begin of StarRandomAccess section"), first);
            checkpoint("--kill");
            first.awaitEnd(ENDING);
            assertFalse(has(results, "End of HPC Challenge tests"), Files.readString(results));
            startCoordinator();
            slurm.run(0, "salloc", "-Q", "-N", "2", "srun", "--ntasks-per-node=1", "sh", "-c",
                    "case $(hostname) in node0) from=node1 ;; *) from=node0 ;; esac; exec " + TwoNodes.shadowverbs() + " restart "
                    + String.join(" ", at) + " --hosts 2 --from $from " + checkpoints).succeed(ENDING);
            final String said = Files.readString(results);
            assertTrue(said.contains("End of HPC Challenge tests") && said.contains("PASSED") && said.contains("Success=1"), said);
            assertFalse(said.contains("FAILED"), said);
        }
    }

    private static boolean has(final Path file, final String text) {
        try {
            return Files.exists(file) && Files.readString(file).contains(text);
        } catch (final IOException e) {
            return false; // it is there in a moment
        }
    }

    private void checkpoint(final String... options) throws Exception {
        final List<String> command = new ArrayList<>(List.of("checkpoint"));
        command.addAll(at);
        command.addAll(List.of(options));
        nodes.shadowverbs(0, command.toArray(String[]::new)).succeed(ENDING);
    }

    private void startCoordinator() throws Exception {
        final Path file = nodes.work().resolve("port-" + coordinators++);
        nodes.shadowverbs(0, "coordinator", "--daemon", "--exit-on-last", "--address", TwoNodes.address(0), "--port", "0", "--port-file",
                file.toString(), "--ckptdir", checkpoints.toString()).succeed(ENDING);
        at = List.of("-h", TwoNodes.address(0), "-p", Files.readString(file).strip());
    }

    /** By a new coordinator. */
    private List<Running> restart(final String... from) throws Exception {
        startCoordinator();
        final List<Running> restarts = new ArrayList<>();
        for (int node = 0; node < from.length; node++) {
            final List<String> command = new ArrayList<>(List.of("restart"));
            command.addAll(at);
            command.addAll(List.of("--hosts", Integer.toString(from.length)));
            command.addAll(from.length == 1 || from[node].equals("any") ? List.of() : List.of("--from", from[node]));
            command.add(checkpoints.toString());
            final boolean alone = from.length == 1 && from[node].equals(TwoNodes.name(1));
            restarts.add(nodes.shadowverbs(alone ? 1 : node, command.toArray(String[]::new)));
        }
        return restarts;
    }

    private static void end(final List<Running> restarts) throws IOException, InterruptedException {
        for (final Running restart : restarts) {
            restart.awaitEnd(ENDING);
        }
    }

    /** @param output has the launcher's output, also after a restart */
    private void goesOn(final Running output, final List<Running> running) throws Exception {
        final long before = output.lines("ROUND ");
        nodes.await("rounds of the MPI program", () -> output.lines("ROUND ") >= before + 3, running.toArray(Running[]::new));
    }

    /** All of its tests, small; one process on each node: four on two processors wait for each other most of the time. */
    private static final String HPCC = """
            HPLinpack benchmark input file
            Innovative Computing Laboratory, University of Tennessee
            HPL.out      output file name (if any)
            8            device out (6=stdout,7=stderr,file)
            1            # of problems sizes (N)
            800          Ns
            1            # of NBs
            80           NBs
            0            PMAP process mapping (0=Row-,1=Column-major)
            1            # of process grids (P x Q)
            1            Ps
            2            Qs
            16.0         threshold
            1            # of panel fact
            2            PFACTs (0=left, 1=Crout, 2=Right)
            1            # of recursive stopping criterium
            4            NBMINs (>= 1)
            1            # of panels in recursion
            2            NDIVs
            1            # of recursive panel fact.
            1            RFACTs (0=left, 1=Crout, 2=Right)
            1            # of broadcast
            1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
            1            # of lookahead depth
            1            DEPTHs (>=0)
            2            SWAP (0=bin-exch,1=long,2=mix)
            64           swapping threshold
            0            L1 in (0=transposed,1=no-transposed) form
            0            U  in (0=transposed,1=no-transposed) form
            1            Equilibration (0=no,1=yes)
            8            memory alignment in double (> 0)
            ##### This line (no. 32) is ignored (it serves as a separator). ######
            0            Number of additional problem sizes for PTRANS
            1200         values of N
            0            number of additional blocking sizes for PTRANS
            40           values of NB
            """;
}
