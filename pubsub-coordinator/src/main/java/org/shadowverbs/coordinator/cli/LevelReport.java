// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.shadowverbs.coordinator.levels.ImageCopy;
import org.shadowverbs.coordinator.manifest.Level;
import org.shadowverbs.coordinator.manifest.Levels;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.process.Progress;

/**
 * What is where of a checkpoint's images, and what of that is good, as far as this host can see it.
 *
 * @param problem why the checkpoint can't be restored; empty: it can, or other hosts have to say
 * @param state good: each host's images are, in a copy that was read; else what is not known here
 * @param copies null: all images are in the checkpoint's folder
 */
record LevelReport(String problem, String state, List<Place> copies) {
    private static final String GOOD = "good";

    /**
     * A copy of a host's images.
     *
     * @param host whose they are
     * @param at the host that has the copy; null: all see it
     * @param state good; elsewhere: it was not looked at; else what is wrong with it
     */
    record Place(String host, String level, String at, String state) {
        String text() {
            return host + (at == null || at.equals(host) ? "" : " at " + at) + (state.equals(GOOD) || state.equals("elsewhere") ? ""
                    : " (" + state + ")");
        }
    }

    /** Reads every file that this host sees, for "good" is to be true. */
    static LevelReport of(final Path folder, final Manifest manifest, final String here) throws IOException {
        final Levels levels = Levels.read(folder, manifest);
        final List<Place> places = new ArrayList<>();
        String problem = "";
        final List<String> unseen = new ArrayList<>();
        for (final Manifest.HostPart part : manifest.hosts()) {
            boolean good = false;
            boolean elsewhere = false;
            String wrong = "";
            for (final Levels.Copy copy : levels.of(part.directory())) {
                final boolean seen = copy.host().isEmpty() || copy.host().equals(here);
                final String its = seen ? damage(folder, part, copy) : "";
                good |= seen && its.isEmpty();
                elsewhere |= !seen;
                wrong = wrong.isEmpty() ? its : wrong;
                places.add(new Place(part.host(), copy.level().toString(), copy.host().isEmpty() ? null : copy.host(),
                        !seen ? "elsewhere" : its.isEmpty() ? GOOD : its));
            }
            if (!good && elsewhere) {
                unseen.add(part.host());
            } else if (!good && problem.isEmpty()) {
                problem = wrong.isEmpty() ? "the images of host " + part.host() + " are nowhere" : wrong;
            }
        }
        final boolean several = levels.copies().stream().anyMatch(copy -> copy.level() != Level.SHARED);
        return new LevelReport(problem, unseen.isEmpty() ? GOOD : "not seen from here: " + String.join(", ", unseen), several ? places : null);
    }

    private static String damage(final Path folder, final Manifest.HostPart part, final Levels.Copy copy) throws IOException {
        if (copy.level() == Level.SHARED) {
            return part.images().damage(folder.resolve(part.directory()));
        }
        try {
            return ImageCopy.problem(folder.getFileName().toString(), part, copy.rootFor(folder), Progress.UNTOLD);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while images were read", e);
        }
    }
}
