// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What this process may do with others. */
public final class Rights {
    private static final int CAP_NET_ADMIN = 12;
    private static final int CAP_SYS_ADMIN = 21;

    private Rights() {
    }

    /**
     * Whether it has no privilege, so that the job's processes live in a user namespace: in that its user has all rights.
     *
     * @return true if so
     */
    public static boolean ordinary() {
        return !has(CAP_SYS_ADMIN);
    }

    /**
     * Whether TCP connections can be saved, which takes CAP_NET_ADMIN: CRIU puts their sockets into repair mode.
     *
     * @return true if so
     */
    public static boolean overConnections() {
        return has(CAP_NET_ADMIN);
    }

    private static boolean has(final int capability) {
        try {
            for (final String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("CapEff:")) {
                    return (Long.parseUnsignedLong(line.substring("CapEff:".length()).strip(), 16) >>> capability & 1) == 1;
                }
            }
            return false;
        } catch (final IOException e) {
            return false;
        }
    }
}
