// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * The files of the application that an image refers to by name: what it writes, and what it has mapped.
 *
 * <p>Those in /dev/shm are memory, which no other host has: all that a tree has of them is copied, and a tree whose /dev/shm is its
 * own has all.
 */
final class UserFiles {
    private static final String DELETED = " (deleted)";
    private static final Path MEMORY = Path.of("/dev/shm");

    private UserFiles() {
    }

    /** Records the files that a frozen tree writes, and copies to the folder those that are rewritten in place. */
    static List<OutputFile> outputs(final ProcessTree tree, final Path folder) throws IOException {
        final long pid = tree.top().pid();
        final Set<String> copied = new LinkedHashSet<>(ownMemory(pid));
        final Set<String> paths = new LinkedHashSet<>();
        for (final ProcessTree.Member member : tree.members()) {
            for (final Proc.Mapping mapping : member.mappings()) {
                if ((mapping.shared() && mapping.writable() || isMemory(mapping.name())) && named(mapping.name(), pid)) {
                    copied.add(mapping.name());
                }
            }
            for (final Proc.Descriptor descriptor : member.descriptors()) {
                if ((descriptor.writable() || isMemory(descriptor.target())) && named(descriptor.target(), pid)) {
                    (isMemory(descriptor.target()) ? copied : paths).add(descriptor.target());
                }
            }
        }
        paths.addAll(copied);
        final List<OutputFile> outputs = new ArrayList<>();
        for (final String path : paths) {
            final String copy = copied.contains(path) ? "file-" + outputs.size() : "";
            if (!copy.isEmpty()) {
                PrivateFiles.makeEmpty(folder.resolve(copy));
                try (OutputStream to = Files.newOutputStream(folder.resolve(copy))) {
                    Files.copy(asSeenBy(pid, path), to);
                }
            }
            outputs.add(OutputFile.of(path, asSeenBy(pid, path), copy));
        }
        return outputs;
    }

    private static boolean isMemory(final String path) {
        return Path.of(path).startsWith(MEMORY);
    }

    /** A file of a process; in /dev/shm, which may be one of its own, the one that it has there. */
    static Path asSeenBy(final long pid, final String path) {
        return isMemory(path) ? Proc.path(pid, "root").resolve(path.substring(1)) : Path.of(path);
    }

    /** The device number of a process's /dev/shm; 0 when it is this process's too, or there is none. */
    static long memory(final long pid) throws IOException {
        final Path folder = asSeenBy(pid, MEMORY.toString());
        final long device = Files.isDirectory(folder) ? (long) Files.getAttribute(folder, "unix:dev") : 0;
        return Files.isDirectory(MEMORY) && (long) Files.getAttribute(MEMORY, "unix:dev") == device ? 0 : device;
    }

