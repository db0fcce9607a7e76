// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.system;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * All processes that this one's pid namespace has, as /proc has them now. Whoever looks at all of them reads one line of each: a
 * host of a cluster has thousands. See proc_pid_stat(5).
 */
public final class Processes {
    /** Fields of /proc/PID/stat, by their numbers in the manual page. */
    public static final int STATE = 3;
    public static final int PARENT = 4;
    public static final int SESSION = 6;
    public static final int START_TIME = 22;
    public static final int EXIT_CODE = 52;

    private static final Path PROC = Path.of("/proc");

    private Processes() {
    }

    /** The pids. @throws IOException there is no /proc */
    public static List<Long> all() throws IOException {
        final List<Long> pids = new ArrayList<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(PROC)) {
            for (final Path entry : entries) {
                final String name = entry.getFileName().toString();
                if (name.charAt(0) >= '1' && name.charAt(0) <= '9') {
                    pids.add(Long.parseLong(name));
                }
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        return pids;
    }

    /** Children by parent, of all processes. @throws IOException there is no /proc */
    public static Map<Long, List<Long>> children() throws IOException {
        final Map<Long, List<Long>> children = new HashMap<>();
        for (final long pid : all()) {
            try {
                children.computeIfAbsent(Long.parseLong(stat(pid, PARENT)), parent -> new ArrayList<>()).add(pid);
            } catch (IOException e) {
                continue; // It has ended meanwhile.
            }
        }
        return children;
    }

    /**
     * A field of a process's line.
     *
     * @param number {@link #STATE} or one after it
     * @throws IOException it has ended
     */
    public static String stat(final long pid, final int number) throws IOException {
        return stat(PROC.resolve(Long.toString(pid)).resolve("stat"), number);
    }

    /** Likewise, by the file of that name, of a process or of a thread. */
    public static String stat(final Path file, final int number) throws IOException {
        final String line = Files.readString(file, StandardCharsets.ISO_8859_1);
        // The command before it is in parentheses and may have any character.
        int begin = line.lastIndexOf(')') + 2;
        if (begin < 2) {
            throw new IOException(file + " has no command");
        }
        for (int field = STATE; field < number; field++) {
            begin = line.indexOf(' ', begin) + 1;
        }
        final int end = line.indexOf(' ', begin);
        return line.substring(begin, end < 0 ? line.length() : end).strip();
    }
}
