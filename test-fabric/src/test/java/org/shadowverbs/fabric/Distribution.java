// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;

/** What the system tests run: the built distribution. Process images need root, and a test without it fails here. */
final class Distribution {
    static final Path DIST = Path.of(System.getProperty("shadowverbs.dist"));

    private Distribution() {
    }

    static Job start(final Map<String, String> environment) throws IOException, InterruptedException {
        if (!Files.isWritable(Path.of("/proc/1/oom_score_adj"))) {
            throw new IOException("the system tests save and restore processes with CRIU: run them as root");
        }
        return Job.start(DIST, environment);
    }

    static Job start() throws IOException, InterruptedException {
        return start(Map.of());
    }

    static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    /** Whether some process listens at a TCP port. */
    static BooleanSupplier listens(final int port) {
        return listens(Path.of("/proc/net"), port);
    }

    /** The same in the network namespace of a process: {@code /proc/PID/net}. */
    static BooleanSupplier listens(final Path network, final int port) {
        final String suffix = String.format(":%04X", port);
        return () -> {
            try {
                for (final String table : List.of("tcp", "tcp6")) {
                    for (final String line : Files.readAllLines(network.resolve(table))) {
                        final String[] fields = line.strip().split("\\s+");
                        if (fields[1].endsWith(suffix) && "0A".equals(fields[3])) {
                            return true;
                        }
                    }
                }
            } catch (IOException e) {
                return false;
            }
            return false;
        };
    }
}
