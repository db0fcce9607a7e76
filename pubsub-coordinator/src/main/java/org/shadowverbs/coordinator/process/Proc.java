// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What /proc says of one process at one moment. Pids are those of this process's namespace unless named otherwise. */
final class Proc {
    /** Fields of a line of /proc/PID/maps: range, mode, offset, device, inode, name. */
    private static final int MAPS_FIELDS = 6;

    private static final int ACCESS_MODE = 3;

    private Proc() {
    }

    /**
     * A descriptor.
     *
     * @param fd     its number
     * @param target what it leads to, as the kernel names it
     * @param inode  from the target of a pipe or socket, else 0
     * @param flags  open(2) flags
     */
    record Descriptor(int fd, String target, long inode, int flags) {
        boolean readable() {
            return (flags & ACCESS_MODE) != 1;
        }

        boolean writable() {
            return (flags & ACCESS_MODE) != 0;
        }

        boolean pipe() {
            return target.startsWith("pipe:[");
        }

        boolean socket() {
            return target.startsWith("socket:[");
        }
    }

    /**
     * A mapping of a file or of shared memory.
     *
     * @param range    its addresses, as /proc/PID/map_files names them
     * @param shared   whether MAP_SHARED
     * @param writable whether writable now
     * @param key      device and inode
     * @param name     the file's path, " (deleted)" at its end when it has none any more
     */
    record Mapping(String range, boolean shared, boolean writable, String key, String name) {
    }

    /**
     * Ids of a process.
     *
     * @param pid       its pid here
     * @param parent    its parent's pid here
     * @param ownPid    its pid in its own namespace
     * @param ownSession its session in its own namespace, 0 when that is outside
     * @param state     one letter, as in /proc/PID/stat
     * @param command   its command name
     * @param threads   number of threads
     */
    record Ids(long pid, long parent, long ownPid, long ownSession, char state, String command, int threads) {
        boolean ended() {
            return state == 'Z' || state == 'X';
        }
    }

    /** At the end of the name of a file that has none any more. */
    static final String DELETED = " (deleted)";

    static Path path(final long pid, final String name) {
        return Path.of("/proc", Long.toString(pid), name);
    }

    static Ids ids(final long pid) throws IOException {
        final Map<String, String> status = new HashMap<>();
        for (final String line : Files.readAllLines(path(pid, "status"))) {
            final int colon = line.indexOf(':');
            status.put(line.substring(0, colon), line.substring(colon + 1).strip());
        }
        return new Ids(
                pid,
                Long.parseLong(status.get("PPid")),
                lastNumber(status.get("NSpid")),
                lastNumber(status.get("NSsid")),
                status.get("State").charAt(0),
                status.get("Name"),
                Integer.parseInt(status.getOrDefault("Threads", "1")));
    }

    /** Whether there is no such process any more, or only its exit status is left. */
    static boolean ended(final long pid) {
        try {
            return ids(pid).ended();
        } catch (final IOException e) {
            return true;
        }
    }

