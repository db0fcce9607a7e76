// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.system.Libc;

/**
 * Which descriptors this process was started with: the program that it becomes is to see those (a launcher's pipes, for
 * example) and none that the JVM has opened, which does not mark its own for closing.
 */
final class Descriptors {
    private static final Path OWN = Path.of("/proc/self/fd");

    private final Set<Integer> atStart = new HashSet<>();

    private Descriptors() {
    }

    /** To be called before anything is opened. */
    static Descriptors atStart() throws CommandException {
        final Descriptors d = new Descriptors();
        for (final Path fd : list()) {
            if (!openedByJvm(fd)) {
                d.atStart.add(number(fd));
            }
        }
        return d;
    }

    void keepInheritedOnly() throws CommandException {
        try {
            for (final Path fd : list()) {
                if (!atStart.contains(number(fd)) && Files.exists(fd, java.nio.file.LinkOption.NOFOLLOW_LINKS)) {
                    Libc.closeOnExec(number(fd));
                }
            }
        } catch (IOException e) {
            throw new CommandException("launch: " + e.getMessage());
        }
    }

    private static int number(final Path fd) {
        return Integer.parseInt(fd.getFileName().toString());
    }

    private static Iterable<Path> list() throws CommandException {
        try (Stream<Path> all = Files.list(OWN)) {
            return all.filter(p -> number(p) > 2).toList();
        } catch (IOException e) {
            throw new CommandException("launch: /proc can't be read: " + e.getMessage());
        }
    }

    /** Its modules, the class path, the directory that {@link #list} has open at that moment. */
    private static boolean openedByJvm(final Path fd) {
        final String target;
        try {
            target = Files.readSymbolicLink(fd).toString();
        } catch (IOException e) {
            return true; // closed meanwhile
        }
        if (target.startsWith(System.getProperty("java.home")) || target.matches("/proc/\\d+/fd")) {
            return true;
        }
        for (final String element : System.getProperty("java.class.path").split(":")) {
            if (target.equals(element)) {
                return true;
            }
        }
        return false;
    }
}
