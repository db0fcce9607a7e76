// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The processors that this process may use. */
final class Processors {
    private Processors() {
    }

    static int first() throws BenchException, IOException {
        return Integer.parseInt(allowed()[0]);
    }

    /** To be preferred for one measurement alone: the first often serves interrupts. */
    static int last() throws BenchException, IOException {
        final String[] numbers = allowed();
        return Integer.parseInt(numbers[numbers.length - 1]);
    }

    /** The ends of their ranges. */
    private static String[] allowed() throws BenchException, IOException {
        for (final String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("Cpus_allowed_list:")) {
                return line.substring(line.indexOf(':') + 1).strip().split("[-,]");
            }
        }
        throw new BenchException("no Cpus_allowed_list in /proc/self/status");
    }
}