    static List<Long> all() throws IOException {
        final List<Long> pids = new ArrayList<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(Path.of("/proc"), "[1-9]*")) {
            for (final Path entry : entries) {
                pids.add(Long.parseLong(entry.getFileName().toString()));
            }
        } catch (final DirectoryIteratorException e) {
            throw e.getCause();
        }
        return pids;
    }

    /** How much the processes of a pid namespace have read so far; it changes when one ends, too. */
    static long read(final String pidNamespace) {
        long bytes = 0;
        try {
            for (final long pid : all()) {
                bytes += read(pid, pidNamespace);
            }
        } catch (final IOException e) {
            return 0; // The next look tells.
        }
        return bytes;
    }

    private static long read(final long pid, final String pidNamespace) {
        try {
            if (!namespace(pid, "pid").equals(pidNamespace)) {
                return 0;
            }
            return Files.readAllLines(path(pid, "io")).stream().filter(line -> line.startsWith("rchar:"))
                    .mapToLong(line -> Long.parseLong(line.substring("rchar:".length()).strip())).sum();
        } catch (final IOException e) {
            return 0; // It has ended meanwhile.
        }
    }

    /** Of the one line of /proc/PID/stat, where the command, which may have any character, is in parentheses. */
    private static long parent(final long pid) throws IOException {
        final String stat = Files.readString(path(pid, "stat"), StandardCharsets.ISO_8859_1);
        final int state = stat.lastIndexOf(')') + 2;
        return Long.parseLong(stat.substring(state + 2, stat.indexOf(' ', state + 2)));
    }

    /** Children by parent, of all processes of the host. */
    static Map<Long, List<Long>> children() throws IOException {
        final Map<Long, List<Long>> children = new HashMap<>();
        for (final long pid : all()) {
            try {
                children.computeIfAbsent(parent(pid), parent -> new ArrayList<>()).add(pid);
            } catch (final IOException e) {
                continue; // It has ended meanwhile.
            }
        }
        return children;
    }

    static List<Descriptor> descriptors(final long pid) throws IOException {
        final List<Descriptor> descriptors = new ArrayList<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(path(pid, "fd"))) {
            for (final Path entry : entries) {
                final int fd = Integer.parseInt(entry.getFileName().toString());
                try {
                    final String target = Files.readSymbolicLink(entry).toString();
                    descriptors.add(new Descriptor(fd, target, bracketed(target), flags(pid, fd)));
                } catch (final NoSuchFileException e) {
                    continue; // It was closed meanwhile.
                }
            }
        } catch (final DirectoryIteratorException e) {
            throw e.getCause();
        }
        descriptors.sort((a, b) -> Integer.compare(a.fd(), b.fd()));
        return descriptors;
    }

    static List<Mapping> mappings(final long pid) throws IOException {
        final List<Mapping> mappings = new ArrayList<>();
        for (final String line : Files.readAllLines(path(pid, "maps"))) {
            final String[] field = line.split(" +", MAPS_FIELDS);
            final String name = field.length == MAPS_FIELDS ? field[MAPS_FIELDS - 1] : "";
            if (name.startsWith("/")) {
                mappings.add(new Mapping(
                        field[0], field[1].charAt(3) == 's', field[1].charAt(1) == 'w',
                        field[3] + ":" + field[4], name));
            }
        }
        return mappings;
    }

    /** Bytes of memory that an image of the process holds, at most: what no file backs, in memory or swapped out. */
    static long memory(final long pid) throws IOException {
        long kilobytes = 0;
        for (final String line : Files.readAllLines(path(pid, "status"))) {
            if (line.startsWith("RssAnon:") || line.startsWith("RssShmem:") || line.startsWith("VmSwap:")) {
                kilobytes += Long.parseLong(line.replaceAll("[^0-9]", ""));
            }
        }
        return kilobytes << 10;
    }

    /** Identity of a namespace, for example "pid:[4026531836]". */
    static String namespace(final long pid, final String kind) throws IOException {
        return Files.readSymbolicLink(path(pid, "ns").resolve(kind)).toString();
    }

    private static int flags(final long pid, final int fd) throws IOException {
        return Integer.parseUnsignedInt(fdinfo(pid, fd, "flags:", "0"), 8);
    }

    /** Of the pseudo terminal whose master a descriptor is: N of /dev/pts/N; -1 when it has been closed meanwhile. */
    static int terminalIndex(final long pid, final int fd) throws IOException {
        try {
            return Integer.parseInt(fdinfo(pid, fd, "tty-index:", "-1"));
        } catch (final NoSuchFileException e) {
            return -1;
        }
    }

    private static String fdinfo(final long pid, final int fd, final String field, final String missing) throws IOException {
        final Path info = path(pid, "fdinfo").resolve(Integer.toString(fd));
        final List<String> lines;
        try {
            lines = Files.readAllLines(info);
        } catch (final IOException e) {
            if (Files.exists(path(pid, "fd").resolve(Integer.toString(fd)), LinkOption.NOFOLLOW_LINKS)) {
                throw e;
            }
            throw new NoSuchFileException(info.toString()); // It was closed after the file had been opened, which fails in its own way.
        }
        for (final String line : lines) {
            if (line.startsWith(field)) {
                return line.substring(field.length()).strip();
            }
        }
        return missing;
    }

    /** The inode of a pipe or socket, from where its descriptor leads; 0: it is neither. */
    static long bracketed(final String target) {
        final int open = target.indexOf(":[");
        return (target.startsWith("pipe:") || target.startsWith("socket:")) && open > 0
                ? Long.parseLong(target.substring(open + 2, target.length() - 1))
                : 0;
    }

    private static long lastNumber(final String numbers) {
        return Long.parseLong(numbers.substring(numbers.lastIndexOf('\t') + 1).strip());
    }
}