    /** All files of a /dev/shm that is another one than this process's; none when it is the same. */
    private static List<String> ownMemory(final long pid) throws IOException {
        if (memory(pid) == 0) {
            return List.of();
        }
        final Path folder = asSeenBy(pid, MEMORY.toString());
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(file -> Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS))
                    .map(file -> MEMORY.resolve(folder.relativize(file).toString()).toString()).sorted().toList();
        }
    }

    /** Records the files that a tree has mapped and does not write: programs and libraries. */
    static List<MappedFile> mapped(final ProcessTree tree) throws IOException {
        final Map<String, MappedFile> files = new LinkedHashMap<>();
        for (final ProcessTree.Member member : tree.members()) {
            for (final Proc.Mapping mapping : member.mappings()) {
                final String name = mapping.name();
                if (!(mapping.shared() && mapping.writable()) && !isMemory(name) && !files.containsKey(name)
                        && named(name, tree.top().pid())) {
                    files.put(name, new MappedFile(name, Files.size(Path.of(name)), BuildId.of(Path.of(name))));
                }
            }
        }
        return List.copyOf(files.values());
    }

    /** Says which files are not as an image needs them. */
    static List<Finding> verify(final TreeImage tree) {
        final List<Finding> findings = new ArrayList<>();
        for (final MappedFile file : tree.mapped()) {
            final Path path = Path.of(file.path());
            try {
                if (!Files.exists(path)) {
                    findings.add(new Finding(tree.name(), path + " is missing", "install it again"));
                } else if (Files.size(path) != file.bytes() || !BuildId.of(path).equals(file.buildId())) {
                    findings.add(new Finding(tree.name(), path + " is not the file that it was at the checkpoint",
                            "install the version that it was"));
                }
            } catch (final IOException e) {
                findings.add(new Finding(tree.name(), path + " cannot be read: " + e.getMessage(), ""));
            }
        }
        for (final OutputFile file : tree.outputs()) {
            final Path path = Path.of(file.path());
            try {
                final boolean exists = Files.exists(path);
                if (file.copy().isEmpty() && (!exists || Files.size(path) < file.bytes())) {
                    findings.add(new Finding(tree.name(), "the output file " + path
                            + (exists ? " is shorter than the " + file.bytes() + " bytes it had" : " is missing"),
                            "put it back"));
                }
            } catch (final IOException e) {
                findings.add(new Finding(tree.name(), path + " cannot be read: " + e.getMessage(), ""));
            }
        }
        for (final NamedPipe pipe : tree.pipes()) {
            try {
                final String problem = isMemory(pipe.path()) ? "" : pipe.problem();
                if (!problem.isEmpty()) {
                    findings.add(new Finding(tree.name(), problem, "put it back"));
                }
            } catch (final IOException e) {
                findings.add(new Finding(tree.name(), pipe.path() + " cannot be looked at: " + e.getMessage(), ""));
            }
        }
        return findings;
    }

    /**
     * Puts the files that a tree writes back to what they were; what they had grown by is kept beside them. FIFOs that are missing are
     * made.
     *
     * @param pid a process that has the /dev/shm that the tree is to have
     */
    static void putBack(final TreeImage tree, final Path folder, final String checkpointName, final long pid)
            throws IOException, CheckpointException, InterruptedException {
        for (final NamedPipe pipe : tree.pipes()) {
            pipe.make(asSeenBy(pid, pipe.path()));
        }
        for (final OutputFile file : tree.outputs()) {
            final Path path = asSeenBy(pid, file.path());
            if (!file.copy().isEmpty()) {
                // In place, so that it keeps its owner and mode; one that is gone gets them again.
                final boolean gone = !Files.exists(path, LinkOption.NOFOLLOW_LINKS);
                if (gone) {
                    if (isMemory(file.path())) {
                        Files.createDirectories(path.getParent());
                    }
                    PrivateFiles.makeEmpty(path);
                }
                try (OutputStream to = Files.newOutputStream(path, StandardOpenOption.WRITE,
                        StandardOpenOption.TRUNCATE_EXISTING, LinkOption.NOFOLLOW_LINKS)) {
                    Files.copy(folder.resolve(file.copy()), to);
                }
                if (gone) {
                    file.own(path);
                }
            } else if (Files.size(path) > file.bytes()) {
                cut(path, file.bytes(), checkpointName);
            }
        }
    }

    private static void cut(final Path path, final long length, final String checkpointName) throws IOException {
        final String name = path.getFileName() + ".tail-" + checkpointName;
        Path tail = path.resolveSibling(name);
        for (int i = 1; Files.exists(tail); i++) {
            tail = path.resolveSibling(name + "." + i); // An earlier restart from the same checkpoint.
        }
        try (FileChannel from = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE,
                        LinkOption.NOFOLLOW_LINKS);
                FileChannel to = FileChannel.open(tail,
                        Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE), PrivateFiles.FILE)) {
            for (long at = length; at < from.size();) {
                at += from.transferTo(at, from.size() - at, to);
            }
            OutputFile.of(path.toString(), path, "").own(tail);
            to.force(true);
            from.truncate(length);
        }
    }

    /** Whether it is the name of a regular file that is still there under it. */
    private static boolean named(final String path, final long pid) {
        return hasName(path) && Files.isRegularFile(asSeenBy(pid, path));
    }

    /** Whether it is a name that a program of another host may find a file by. */
    static boolean hasName(final String path) {
        return path.startsWith("/")
                && !path.endsWith(DELETED)
                && !path.startsWith("/memfd:")
                && !path.startsWith("/proc/")
                && !path.startsWith("/sys/")
                && !Sharing.isVerbsDevice(path);
    }
}
