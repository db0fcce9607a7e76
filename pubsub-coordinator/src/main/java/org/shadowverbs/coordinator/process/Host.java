// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** What images say of the host that they were made on. */
final class Host {
    private Host() {
    }

    static String name() throws IOException {
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
