// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/**
 * A process that thaws control groups when this one dies: for a while, as a CRIU that is still at work freezes again when it ends.
 */
final class Guard implements AutoCloseable {
    private final List<Path> groups;
    private final Process process;

    private Guard(final List<Path> groups, final Process process) {
        this.groups = groups;
        this.process = process;
    }

    static Guard of(final Freezer freezer, final Collection<Freezer.Group> groups) throws IOException {
        final List<Path> folders = folders(groups);
        final List<String> command = new ArrayList<>(List.of(
                "sh", "-c",
                "read -r done || { trap '' HUP INT TERM; i=0; while [ $i -lt 100 ]; do " + freezer.thawCommand()
                        + "; sleep 0.2; i=$((i + 1)); done; }",
                "shadowverbs-guard"));
        folders.forEach(folder -> command.add(folder.toString()));
        return new Guard(folders, new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).start());
    }

    boolean guards(final Collection<Freezer.Group> all) {
        return groups.containsAll(folders(all)) && process.isAlive();
    }

    private static List<Path> folders(final Collection<Freezer.Group> groups) {
        return groups.stream().map(Freezer.Group::folder).toList();
    }

    /** Dismisses it: nothing is frozen any more. */
    @Override
    public void close() {
        try (var word = process.getOutputStream()) {
            word.write('\n');
        } catch (final IOException e) {
            process.destroy(); // It is gone: nothing to dismiss.
        }
    }
}
