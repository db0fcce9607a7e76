// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * A CRIU that has saved a tree and does not let it go on yet. Who may use no control group freezer has nobody else to make
 * the tree stand still: CRIU does from the moment when it begins to save it, and goes on to when it is told, or when this process
 * has died.
 */
final class HeldDump {
    private static final Duration MKFIFO_TIMEOUT = Duration.ofSeconds(10);
    private static final String GO = "go";
    private static final String SAVED = "saved";

    /** What CRIU writes besides images. */
    private final Path work;
    private final RandomAccessFile go;

    HeldDump() throws IOException, InterruptedException {
        work = Files.createTempDirectory("shadowverbs-dump-");
        CriuCommand.run(List.of("mkfifo", work.resolve(GO).toString()), MKFIFO_TIMEOUT);
        go = new RandomAccessFile(work.resolve(GO).toFile(), "rw");
        final Path script = work.resolve("hold");
        Files.writeString(script, "#!/bin/sh\n[ \"$CRTOOLS_SCRIPT_ACTION\" != post-dump ] || { exec 3<'" + work.resolve(GO)
                + "'; : >'" + work.resolve(SAVED) + "'; cat <&3; }\n");
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwx------"));
    }

    /** Where CRIU may keep what it knows of the kernel, and writes its log. */
    Path work() {
        return work;
    }

    /** The options by which CRIU holds the tree when it has saved it. */
    List<String> options() {
        return List.of("--action-script", work.resolve("hold").toString(), "--work-dir", work.toString());
    }

    /**
     * Waits until a CRIU with these options has saved the tree.
     *
     * @return the status of a CRIU that has ended before, -1 for one that does nothing any more, else 0
     */
    CriuCommand.Result save(final CriuCommand.Running running, final Stall stall) throws IOException, InterruptedException {
        int status = 0;
        while (!Files.exists(work.resolve(SAVED))) {
            if (running.process().waitFor(1, TimeUnit.MILLISECONDS)) {
                // A CRIU that ends without having held the tree has not saved it as it was to.
                status = running.process().exitValue() == 0 && !Files.exists(work.resolve(SAVED)) ? 1 : running.process().exitValue();
                break;
            }
            if (stall.passed()) {
                status = -1;
                break;
            }
        }
        return new CriuCommand.Result(status, running.output());
    }

    /** Lets the tree go on. What is left of a tree that was killed CRIU finds out by itself. */
    void release() throws IOException {
        go.close();
    }

    /** When CRIU has ended: removes what it has written. */
    void remove() throws IOException {
        try (Stream<Path> files = Files.list(work)) {
            for (final Path file : files.toList()) {
                Files.delete(file);
            }
        }
        Files.delete(work);
    }
}
