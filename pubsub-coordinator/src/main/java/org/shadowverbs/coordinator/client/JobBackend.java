// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * The backend of a job that was restarted, in a file beside its agent's socket. The agent writes it before any process of the
 * job runs; a rank reads it before it opens a device. It is a file, and no question to the agent, for a rank that asked would
 * have to wait with its first verb for agent and coordinator, in every job.
 *
 * @param name see {@link BackendName}; or "same": each process' own
 * @param secret the job's now
 * @param address at which its processes on this host are to be reached over TCP; empty: nobody has said
 */
public record JobBackend(String name, String secret, String address) {
    private static final String FILE = "backend";

    /** What the agent of that socket says; null: nothing, for the job was not restarted. */
    public static JobBackend read(final Path socket) throws IOException {
        final String text;
        try {
            text = Files.readString(socket.resolveSibling(FILE));
        } catch (NoSuchFileException e) {
            return null;
        }
        final String[] lines = text.split("\n", -1);
        if (lines.length != 4) {
            throw new IOException(socket.resolveSibling(FILE) + " is damaged");
        }
        return new JobBackend(lines[0], lines[1], lines[2]);
    }

    /** Says it to all that come to that socket. */
    public void write(final Path socket) throws IOException {
        PrivateFiles.replace(socket.resolveSibling(FILE),
                (name + "\n" + secret + "\n" + address + "\n").getBytes(StandardCharsets.UTF_8));
    }

    /** From now on each process has its own again. */
    public static void forget(final Path socket) throws IOException {
        Files.deleteIfExists(socket.resolveSibling(FILE));
    }
}
