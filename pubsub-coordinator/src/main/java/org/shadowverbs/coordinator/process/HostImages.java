// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.images.Cores;

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
 * @param commands       those of the user that have made them, and bring the processes back; null: CRIU has
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
        long saveNanos,
        UserCommands commands) {
    /** Of images that CRIU has made. */
    public HostImages(final String implementation, final String host, final String kernel, final String cpuModel,
            final List<String> cpuFlags, final List<TreeImage> trees, final long bytes, final long freezeNanos,
            final long saveNanos) {
        this(implementation, host, kernel, cpuModel, cpuFlags, trees, bytes, freezeNanos, saveNanos, null);
    }

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
                some.stream().mapToLong(TreeImage::bytes).sum(), freezeNanos, saveNanos, commands))
                .toList();
    }

    /**
     * Reads all files, and those that they build on.
     *
     * @param imageDirectory the folder that was given to {@link FrozenTrees#write}
     * @return the first thing that is not as it was written; empty when nothing is
     * @throws IOException if this thread is interrupted
     */
    public String damage(final Path imageDirectory) throws IOException {
        try (Cores cores = new Cores()) {
            for (final TreeImage tree : trees) {
                final List<Finding> damaged = tree.verify(imageDirectory, cores, Progress.UNTOLD);
                if (!damaged.isEmpty()) {
                    return damaged.getFirst().problem();
                }
            }
            return "";
        } catch (final InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while images were read", e);
        }
    }

    /** The same, as it is when it is safe. */
    HostImages with(final List<TreeImage> sealed, final long sealNanos) {
        return new HostImages(implementation, host, kernel, cpuModel, cpuFlags, sealed,
                sealed.stream().mapToLong(TreeImage::bytes).sum(), freezeNanos,
                saveNanos + sealNanos, commands);
    }
}
