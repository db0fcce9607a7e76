// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.CriuWithObstacle;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** Processes that are saved and restored by commands of their user, with verbs around them ({@code launch --save --restore}). */
final class CommandsSystemTest {
    /** A user's own way to save a process: CRIU again, as it is on any machine, but called by nobody but this script. */
    private static final String SAVE = """
            #!/bin/sh
            echo "$SHADOWVERBS_PID" >>'%1$s/saved'
            [ ! -e '%1$s/fail' ] || { echo "no licence for today"; exit 3; }
            exec '%2$s' dump --tree "$SHADOWVERBS_PID" --images-dir "$SHADOWVERBS_FOLDER" --log-file dump.log -v2 \\
                    --leave-running --shell-job --file-locks --manage-cgroups=ignore --network-lock skip
            """;
    private static final String RESTORE = """
            #!/bin/sh
            echo "$SHADOWVERBS_PID" >>'%1$s/restored'
            [ ! -e '%1$s/fail' ] || exit 4
            [ "$CRTOOLS_SCRIPT_ACTION" ] || work=$(mktemp -d)
            while read -r old new; do
                    [ -z "$old" ] || { exec 9<>"$new"; fifo=${old#/}; }
            done <<END
            $SHADOWVERBS_FIFOS
            END
            '%2$s' restore --images-dir "$SHADOWVERBS_FOLDER" --work-dir "$work" --log-file restore.log -v2 \\
                    --shell-job --file-locks --manage-cgroups=ignore --network-lock skip \\
                    --inherit-fd "fd[9]:$fifo" --action-script '%1$s/there' || cat "$work/restore.log" >&2
            rm -r "$work"
            """;
    /** Who waits for the tree hears of it when all of it is there. */
    private static final String THERE = """
            #!/bin/sh
            [ "$CRTOOLS_SCRIPT_ACTION" != post-resume ] || echo "$CRTOOLS_INIT_PID" >"$SHADOWVERBS_PID_FILE"
            """;

    private static void write(final Job job, final String name, final String text) throws IOException {
        final Path script = job.work().resolve(name);
        Files.writeString(script, text.formatted(job.work(), CriuWithObstacle.criu()));
        assertTrue(script.toFile().setExecutable(true));
    }

    private static Running launch(final Job job, final List<String> options, final String... program) throws IOException {
        final List<String> all = new ArrayList<>(job.at());
        all.addAll(List.of("--backend", "hca", "--test-fabric"));
        all.addAll(options);
        all.add("--");
        all.addAll(List.of(program));
        return job.runCommand("launch", all.toArray(new String[0]));
    }

    @Test
    void aUsersOwnCommandsSaveAndRestoreTheProcesses() throws Exception {
        try (Job job = Distribution.start()) {
            write(job, "save", SAVE);
            write(job, "restore", RESTORE);
            write(job, "there", THERE);
            final List<String> commands = List.of("--save", job.work().resolve("save").toString(), "--restore",
                    job.work().resolve("restore").toString());
            job.configure(Job.SLOW);
            final Path meet = job.folder("meet");
            final Path stop = job.work().resolve("stop");
            final List<Running> ranks = new ArrayList<>();
            for (int rank = 0; rank < 2; rank++) {
                ranks.add(launch(job, commands, job.program("selfcheck"), "-n", "2", "--rank", "" + rank, "--dir",
                        meet.toString(), "--stop-file", stop.toString(), "--json"));
            }
            final Running[] both = ranks.toArray(new Running[0]);
            job.awaitRanks(2, both);
            job.await("both ranks to be connected",
                    () -> ranks.stream().mapToLong(rank -> rank.lines(": connected: ")).sum() >= 2, both);

            // All of a job on a host are saved in one way.
            final Running other = launch(job, List.of(), "true");
            assertEquals(1, other.awaitEnd(Running.DEADLINE));
            assertTrue(other.errors().contains("programs of this job run on this host that were launched with --save"), other.errors());

            // A command that fails is no harm, and the user reads what it has said.
            final Path fail = Files.createFile(job.work().resolve("fail"));
            final String problem = job.failCheckpoint().get("problem").asText();
            assertTrue(problem.contains("the save command has failed (status 3): no licence for today"), problem);
            Files.delete(fail);
            job.checkpoint();
            final String folder = job.checkpoint("--kill").get("folder").asText();
            assertEquals(5, Files.readAllLines(job.work().resolve("saved")).size());

            // Likewise one that does not bring them back.
            Files.createFile(fail);
            job.startCoordinator();
            final Running failed = job.restart(folder);
            assertEquals(1, failed.awaitEnd(Running.DEADLINE));
            assertTrue(failed.errors().contains("the restore command has ended (status 4)"), failed.errors());
            Files.delete(fail);
            final Running restart = job.restartAndAwait(folder, 2);
            // And so again: a restarted job is saved by the same commands.
            final String second = job.checkpoint("--kill").get("folder").asText();
            restart.awaitEnd(Running.DEADLINE);
            final Running again = job.restartAndAwait(second, 2);
            Files.createFile(stop);
            again.succeed(Running.DEADLINE);
            assertTrue(Files.readAllLines(job.work().resolve("restored")).size() >= 5, "both trees, twice, and once not");
            Selfcheck.verify(both[0]); // it speaks for both
        }
    }

    @Test
    void whatCannotBeIsSaidAtTheLaunch() throws Exception {
        try (Job job = Distribution.start()) {
            final Running alone = launch(job, List.of("--save", "true"), "true");
            assertEquals(2, alone.awaitEnd(Running.DEADLINE));
            assertTrue(alone.errors().contains("--save and --restore need each other"), alone.errors());
            final Running heals = launch(job, List.of("--save", "true", "--restore", "true", "--recover", "1"), "true");
            assertEquals(1, heals.awaitEnd(Running.DEADLINE));
            assertTrue(heals.errors().contains("--save can't be together with --recover"), heals.errors());
        }
    }
}
