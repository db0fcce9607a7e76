// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.memory.MemoryCopy;

/**
 * What the next image of each tree can build on: the last one, as long as all writes since then are counted, and what was copied
 * while the tree ran. Each is given out once: with the next image the count begins anew. For several threads.
 */
final class Chains {
    private final Map<Long, Link> links = new HashMap<>();
    private final Map<Long, Copied> copies = new HashMap<>();

    /**
     * The last image of a tree.
     *
     * @param checkpoint the folder of its checkpoint, by its name
     * @param host       the host's folder in it
     */
    record Link(String checkpoint, String host, TreeImage image) {
        /** How many checkpoints it builds on. */
        int depth() {
            final Set<String> others = new HashSet<>();
            image.layers().forEach(layer -> others.add(layer.checkpoint()));
            others.remove("");
            return others.size();
        }

        /** What an image that builds on this one builds on. */
        List<ImageLayer> layers() {
            final List<ImageLayer> layers = new ArrayList<>();
            layers.add(new ImageLayer(checkpoint, host + "/" + image.directory(),
                    image.files().stream().filter(ImageFiles::isOfMemory).toList()));
            for (final ImageLayer layer : image.layers()) {
                layers.add(layer.checkpoint().isEmpty() ? new ImageLayer(checkpoint, layer.directory(), layer.files()) : layer);
            }
            return layers;
        }
    }

    /**
     * What was copied of a tree.
     *
     * @param checkpoint that it was copied for, by its name
     * @param folder     where it is
     * @param base       what it builds on; null: on nothing
     */
    record Copied(String checkpoint, Path folder, Link base) {
    }

    synchronized void sealed(final long top, final Link link) {
        links.put(top, link);
    }

    synchronized void copied(final long top, final Copied copied) {
        copies.put(top, copied);
    }

    /** The image that the next one of the tree may build on; null: none. */
    synchronized Link take(final long top, final ImagePlan plan, final Path imageDirectory) {
        return usable(links.remove(top), plan, imageDirectory);
    }

    /** Whether the next image of the tree will build on anything, as it looks now. */
    synchronized boolean expects(final long top, final ImagePlan plan, final Path imageDirectory) {
        return usable(copies.get(top), plan) != null || usable(links.get(top), plan, imageDirectory) != null;
    }

    private static Link usable(final Link link, final ImagePlan plan, final Path imageDirectory) {
        final boolean usable = link != null && plan.increments() && link.checkpoint.equals(plan.base())
                && link.depth() + 1 < plan.fullEvery()
                && Files.isDirectory(imageDirectory.toAbsolutePath().getParent().resolveSibling(plan.base()).resolve(link.host()));
        return usable ? link : null;
    }

    /** What was copied of the tree for this checkpoint; null: nothing. */
    synchronized Copied takeCopy(final long top, final ImagePlan plan) {
        return usable(copies.remove(top), plan);
    }

    private static Copied usable(final Copied copied, final ImagePlan plan) {
        return copied != null && copied.checkpoint.equals(plan.name()) ? copied : null;
    }

    /**
     * Makes the folder in which CRIU looks for what an image builds on while it saves: it reads there which pages there are, and
     * not what they hold.
     *
     * @param folder may be there, empty: CRIU wants to see it when it starts
     * @param from  a folder with page maps
     * @param files names of files in it, compressed or not
     */
    static void parent(final Path folder, final Path from, final Iterable<String> files) throws IOException {
        Files.createDirectories(folder);
        // CRIU's own says when it was made, so that it takes no new process for an old one: writes of that one are not counted.
        MemoryCopy.inventory(folder);
        for (final String file : files) {
            if (file.startsWith("pages-")) {
                final String plain = Compression.plainName(file);
                Files.createFile(folder.resolve(plain));
            } else if (file.startsWith("pagemap-")) {
                Files.createSymbolicLink(folder.resolve(file), from.resolve(file).toAbsolutePath());
            }
        }
    }
}
