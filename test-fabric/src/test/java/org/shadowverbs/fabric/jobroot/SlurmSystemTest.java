// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.jobroot;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.SlurmCluster;

/** MPI jobs of Debian's MPICH that srun starts on two nodes, with a line to Slurm from each rank. */
final class SlurmSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int RANKS = 4;
    /** UCX takes the nodes for one host, as they have one kernel: it is to use no memory between them. */
    private static final Map<String, String> NO_MEMORY = Map.of("MPIR_CVAR_NOLOCAL", "1", "SHADOWVERBS_SECRET", "known to both nodes");

    private SlurmCluster cluster;
    private String port;
    private int coordinators;

    @Test
    void slurmRunsAProgramOnTwoNodes() throws Exception {
        try (SlurmCluster slurm = SlurmCluster.start(NO_MEMORY)) {
            slurm.environment("UCX_TLS", "tcp,self");
            slurm.environment("UCX_NET_DEVICES", "cable");
            final Path go = Files.createFile(slurm.work().resolve("go"));
            final String said = slurm.succeed(0, "srun", "-N", "2", "--mpi=pmi2", program(), "--go", go.toString());
            assertEquals(2, said.lines().filter(line -> line.startsWith("DONE ok ")).count(), said);
        }
    }

    /** The ranks' last barriers are over without Slurm, which knows nothing of them any more. */
    @ParameterizedTest
    @CsvSource({"false", "true"})
    void goesOnAfterScancelOnOtherNodesAndOnOne(final boolean ordinaryUser) throws Exception {
        try (SlurmCluster slurm = SlurmCluster.start(NO_MEMORY)) {
            cluster = slurm;
            slurm.environment("UCX_TLS", "rc,self");
            if (ordinaryUser) {
                slurm.byOrdinaryUser();
            }
            final Path go = slurm.folder("signs").resolve("go");
            final Path checkpoints = slurm.folder("checkpoints");
            startCoordinator(checkpoints);
            final Running program = srun(List.of("-N", "2", "-n", Integer.toString(RANKS)), "launch", "--backend", "ib2tcp", "--",
                    program(), "--go", go.toString());
            goesOn(program);
            checkpoint();
            goesOn(program);
            checkpoint();
            slurm.succeed(0, "scancel", "--signal=KILL", "--full", slurm.succeed(0, "squeue", "-h", "-o", "%A").strip());
            program.awaitEnd(ENDING);

            startCoordinator(checkpoints);
            final Running exchanged = slurm.run(0, "srun", "-N", "2", "--ntasks-per-node=1", "sh", "-c",
                    "case $(hostname) in node0) other=node1 ;; *) other=node0 ;; esac; exec " + SlurmCluster.shadowverbs()
                    + " restart " + String.join(" ", at()) + " --hosts 2 --from $other " + checkpoints);
            goesOn(exchanged);
            checkpoint("--kill");
            exchanged.awaitEnd(ENDING);

            startCoordinator(checkpoints);
            final Running onOne = srun(List.of("-N", "1", "-n", "1", "-w", SlurmCluster.name(1)), "restart", checkpoints.toString());
            goesOn(onOne);
            Files.createFile(go);
            onOne.succeed(ENDING);
            assertEquals(RANKS, onOne.lines("DONE ok "), onOne.output() + onOne.errors());
        }
    }

    /** On one node, as the software HCA reaches no other; after the restart on the other one. */
    @Test
    void goesOnFromTheHcaOverTcp() throws Exception {
        try (SlurmCluster slurm = SlurmCluster.start(NO_MEMORY)) {
            cluster = slurm;
            slurm.environment("UCX_TLS", "rc,self");
            final Path go = slurm.folder("signs").resolve("go");
            final Path checkpoints = slurm.folder("checkpoints");
            startCoordinator(checkpoints);
            final Running program = srun(List.of("-N", "1", "-n", Integer.toString(RANKS)), "launch", "--backend", "hca",
                    "--test-fabric", "--", program(), "--go", go.toString());
            goesOn(program);
            checkpoint();
            slurm.succeed(0, "scancel", "--signal=KILL", "--full", slurm.succeed(0, "squeue", "-h", "-o", "%A").strip());
            program.awaitEnd(ENDING);

            startCoordinator(checkpoints);
            final Running restart = srun(List.of("-N", "1", "-n", "1", "-w", SlurmCluster.name(1)), "restart", "--backend", "ib2tcp",
                    checkpoints.toString());
            goesOn(restart);
            Files.createFile(go);
            restart.succeed(ENDING);
            assertEquals(RANKS, restart.lines("DONE ok "), restart.output() + restart.errors());
        }
    }

    private static String program() {
        return Distribution.DIST.resolve("programs/mpi-exchange").toString();
    }

    /** In place of the one before, and what that has run. */
    private void startCoordinator(final Path checkpoints) throws Exception {
        if (port != null) {
            shadowverbs("kill", "--now").awaitEnd(ENDING);
            shadowverbs("quit").succeed(ENDING);
        }
        final Path file = checkpoints.resolveSibling("signs").resolve("port-" + coordinators++);
        cluster.shadowverbs(0, "coordinator", "--daemon", "--address", SlurmCluster.address(0), "--port", "0", "--port-file",
                file.toString(), "--ckptdir", checkpoints.toString()).succeed(ENDING);
        port = Files.readString(file).strip();
    }

    private List<String> at() {
        return List.of("-h", SlurmCluster.address(0), "-p", port);
    }

    private Running shadowverbs(final String command, final String... options) throws IOException {
        final List<String> all = new ArrayList<>(List.of(command));
        all.addAll(at());
        all.addAll(List.of(options));
        return cluster.shadowverbs(0, all.toArray(String[]::new));
    }

    private void checkpoint(final String... options) throws Exception {
        shadowverbs("checkpoint", options).succeed(ENDING);
    }

    /** A command of ours as the program of a job of Slurm's. */
    private Running srun(final List<String> options, final String command, final String... arguments) throws IOException {
        final List<String> all = new ArrayList<>(List.of("srun", "--mpi=pmi2"));
        all.addAll(options);
        all.addAll(List.of(SlurmCluster.shadowverbs(), command));
        all.addAll(at());
        all.addAll(List.of(arguments));
        return cluster.run(0, all.toArray(String[]::new));
    }

    private void goesOn(final Running running) throws Exception {
        final long before = running.lines("ROUND ");
        cluster.await("rounds of the MPI program", () -> running.lines("ROUND ") >= before + 3, running);
    }
}
