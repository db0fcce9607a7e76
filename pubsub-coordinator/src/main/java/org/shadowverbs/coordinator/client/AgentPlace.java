// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * Where a process finds its agent that has not had to do with one before. Its environment says where the agent was when the
 * program was launched. After a restart, whose agent may be elsewhere, a file in that place says where: one for each job, as
 * another job may have an agent there by now.
 */
public final class AgentPlace {
    /** The agent's socket, at the launch. */
    public static final String SOCKET = "SHADOWVERBS_AGENT";
    /** The host that the program was launched on, as its agent called it. */
    public static final String ORIGIN = "SHADOWVERBS_ORIGIN";
    /** The job's name. */
    public static final String JOB = "SHADOWVERBS_JOB";

    private AgentPlace() {
    }

    /** The socket of this process' agent; null: it was not launched. */
    public static Path ofThisProcess() throws IOException {
        final String socket = System.getenv(SOCKET);
        final String job = System.getenv(JOB);
        if (socket == null || socket.isEmpty()) {
            return null;
        }
        if (job == null || job.isEmpty()) {
            return Path.of(socket);
        }
        try {
            return Path.of(Files.readString(sign(Path.of(socket), job)));
        } catch (NoSuchFileException e) {
            return Path.of(socket);
        }
    }

    /** The job's processes that were launched at one socket find their agent at another one from now on. */
    public static void move(final Path from, final String job, final Path to) throws IOException {
        if (from.equals(to)) {
            stay(from, job);
            return;
        }
        Files.createDirectories(from.getParent(), PrivateFiles.FOLDER);
        final String problem = PrivateFiles.placeProblem(from.getParent());
        if (!problem.isEmpty()) {
            throw new IOException(problem);
        }
        PrivateFiles.write(sign(from, job), to.toString().getBytes(StandardCharsets.UTF_8));
    }

    /** They find it where they were launched. */
    public static void stay(final Path from, final String job) throws IOException {
        Files.deleteIfExists(sign(from, job));
    }

    private static Path sign(final Path socket, final String job) {
        return socket.resolveSibling("moved-" + job.replace('/', '_'));
    }
}
