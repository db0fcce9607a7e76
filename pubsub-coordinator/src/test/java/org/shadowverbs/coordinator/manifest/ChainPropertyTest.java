// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tuple;
import net.jqwik.api.constraints.IntRange;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.process.ImageFile;
import org.shadowverbs.coordinator.process.ImageLayer;
import org.shadowverbs.coordinator.process.ProcessImage;
import org.shadowverbs.coordinator.process.TreeImage;

/** Whatever is made and removed, in whatever order: what a checkpoint builds on is there as long as it is. */
final class ChainPropertyTest {
    /** What happens to the job between two checkpoints. */
    private enum Event {
        /** The next one may build on the last. */
        NOTHING,
        /** A new agent, or a checkpoint that failed: the next one is whole. */
        WHOLE,
        /** It is restarted from an older one, and goes on beside the newer ones. */
        RESTART
    }

    /** @param which of those that are there, of a restart */
    private record Step(Event event, int which) {
    }

    @Provide
    Arbitrary<List<Step>> steps() {
        return Combinators.combine(Arbitraries.frequency(
                Tuple.of(5, Event.NOTHING), Tuple.of(1, Event.WHOLE),
                Tuple.of(1, Event.RESTART)), Arbitraries.integers().between(0, 9)).as(Step::new).list().ofMinSize(1)
                .ofMaxSize(25);
    }

    @Property(tries = 150)
    void whatStaysHasAllThatItBuildsOn(@ForAll("steps") final List<Step> steps, @ForAll @IntRange(min = 1, max = 4) final int keep,
            @ForAll @IntRange(min = 1, max = 5) final int fullEvery) throws Exception {
        final Path directory = Files.createTempDirectory("chains");
        try {
            run(directory, steps, keep, fullEvery);
        } finally {
            try (Stream<Path> all = Files.walk(directory)) {
                for (final Path path : all.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(path);
                }
            }
        }
    }

    private static void run(final Path directory, final List<Step> steps, final int keep, final int fullEvery) throws Exception {
        final Map<Long, List<String>> layers = new LinkedHashMap<>();
        long epoch = 0;
        long last = 0;
        long restartedFrom = 0;
        for (final Step step : steps) {
            List<String> base = last == 0 ? List.of() : layers.get(last);
            boolean whole = last == 0 || base.size() + 1 >= fullEvery;
            if (step.event() == Event.RESTART && last != 0) {
                final List<Path> there = CheckpointFolder.list(directory);
                last = Long.parseLong(there.get(step.which() % there.size()).getFileName().toString().substring("ckpt-job-".length()));
                restartedFrom = last;
            }
            whole |= step.event() != Event.NOTHING;
            epoch++;
            final List<String> chain = new ArrayList<>();
            if (!whole) {
                chain.add(CheckpointFolder.name("job", last));
                chain.addAll(base);
            }
            layers.put(epoch, chain);
            commit(directory, epoch, last, chain);
            last = epoch;
            final List<Path> before = CheckpointFolder.list(directory);
            CheckpointFolder.prune(directory, "job", keep, restartedFrom);
            check(directory, before, layers, keep, fullEvery, epoch, restartedFrom);
        }
    }

    private static void check(final Path directory, final List<Path> before, final Map<Long, List<String>> layers, final int keep,
            final int fullEvery, final long newest, final long restartedFrom) throws Exception {
        final Set<String> names = CheckpointFolder.list(directory).stream().map(folder -> folder.getFileName().toString())
                .collect(Collectors.toCollection(TreeSet::new));
        assertTrue(names.contains(CheckpointFolder.name("job", newest)), "the newest stays");
        assertTrue(restartedFrom == 0 || names.contains(CheckpointFolder.name("job", restartedFrom)), "so does the one it came from");
        assertTrue(names.size() >= Math.min(keep, before.size()), () -> names + " of " + before);
        for (final Path folder : CheckpointFolder.list(directory)) {
            final long number = ManifestFile.read(folder).epoch();
            assertEquals(new TreeSet<>(layers.get(number)), CheckpointFolder.bases(folder));
            assertTrue(names.containsAll(layers.get(number)), () -> folder + " builds on " + layers.get(number) + " of " + names);
            assertTrue(layers.get(number).size() < fullEvery, "a chain is no longer than it may be");
        }
        // Beside those that are wanted only what they build on.
        assertTrue(names.size() <= (keep + 1) * fullEvery, () -> names.size() + " stay");
    }

    private static void commit(final Path directory, final long epoch, final long parent, final List<String> chain)
            throws IOException {
        final List<ImageLayer> layers = chain.stream().map(base -> new ImageLayer(base, "host/tree-0",
                List.of(new ImageFile("pages-1.img", 1, "00000000")))).toList();
        final TreeImage tree = new TreeImage("rank 0", "tree-0", List.of(new ProcessImage("rank 0", 10, 0, "app", 1, List.of())),
                List.of(), List.of(), List.of(), List.of(), false, List.of(), List.of(), List.of(), List.of(), 0, 1, layers, null);
        CheckpointFolder.begin(directory, "job", epoch).commit(new Manifest(Manifest.SCHEMA, "job", epoch, parent, null, "", false,
                1, Map.of(), 1, 1, List.of(new Manifest.HostPart("here", "host", List.of(), List.of(), new HostImages("fake", "here",
                        "0", "cpu", List.of(), List.of(tree), 1, 1, 1), List.of())), List.of(), null, ""), () -> { });
    }
}
