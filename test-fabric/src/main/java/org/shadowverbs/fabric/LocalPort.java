// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.BooleanSupplier;

/** TCP ports of this host, as programs that are to meet need them. */
final class LocalPort {
    private LocalPort() {
    }

    /** One that nobody has now. */
    static int free() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    /** Whether some process listens there. */
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
