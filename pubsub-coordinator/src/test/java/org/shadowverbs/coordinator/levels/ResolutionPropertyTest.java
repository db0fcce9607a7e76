// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.levels;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.shadowverbs.coordinator.manifest.Level;
import org.shadowverbs.coordinator.manifest.Levels;
import org.shadowverbs.coordinator.manifest.Levels.Copy;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.Progress;

/** Whatever has become of the copies of an image and of what it builds on: the first that is good serves, and each other is named. */
final class ResolutionPropertyTest {
    private static final String PARTNER = "there";

    /** What has become of a copy. */
    private enum Fate {
        /** It was never made, and nobody says so. */
        NEVER_MADE,
        GOOD,
        /** A byte of some file is another one. */
        DAMAGED,
        /** Some file is shorter. */
        CUT,
        /** Some file is not there. */
        INCOMPLETE,
        /** All of it is gone. */
        GONE
    }

    @Property(tries = 300)
    void theFirstGoodOneServes(@ForAll final Fate local, @ForAll final Fate partner, @ForAll final Fate shared,
            @ForAll final boolean onPartner, @ForAll final boolean holderLives, @ForAll @IntRange(max = 2) final int depth,
            @ForAll final long seed) throws Exception {
        final Path work = Files.createTempDirectory("levels").toRealPath();
        try {
            final Random random = new Random(seed);
            final Path written = work.resolve("written");
            final Manifest.HostPart part = SavedImages.write(written, random, List.of(5_000, 1, 0), depth);
            final Path checkpoints = work.resolve("shared");
            final List<Fate> fates = List.of(local, partner, shared);
            final List<Copy> copies = List.of(new Copy(SavedImages.DIRECTORY, Level.LOCAL, "here", work.resolve("local").toString()),
                    new Copy(SavedImages.DIRECTORY, Level.PARTNER, PARTNER, work.resolve("partner").toString()),
                    Copy.shared(SavedImages.DIRECTORY));
            final Path folder = Files.createDirectories(checkpoints.resolve(SavedImages.CHECKPOINT));
            final List<Copy> claimed = new ArrayList<>();
            for (int i = 0; i < copies.size(); i++) {
                if (fates.get(i) != Fate.NEVER_MADE) {
                    claimed.add(copies.get(i));
                    make(written, copies.get(i).rootFor(folder), part, fates.get(i), random);
                }
            }
            check(work, folder, part, new Levels(1, claimed), fates, copies, onPartner, holderLives);
        } finally {
            SavedImages.remove(work);
        }
    }

    private static void make(final Path written, final Path root, final Manifest.HostPart part, final Fate fate, final Random random)
            throws IOException {
        if (fate == Fate.GONE) {
            return;
        }
        SavedImages.copy(written, root);
        if (fate == Fate.GOOD) {
            return;
        }
        final List<ImageCopy.Item> items = ImageCopy.items(SavedImages.CHECKPOINT, part).stream()
                .filter(item -> fate == Fate.INCOMPLETE || item.file().bytes() > 0).toList();
        final Path file = root.resolve(items.get(random.nextInt(items.size())).path());
        final byte[] bytes = Files.readAllBytes(file);
        switch (fate) {
            case DAMAGED -> {
                bytes[random.nextInt(bytes.length)] ^= 1;
                Files.write(file, bytes);
            }
            case CUT -> Files.write(file, java.util.Arrays.copyOf(bytes, bytes.length - 1), StandardOpenOption.TRUNCATE_EXISTING);
            default -> Files.delete(file);
        }
    }

    /** By the rules, said in another way: what this host has, what another one has that can be reached, what all share. */
    private static void check(final Path work, final Path folder, final Manifest.HostPart part, final Levels levels, final List<Fate> fates,
            final List<Copy> copies, final boolean onPartner, final boolean holderLives) throws Exception {
        final List<Integer> order = onPartner ? List.of(1, 0, 2) : List.of(0, 1, 2);
        final String host = onPartner ? PARTNER : "here";
        final Path fetched = work.resolve("fetched");
        final List<String> said = new ArrayList<>();
        final Resolution resolution = new Resolution(folder, levels, host, (copy, its) -> {
            if (!holderLives) {
                return null;
            }
            ImageCopy.copy(SavedImages.CHECKPOINT, its, ImageCopy.from(copy.rootFor(folder)), fetched, true, Progress.UNTOLD);
            return fetched;
        }, said::add, Progress.UNTOLD);
        Copy serves = null;
        int named = 0;
        for (final int i : order) {
            final boolean reachable = copies.get(i).host().isEmpty() || copies.get(i).host().equals(host) || holderLives;
            if (fates.get(i) == Fate.NEVER_MADE || serves != null) {
                continue;
            }
            if (fates.get(i) == Fate.GOOD && reachable) {
                serves = copies.get(i);
            } else if (reachable) {
                named++;
            }
        }
        final boolean sharedAlone = levels.copies().size() == 1 && levels.copies().getFirst().level() == Level.SHARED;
        if (serves == null && !sharedAlone) {
            final CheckpointException refused = assertThrows(CheckpointException.class, () -> resolution.find(part));
            assertTrue(refused.getMessage().contains("host here"), refused.getMessage());
            return;
        }
        final Resolution.Found found = resolution.find(part);
        if (sharedAlone) {
            assertEquals(folder.resolve(SavedImages.DIRECTORY), found.directory());
            assertTrue(!found.verified(), "who restores it has to look");
            return;
        }
        assertEquals(serves, found.copy());
        assertTrue(found.verified());
        assertEquals("", part.images().damage(found.directory()), "what it builds on is beside it, and all of it is good");
        assertEquals(named, said.size(), said.toString());
    }
}
