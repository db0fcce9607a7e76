// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.jobroot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.SlurmCluster;

/** The batch script of the documents, as it stands, under a Slurm of two nodes. */
final class BatchScriptSystemTest {
    private static final int RANKS = 4;

    private SlurmCluster cluster;
    private Path output;

    /** An ordinary user's job, which Slurm signals as it does before the time limit. */
    @Test
    void aJobGoesOnThroughTwoRequeues() throws Exception {
        try (SlurmCluster slurm = SlurmCluster.start(Map.of("MPIR_CVAR_NOLOCAL", "1", "UCX_TLS", "rc,self"))) {
            cluster = slurm;
            slurm.byOrdinaryUser();
            slurm.environment("PATH", Distribution.DIST.resolve("bin") + ":" + System.getenv("PATH"));
            final Path folder = slurm.folder("submitted");
            final Path go = folder.resolve("go");
            Files.copy(Distribution.DIST.resolve("share/job.sbatch"), folder.resolve("job.sbatch"));
            Files.writeString(Files.createFile(folder.resolve("ring"), PosixFilePermissions.asFileAttribute(
                    PosixFilePermissions.fromString("rwxr-xr-x"))), "#!/bin/sh\nexec "
                            + Distribution.DIST.resolve("programs/mpi-exchange") + " --go " + go + "\n");
            final String id = slurm.succeed(0, "sh", "-c", "cd " + folder + " && sbatch --parsable job.sbatch").strip();
            output = folder.resolve("slurm-" + id + ".out");
            goesOn();
            for (int times = 1; times <= 2; times++) {
                final int requeues = times;
                slurm.succeed(0, "scancel", "--batch", "--signal=USR1", id);
                slurm.await("the job to go on", () -> lines("shadowverbs: job: goes on from ").size() == requeues);
                goesOn();
            }
            Files.createFile(go);
            slurm.await("the end of the job", () -> state(id).startsWith("COMPLETED"));
            assertEquals("COMPLETED 0:0", state(id), Files.readString(output));
            assertEquals(RANKS, lines("DONE ok ").size(), Files.readString(output));
            assertTrue(Files.exists(folder.resolve("ckpt-" + id).resolve("finished")));
        }
    }

    private void goesOn() throws Exception {
        final int before = lines("ROUND ").size();
        cluster.await("rounds of the MPI program", () -> lines("ROUND ").size() >= before + 3);
    }

    private List<String> lines(final String text) {
        try {
            return Files.exists(output) ? Files.readAllLines(output).stream().filter(line -> line.contains(text)).toList() : List.of();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private String state(final String id) {
        try {
            final String job = cluster.succeed(0, "scontrol", "show", "job", id);
            return job.replaceFirst("(?s).*JobState=(\\w+).*", "$1") + " " + job.replaceFirst("(?s).*ExitCode=([0-9:]+).*", "$1");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return "";
        }
    }
}
