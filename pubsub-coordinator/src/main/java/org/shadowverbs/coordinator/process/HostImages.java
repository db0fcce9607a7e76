// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.List;

/**
 * The images of one host's processes, for the manifest.
 *
 * @param implementation what wrote them, for example "CRIU 4.2.1"
 * @param host           the host's name
 * @param kernel         the kernel's release
 * @param cpuModel       the CPU's name
 * @param cpuFlags       flags of the CPU; the CPU that restores must have them all
 * @param trees          the trees, each dumped by itself while all were frozen
 * @param bytes          size of all image files
 * @param freezeNanos    time until all stood still
 * @param saveNanos      time to write, checksum and make durable
 */
public record HostImages(
        String implementation,
        String host,
        String kernel,
        String cpuModel,
        List<String> cpuFlags,
        List<TreeImage> trees,
        long bytes,
        long freezeNanos,
        long saveNanos) {
}
