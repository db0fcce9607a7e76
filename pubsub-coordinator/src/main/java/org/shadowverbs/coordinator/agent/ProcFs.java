// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.system.Processes;

/** Looks at /proc: who descends from whom, and which process another pid namespace calls by a number. */
final class ProcFs {
    private static final Path PROC = Path.of("/proc");
    private static final String INNERMOST = "NSpid:";

    private ProcFs() {
    }

    /** A variable of the environment that a process was started with; null when it has none of that name. */
    static String environment(final long pid, final String name) {
        try {
            for (final String one : Files.readString(Path.of("/proc", Long.toString(pid), "environ"),
                    StandardCharsets.ISO_8859_1).split("\0")) {
                if (one.startsWith(name + "=")) {
                    return new String(one.substring(name.length() + 1).getBytes(StandardCharsets.ISO_8859_1),
                            StandardCharsets.UTF_8);
                }
            }
        } catch (IOException e) {
            return null; // it has ended, which the image's maker will say
        }
        return null;
    }

    /** The roots and all their descendants that exist now. */
    static Set<Long> descendants(final Collection<Long> roots) {
        final Map<Long, List<Long>> children = children();
        final Set<Long> found = new LinkedHashSet<>();
        final ArrayDeque<Long> queue = new ArrayDeque<>(roots);
        while (!queue.isEmpty()) {
            final long pid = queue.remove();
            if (Files.exists(PROC.resolve(Long.toString(pid))) && found.add(pid)) {
                queue.addAll(children.getOrDefault(pid, List.of()));
            }
        }
        return found;
    }

    /**
     * The pid here of the process that calls itself {@code pid}, which is one of {@code roots} or descends from one of
     * them. Where no process fits, {@code pid} itself.
     */
    static long hostPid(final long pid, final Collection<Long> roots) {
        for (final long candidate : descendants(roots)) {
            if (innermostPid(candidate) == pid) {
                return candidate;
            }
        }
        return pid;
    }

    private static Map<Long, List<Long>> children() {
        try {
            return Processes.children();
        } catch (IOException e) {
            return Map.of(); // without /proc nothing else is found either
        }
    }

    /** What the process calls itself: the last of its numbers, one for each pid namespace. */
    private static long innermostPid(final long pid) {
        try {
            for (final String line : Files.readAllLines(PROC.resolve(pid + "/status"))) {
                if (line.startsWith(INNERMOST)) {
                    return Long.parseLong(line.substring(line.lastIndexOf('\t') + 1));
                }
            }
        } catch (IOException e) {
            return -1; // it has ended
        }
        return -1;
    }
}
