// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.system.Libc;

/**
 * The FIFO that a detached rank reads its verdict from. The agent holds it open for reading, too: so it never waits for
 * the rank to open it, and the rank sees an end of file exactly when the agent is gone.
 */
final class VerdictPipe implements AutoCloseable {
    private final Path path;
    private final RandomAccessFile end;

    private VerdictPipe(final Path path, final RandomAccessFile end) {
        this.path = path;
        this.end = end;
    }

    static VerdictPipe make(final Path runDirectory, final String uid) throws IOException {
        final Path path = runDirectory.resolve("verdict-" + uid.replaceAll("[^A-Za-z0-9._-]", "_"));
        Files.deleteIfExists(path);
        Libc.mkfifo(path, 0600);
        return new VerdictPipe(path, new RandomAccessFile(path.toFile(), "rw"));
    }

    Path path() {
        return path;
    }

    /** By which the process checkpointer knows it. */
    long inode() throws IOException {
        return ((Number) Files.getAttribute(path, "unix:ino")).longValue();
    }

    void write(final Verdict verdict) throws IOException {
        end.write(verdict.line().getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void close() throws IOException {
        end.close();
        Files.deleteIfExists(path);
    }
}
