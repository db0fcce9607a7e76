// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.command;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;

/**
 * The examples of the README, as they stand there, but for the directory of the checkpoints. They name no port, so they have a
 * network of their own.
 */
final class ReadmeSystemTest {
    private static final Path README = Distribution.DIST.resolveSibling("README.md");
    private static final String ELSEWHERE = "/scratch/me";
    /** The picture, and the two commands that install packages, of which the second runs this test. */
    private static final int NOT_TRIED = 2;
    /** For all of them, one after the other. */
    private static final Duration LONG = Duration.ofMinutes(15);
    private static final String HEAD = """
            set -u
            fail() { echo "failed: $*" >&2; tail -n 20 ./*.err >&2; exit 1; }
            await() { until grep -q "$1" "$2" 2>/dev/null; do kill -0 $! 2>/dev/null || fail "no $1 in $2"; sleep 0.1; done; }
            step() { echo "example: $*"; }
            # A program whose output is a file prints it at its end.
            ranks() {
                until [ "$(shadowverbs status --json 2>/dev/null | grep -o '"state":"running"' | wc -l)" = "$1" ]; do
                    kill -0 $! 2>/dev/null || fail "no $1 ranks"
                done
            }
            over() { while shadowverbs status >status.out 2>&1; do sleep 0.2; done; }
            ip link set lo up
            """;

    private final List<String> blocks = blocks();
    private final List<String> tried = new ArrayList<>();

    private static List<String> blocks() {
        final List<String> blocks = new ArrayList<>();
        StringBuilder open = null;
        try {
            for (final String line : Files.readAllLines(README)) {
                if (!line.startsWith("```")) {
                    if (open != null) {
                        open.append(line).append('\n');
                    }
                } else if (open == null) {
                    open = new StringBuilder();
                } else {
                    blocks.add(open.toString());
                    open = null;
                }
            }
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
        return blocks;
    }

    /** The only block with that in it. */
    private String block(final String text, final Path elsewhere) {
        final List<String> found = blocks.stream().filter(block -> block.contains(text)).toList();
        assertEquals(1, found.size(), "blocks of the README with " + text);
        tried.add(found.getFirst());
        return found.getFirst().replace(ELSEWHERE, elsewhere.toString());
    }

    private static void program(final Path file, final String command) throws IOException {
        Files.writeString(file, "#!/bin/sh\n" + command + "\n");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    @Test
    void everyExampleWorks() throws Exception {
        try (Job job = Distribution.start()) {
            final Path work = job.work();
            Files.createSymbolicLink(work.resolve("shadowverbs"), Distribution.DIST.resolve("bin/shadowverbs"));
            program(work.resolve("mpirun"), "exec mpirun.mpich \"$@\"");
            program(work.resolve("my_app"), "exec " + job.program("selfcheck") + " -n 2 --stop-file stop --json");
            program(work.resolve("solver"), "[ \"$1\" = input.dat ] && exec " + job.program("mpi-exchange") + " --go go");
            final String[] launch = block("doctor", work).split("\n");
            final String[] restart = block("shadowverbs restart", work).split("\n");
            final String script = HEAD
                    + launch[0] + "\n"
                    + launch[1] + " >doctor.out 2>&1\n"
                    + launch[2] + " >app.out 2>app.err &\n"
                    + "await ': connected: ' app.err\n"
                    + restart[0] + "\n[ $? = 0 ] || fail checkpoint\n"
                    + "shadowverbs kill --now || fail kill\nwait; over\n"
                    + "step restart\n" + restart[1] + " >restarted.out 2>restarted.err &\n"
                    + "await 'restored 2 ranks' restarted.err\ntouch stop\n"
                    + "wait $! || fail restart\nover\n"

                    + "step MPI\n" + block("mpirun", work).strip() + " >mpi.out 2>mpi.err &\n"
                    + "await ROUND mpi.out\nshadowverbs checkpoint || fail checkpoint of MPI\ntouch go\n"
                    + "wait $! || fail MPI\n[ $(grep -c 'DONE ok' mpi.out) = 4 ] || fail MPI\nover\n"

                    + "step pair\n" + block("ibv_rc_pingpong", work).strip() + " >pair.out 2>pair.err &\n"
                    + "ranks 2\n"
                    + "shadowverbs checkpoint || fail checkpoint of the pair\nshadowverbs kill --now || fail kill\nwait; over\n"

                    + "step job\nrm stop\n" + line("job1", work) + "await ': connected: ' job1.err\nkill -USR1 $!; wait $!\n"
                    + "[ $? = 75 ] || fail job that was saved\n"
                    + line("job2", work) + "await 'restored 2 ranks' job2.err\ntouch stop\nwait $! || fail job that goes on\n";
            final Path file = Files.writeString(work.resolve("examples.sh"), script);
            final Running all = job.runCommandLine("examples", "unshare", "--net", "bash", file.toString());
            all.succeed(LONG);
            // What is restored goes on with its file.
            for (final String result : List.of("app.out", "job1.out")) {
                assertTrue(Files.readString(work.resolve(result)).contains("\"passed\":true"), Files.readString(work.resolve(result)));
            }
            assertEquals(blocks.size() - NOT_TRIED, tried.stream().distinct().count(), "an example of the README is not tried");
        }
    }

    private String line(final String name, final Path work) {
        return block("shadowverbs job", work).strip() + " >" + name + ".out 2>" + name + ".err &\n";
    }
}
