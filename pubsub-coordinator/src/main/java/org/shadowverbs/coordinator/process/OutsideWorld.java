// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.LongPredicate;
import java.util.stream.Collectors;
import org.shadowverbs.coordinator.system.Processes;

/**
 * What all processes of the host have that others could have in common with them: pipes, sockets, and memory without a name. To
 * look takes longer than processes should stand still, so that is done before. Of this only new processes are looked at later,
 * and those again that seem to have something: what is neither has only what it could have been handed on a Unix socket since.
 */
final class OutsideWorld {
    /** Who holds a pipe or socket, by its inode. */
    private final Map<Long, Set<Long>> holders = new HashMap<>();
    /** Who has mapped shared memory that has no name any more, by device and inode, as {@link Proc.Mapping#key} has them. */
    private final Map<String, Set<Long>> mappers = new HashMap<>();
    private final Set<Long> known = new HashSet<>();

    private OutsideWorld() {
    }

    /** A process that ends meanwhile has nothing. */
    static OutsideWorld look() {
        final OutsideWorld world = new OutsideWorld();
        world.lookAgain();
        return world;
    }

    /** At the processes that were not there before. */
    void lookAgain() {
        try {
            for (final long pid : Processes.all()) {
                if (known.add(pid)) {
                    inodes(pid).forEach(inode -> holders.computeIfAbsent(inode, i -> new HashSet<>()).add(pid));
                    keys(pid).forEach(key -> mappers.computeIfAbsent(key, k -> new HashSet<>()).add(pid));
                }
            }
        } catch (final IOException e) {
            return; // There is no /proc, which whoever looks at the processes themselves finds out.
        }
    }

    private static Set<Long> inodes(final long pid) {
        final Set<Long> inodes = new HashSet<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(Proc.path(pid, "fd"))) {
            for (final Path entry : entries) {
                try {
                    final long inode = Proc.bracketed(Files.readSymbolicLink(entry).toString());
                    if (inode != 0) {
                        inodes.add(inode);
                    }
                } catch (final NoSuchFileException e) {
                    continue; // It was closed meanwhile.
                }
            }
        } catch (final IOException | DirectoryIteratorException e) {
            return Set.of(); // It has ended.
        }
        return inodes;
    }

    private static Set<String> keys(final long pid) {
        final Set<String> keys = new HashSet<>();
        try {
            Proc.mappings(pid, line -> line.endsWith(Proc.DELETED) || line.contains("/memfd:")).stream()
                    .filter(Proc.Mapping::shared).forEach(mapping -> keys.add(mapping.key()));
        } catch (final IOException e) {
            return Set.of(); // It has ended.
        }
        return keys;
    }

    /** @return those that have it now of the pids that are asked for */
    Set<Long> holders(final long inode, final LongPredicate asked) {
        return holders.getOrDefault(inode, Set.of()).stream().filter(pid -> asked.test(pid) && inodes(pid).contains(inode))
                .collect(Collectors.toSet());
    }

    /** @return those that have it mapped now of the pids that are asked for */
    Set<Long> mappers(final String key, final LongPredicate asked) {
        return mappers.getOrDefault(key, Set.of()).stream().filter(pid -> asked.test(pid) && keys(pid).contains(key))
                .collect(Collectors.toSet());
    }
}
