// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

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
    /**
     * What is to be restored together: trees that had the same /dev/shm. What has one of its own comes from another host, where the
     * same process numbers and names of files were in use.
     *
     * @return the images, divided; this one, when there are none
     */
    public List<HostImages> together() {
        if (trees.isEmpty()) {
            return List.of(this);
        }
        final Map<Long, List<TreeImage>> byMemory = new LinkedHashMap<>();
        trees.forEach(tree -> byMemory.computeIfAbsent(tree.memory(), memory -> new ArrayList<>()).add(tree));
        return byMemory.values().stream().map(some -> new HostImages(implementation, host, kernel, cpuModel, cpuFlags, some,
                some.stream().flatMap(tree -> tree.files().stream()).mapToLong(ImageFile::bytes).sum(), freezeNanos, saveNanos))
                .toList();
    }
}
