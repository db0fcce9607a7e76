// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.hosts;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.SlurmCluster;
import org.shadowverbs.fabric.harness.TwoNodes;

/** {@code shadowverbs launch mpirun} over two nodes: Debian's Open MPI and MPICH, as their users call them. */
@Timeout(150)
final class LauncherSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final String OPEN_MPI = "mpirun.openmpi";
    private static final int RANKS = 4;
    /** The nodes have one kernel, so libraries take them for one host: messages are to use no memory between them. */
    private static final Map<String, String> SETTINGS = Map.of("OMPI_ALLOW_RUN_AS_ROOT", "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1",
            "MPIR_CVAR_NOLOCAL", "1", "OMPI_MCA_rmaps_base_oversubscribe", "1");
    /** What a rank says of itself, whichever launcher has started it. */
    private static final String WHO = "echo rank ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} on $(hostname)";

    private TwoNodes nodes;

    @ParameterizedTest
    @CsvSource({"mpirun.openmpi, ucx", "mpirun.openmpi, tcp", "mpirun.mpich, ucx"})
    void ranksOnBothNodesExchangeMessages(final String launcher, final String transport) throws Exception {
        try (TwoNodes two = TwoNodes.start(SETTINGS)) {
            nodes = two;
            two.environment("UCX_TLS", "rc,self");
            two.environment("OMPI_MCA_pml", transport.equals("ucx") ? "ucx" : "ob1");
            two.environment("OMPI_MCA_btl", "tcp,self");
            final Path go = Files.createFile(two.work().resolve("go"));
            final Running mpi = launch(launcher, "node0,node0,node1,node1", Distribution.DIST.resolve("programs/mpi-exchange"
                    + (launcher.equals(OPEN_MPI) ? "-openmpi" : "")).toString(), "--go", go.toString());
            mpi.succeed(ENDING);
            assertEquals(RANKS, mpi.lines("DONE ok "), mpi.output() + mpi.errors());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {OPEN_MPI, "mpirun.mpich"})
    void outputAndInputAreTheLaunchers(final String launcher) throws Exception {
        try (TwoNodes two = TwoNodes.start(SETTINGS)) {
            nodes = two;
            final Path input = Files.writeString(two.work().resolve("input"), "what is typed\n");
            final Running mpi = launch(List.of("sh", "-c", "exec \"$@\" < " + input, "sh"), launcher, "node1,node1", "sh", "-c",
                    WHO + "; [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ] || cat; echo error of $(hostname) >&2");
            mpi.succeed(ENDING);
            assertEquals(List.of("rank 0 on node1", "rank 1 on node1", "what is typed"), mpi.output().lines().sorted().toList(), mpi.errors());
            assertEquals(2, mpi.errors().lines().filter("error of node1"::equals).count(), mpi.errors());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {OPEN_MPI, "mpirun.mpich"})
    void statusOfARankIsTheLaunchers(final String launcher) throws Exception {
        try (TwoNodes two = TwoNodes.start(SETTINGS)) {
            nodes = two;
            final Running mpi = launch(launcher, "node0,node1", "sh", "-c", "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] || exit 5");
            assertEquals(5, mpi.awaitEnd(ENDING), mpi.output() + mpi.errors());
        }
    }

    /** With which status is the launcher's own affair: Hydra's is another one when its daemons end badly. */
    @ParameterizedTest
    @ValueSource(strings = {OPEN_MPI, "mpirun.mpich"})
    void deathOfARankEndsAll(final String launcher) throws Exception {
        try (TwoNodes two = TwoNodes.start(SETTINGS)) {
            nodes = two;
            final Running mpi = launch(launcher, "node0,node0,node1,node1", "sh", "-c",
                    WHO + "; [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} != 3 ] || kill -TERM $$; sleep 1000");
            assertNotEquals(0, mpi.awaitEnd(ENDING));
            awaitNobody();
        }
    }

    /** With which status Hydra ends is chance, also without ShadowVerbs. */
    @ParameterizedTest
    @ValueSource(strings = {OPEN_MPI, "mpirun.mpich"})
    void interruptEndsAll(final String launcher) throws Exception {
        try (TwoNodes two = TwoNodes.start(SETTINGS)) {
            nodes = two;
            // In a process group of its own, as a shell at a terminal has it.
            final Running mpi = launch(List.of("setsid"), launcher, "node0,node0,node1,node1", "sh", "-c", WHO + "; sleep 1000");
            two.await("all ranks", () -> mpi.lines("rank ") == RANKS, mpi);
            two.succeed(0, "kill", "-INT", "--", "-" + mpi.pid());
            final int status = mpi.awaitEnd(ENDING);
            assertTrue(status != 0 || !launcher.equals(OPEN_MPI), mpi.output() + mpi.errors());
            awaitNobody();
        }
    }

    @Test
    void namesAHostThatCannotBeReached() throws Exception {
        try (TwoNodes two = TwoNodes.start(SETTINGS)) {
            nodes = two;
            final Running mpi = launch(OPEN_MPI, "node0,nosuchnode", "true");
            assertNotEquals(0, mpi.awaitEnd(ENDING));
            assertTrue(mpi.errors().contains("Could not resolve hostname nosuchnode"), mpi.errors());
        }
    }

    /** Who has a way of his own to the other hosts keeps it. */
    @Test
    void doesNotReplaceAnotherRemoteShell() throws Exception {
        try (TwoNodes two = TwoNodes.start(SETTINGS)) {
            nodes = two;
            two.environment("OMPI_MCA_plm_rsh_agent", "false");
            final Running mpi = launch(OPEN_MPI, "node0,node1", "true");
            assertNotEquals(0, mpi.awaitEnd(ENDING));
        }
    }

    /** The allocation says which hosts, and Slurm starts their agents. */
    @ParameterizedTest
    @ValueSource(strings = {OPEN_MPI, "mpirun.mpich"})
    void runsOnTheNodesOfAnAllocation(final String launcher) throws Exception {
        try (SlurmCluster slurm = SlurmCluster.start(SETTINGS)) {
            nodes = slurm;
            Files.delete(slurm.work().resolve("bin/ssh"));
            final Running mpi = slurm.run(0, Stream.concat(Stream.of("salloc", "-Q", "-N", "2", "--ntasks-per-node=2"),
                    launched(launcher, "sh", "-c", WHO)).toArray(String[]::new));
            mpi.succeed(ENDING);
            assertEquals(List.of("rank 0 on node0", "rank 1 on node0", "rank 2 on node1", "rank 3 on node1"),
                    mpi.output().lines().sorted().toList(), mpi.errors());
        }
    }

    private Running launch(final String launcher, final String hosts, final String... program) throws IOException {
        return launch(List.of(), launcher, hosts, program);
    }

    /** One rank on each of the hosts, as often as it is named. */
    private Running launch(final List<String> before, final String launcher, final String hosts, final String... program)
            throws IOException {
        final List<String> command = new ArrayList<>(before);
        launched(launcher, Stream.concat(Stream.of("-n", Integer.toString(hosts.split(",").length), "--host", hosts), Stream.of(program))
                .toArray(String[]::new)).forEach(command::add);
        return nodes.run(0, command.toArray(String[]::new));
    }

    private Stream<String> launched(final String launcher, final String... arguments) throws IOException {
        final Path checkpoints = nodes.folder("checkpoints");
        return Stream.concat(Stream.of(TwoNodes.shadowverbs(), "launch", "--backend", "ib2tcp", "--ckptdir", checkpoints.toString(), "--",
                launcher), Stream.of(arguments));
    }

    /** The job's coordinator ends with its last process, on whatever node that is, and the agents with it. */
    private void awaitNobody() throws Exception {
        for (int node = 0; node < 2; node++) {
            final Path run = nodes.work().resolve("run-" + TwoNodes.name(node));
            nodes.await("the end of all on " + TwoNodes.name(node), () -> sockets(run) == 0);
        }
    }

    private static long sockets(final Path run) {
        try (Stream<Path> files = Files.walk(run)) {
            return files.filter(file -> file.endsWith("agent.sock") || file.endsWith("root.sock")).count();
        } catch (IOException | java.io.UncheckedIOException e) {
            return -1; // something of it has just gone
        }
    }
}
