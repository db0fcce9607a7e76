// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Map;

/** {@code ${SHADOWVERBS_RUN_DIR:-/tmp/shadowverbs-UID}/PORT}: sockets, FIFOs, logs, state of coordinator and agent. */
public final class RunDirectory {
    private RunDirectory() {
    }

    /** The folder of all run directories of this user. */
    public static Path root(final Map<String, String> environment) throws IOException {
        final String named = environment.get("SHADOWVERBS_RUN_DIR");
        if (named != null && !named.isEmpty()) {
            return Path.of(named).toAbsolutePath();
        }
        return Path.of("/tmp/shadowverbs-" + Files.getAttribute(Path.of("/proc/self"), "unix:uid"));
    }

    /** Makes it, for its owner only. One that somebody else has made, or could replace, is refused. */
    public static Path make(final Path root, final int port) throws IOException {
        return make(root, "localhost", port);
    }

    /** Makes that of an agent whose coordinator is on another host. */
    public static Path make(final Path root, final String coordinatorHost, final int port) throws IOException {
        final Path directory = of(root, coordinatorHost, port);
        Files.createDirectories(directory, PrivateFiles.FOLDER);
        final String problem = PrivateFiles.placeProblem(directory.getParent());
        if (!problem.isEmpty()) {
            throw new IOException("run directory " + directory + " is not safe from other users: " + problem
                    + "; name another one in SHADOWVERBS_RUN_DIR");
        }
        final Object mine = Files.getAttribute(Path.of("/proc/self"), "unix:uid");
        if (!Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS)
                || !Files.getAttribute(directory, "unix:uid", LinkOption.NOFOLLOW_LINKS).equals(mine)) {
            throw new IOException("run directory " + directory + " belongs to another user, or is a link");
        }
        if (PrivateFiles.isOpenToOthers(directory)) {
            Files.setPosixFilePermissions(directory, PrivateFiles.FOLDER.value());
        }
        return directory;
    }

    /** Where it is. */
    public static Path of(final Path root, final String coordinatorHost, final int port) {
        final boolean local = coordinatorHost.equals("localhost") || coordinatorHost.startsWith("127.");
        return root.resolve(local ? Integer.toString(port) : coordinatorHost.replace('/', '_') + "-" + port);
    }

    /** The agent's socket. */
    public static Path agentSocket(final Path directory) {
        return directory.resolve("agent.sock");
    }
}
