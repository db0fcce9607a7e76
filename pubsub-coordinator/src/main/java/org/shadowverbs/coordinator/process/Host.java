// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** This host: what images say of the one that they were made on. Safe for use by several threads. */
public final class Host {
    private Host() {
    }

    /**
     * As agents, messages and manifests name it.
     *
     * @return the name that the kernel has of it
     * @throws IOException if the kernel can't be asked
     */
    public static String name() throws IOException {
        return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
    }

    static String kernel() throws IOException {
        return Files.readString(Path.of("/proc/sys/kernel/osrelease")).strip();
    }

    static String cpuModel() throws IOException {
        return cpu("model name");
    }

    static List<String> cpuFlags() throws IOException {
        return List.of(cpu("flags").split(" "));
    }

    private static String cpu(final String key) throws IOException {
        for (final String line : Files.readAllLines(Path.of("/proc/cpuinfo"))) {
            final int colon = line.indexOf(':');
            if (colon > 0 && line.substring(0, colon).strip().equals(key)) {
                return line.substring(colon + 1).strip();
            }
        }
        return "";
    }
}
