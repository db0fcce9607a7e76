// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;

/** A CRIU that waits, or fails, when it is told to dump while there is an obstacle. One that stands by has not been told yet. */
public final class CriuWithObstacle implements AutoCloseable {
    private final Path folder;
    private final Path obstacle;
    private final Path met;

    private CriuWithObstacle(final String action) throws IOException {
        folder = Files.createTempDirectory("shadowverbs-criu-");
        obstacle = folder.resolve("obstacle");
        met = folder.resolve("met");
        final Path script = folder.resolve("criu");
        Files.writeString(script, """
                #!/bin/sh
                case "$*" in *dump*)
                    if [ -e '%1$s/obstacle' ]; then
                        if [ -n "$SHADOWVERBS_CRIU_STANDBY" ]; then
                            unset SHADOWVERBS_CRIU_STANDBY
                            echo stands by
                            read -r word || exit 1
                        fi
                        : >'%1$s/met'
                        %2$s
                    fi ;;
                esac
                exec '%3$s' "$@"
                """.formatted(folder, action, criu()));
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    public static CriuWithObstacle thatFails() throws IOException {
        return new CriuWithObstacle("exit 1");
    }

    public static CriuWithObstacle thatWaits() throws IOException {
        return new CriuWithObstacle("cat \"${0%/*}/obstacle\" >/dev/null");
    }

    /** The one that the project has built. */
    public static Path criu() {
        final Path own = Distribution.DIST.resolve("../.tools/criu/sbin/criu").normalize();
        assertTrue(Files.isExecutable(own), own + " is missing: tools/setup.sh run");
        return own;
    }

    /** What has it used. */
    public Map<String, String> environment() {
        return Map.of("SHADOWVERBS_CRIU", folder.resolve("criu").toString());
    }

    /** From now on there is an obstacle. */
    public void put() throws IOException, InterruptedException {
        Files.deleteIfExists(met);
        assertEquals(0, new ProcessBuilder("mkfifo", obstacle.toString()).inheritIO().start().waitFor());
    }

    /** Whether a CRIU has run into it. */
    public boolean isMet() {
        return Files.exists(met);
    }

    public void remove() throws IOException {
        if (Files.exists(obstacle)) {
            // Open for both, this never blocks; the end of file lets all readers go.
            final FileChannel end = FileChannel.open(obstacle, StandardOpenOption.READ, StandardOpenOption.WRITE);
            Files.delete(obstacle);
            end.close();
        }
    }

    @Override
    public void close() throws IOException {
        remove();
        Job.remove(folder);
    }
}
