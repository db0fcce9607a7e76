// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.levels;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.process.ImageFile;
import org.shadowverbs.coordinator.process.ImageLayer;
import org.shadowverbs.coordinator.process.ProcessImage;
import org.shadowverbs.coordinator.process.TreeImage;

/** Images of one host with files of bytes at random, which may build on those of the checkpoints before. */
final class SavedImages {
    static final String CHECKPOINT = "ckpt-job-3";
    static final String DIRECTORY = "host-here-1";

    private SavedImages() {
    }

    /** Writes them below a folder of checkpoints. @param sizes of the files @param depth how many checkpoints the image builds on */
    static Manifest.HostPart write(final Path root, final Random random, final List<Integer> sizes, final int depth) throws IOException {
        final List<ImageLayer> layers = new ArrayList<>();
        for (int below = 1; below <= depth; below++) {
            final String base = "ckpt-job-" + (3 - below);
            layers.add(new ImageLayer(base, DIRECTORY + "/tree-0", files(root.resolve(base).resolve(DIRECTORY).resolve("tree-0"), random,
                    List.of(random.nextInt(9_000)))));
        }
        final TreeImage tree = new TreeImage("rank 0", "tree-0", List.of(new ProcessImage("rank 0", 10, 0, "app", 1, List.of())),
                files(root.resolve(CHECKPOINT).resolve(DIRECTORY).resolve("tree-0"), random, sizes), List.of(), List.of(), List.of(), false,
                List.of(), List.of(), List.of(), List.of(), 0, 1, layers, null);
        return new Manifest.HostPart("here", DIRECTORY, List.of(), List.of(),
                new HostImages("fake", "here", "0", "cpu", List.of(), List.of(tree), tree.bytes(), 1, 1), List.of());
    }

    private static List<ImageFile> files(final Path folder, final Random random, final List<Integer> sizes) throws IOException {
        Files.createDirectories(folder);
        final List<ImageFile> files = new ArrayList<>();
        for (int i = 0; i < sizes.size(); i++) {
            final byte[] bytes = new byte[sizes.get(i)];
            for (int page = 0; page < bytes.length; page += 4096) {
                if (random.nextInt(3) > 0) { // others are zeros
                    for (int at = page; at < Math.min(bytes.length, page + 4096); at++) {
                        bytes[at] = (byte) random.nextInt();
                    }
                }
            }
            final String name = "pages-" + (i + 1) + ".img";
            Files.write(folder.resolve(name), bytes);
            final CRC32C crc = new CRC32C();
            crc.update(bytes);
            files.add(new ImageFile(name, bytes.length, HexFormat.of().toHexDigits((int) crc.getValue())));
        }
        return files;
    }

    static Manifest manifest(final Manifest.HostPart part) {
        return new Manifest(Manifest.SCHEMA, "job", 3, 2L, null, "", false, 1, Map.of(), 1, 1, List.of(part), List.of(), null, "");
    }

    /** Copies a folder of checkpoints by other means than those that are tested. */
    static void copy(final Path from, final Path to) throws IOException {
        try (Stream<Path> all = Files.walk(from)) {
            for (final Path path : all.toList()) {
                final Path target = to.resolve(from.relativize(path).toString());
                if (Files.isDirectory(path)) {
                    Files.createDirectories(target);
                } else {
                    Files.copy(path, target);
                }
            }
        }
    }

    static void remove(final Path folder) throws IOException {
        try (Stream<Path> all = Files.walk(folder)) {
            for (final Path path : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }
}
