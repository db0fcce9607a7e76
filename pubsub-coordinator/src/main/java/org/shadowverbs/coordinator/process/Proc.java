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
import java.util.List;
import java.util.function.Predicate;
import org.shadowverbs.coordinator.system.Processes;

/** What /proc says of one process at one moment. Pids are those of this process's namespace unless named otherwise. */
final class Proc {
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
        // A command's name may have any bytes.
        final String status = "\n" + new String(Files.readAllBytes(path(pid, "status")), StandardCharsets.UTF_8);
        return new Ids(
                pid,
                Long.parseLong(status(status, "PPid")),
                lastNumber(status(status, "NSpid")),
                lastNumber(status(status, "NSsid")),
                status(status, "State").charAt(0),
                status(status, "Name"),
                Integer.parseInt(status(status, "Threads")));
    }

    /** What /proc/PID/status has in the line of that name. */
    private static String status(final String status, final String name) throws IOException {
        final String before = "\n" + name + ":\t";
        final int at = status.indexOf(before);
        if (at < 0) {
            throw new IOException("/proc/PID/status has no " + name);
        }
        return status.substring(at + before.length(), status.indexOf('\n', at + before.length())).strip();
    }

    /** Whether there is no such process any more, or only its exit status is left. */
    static boolean ended(final long pid) {
        try {
            return ids(pid).ended();
        } catch (final IOException e) {
            return true;
        }
    }

    /** How much the processes of a pid namespace have read so far; it changes when one ends, too. */
    static long read(final String pidNamespace) {
        long bytes = 0;
        try {
            for (final long pid : Processes.all()) {
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
        return mappings(pid, line -> true);
    }

    /** Those of the lines of /proc/PID/maps that are asked for: range, mode, offset, device, inode and, if it has one, name. */
    static List<Mapping> mappings(final long pid, final Predicate<String> asked) throws IOException {
        final List<Mapping> mappings = new ArrayList<>();
        for (final String line : Files.readString(path(pid, "maps"), StandardCharsets.ISO_8859_1).split("\n")) {
            final int name = line.indexOf('/');
            if (name > 0 && line.charAt(name - 1) == ' ' && asked.test(line)) { // else a name in brackets has the slash
                final String[] field = line.substring(0, name).split(" ");
                mappings.add(new Mapping(
                        field[0], field[1].charAt(3) == 's', field[1].charAt(1) == 'w',
                        field[3] + ":" + field[4],
                        new String(line.substring(name).getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8)));
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
