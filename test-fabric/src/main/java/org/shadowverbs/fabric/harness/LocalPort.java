// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.io.IOException;
import java.net.BindException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

/** TCP ports of this host, as programs that are to meet need them. */
public final class LocalPort {
    /** Below what Linux gives to those who don't ask for one, so that nobody gets it by chance until the program is there. */
    private static final int FIRST = 10_000;
    private static final int PORTS = 20_000;
    /** Processes that run tests at the same time begin at different ones. */
    private static final AtomicInteger NEXT = new AtomicInteger(new Random().nextInt(PORTS));

    private LocalPort() {
    }

    /** One that nobody has now. */
    public static int free() throws IOException {
        for (int tried = 0; tried < PORTS; tried++) {
            final int port = FIRST + NEXT.getAndIncrement() % PORTS;
            try (ServerSocket socket = new ServerSocket(port)) {
                return socket.getLocalPort();
            } catch (BindException e) {
                // somebody has it
            }
        }
        throw new IOException("no port from " + FIRST + " to " + (FIRST + PORTS - 1) + " is free");
    }

    /** Whether some process listens there. */
    public static BooleanSupplier listens(final int port) {
        return listens(Path.of("/proc/net"), port);
    }

    /** The same in the network namespace of a process: {@code /proc/PID/net}. */
    public static BooleanSupplier listens(final Path network, final int port) {
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
