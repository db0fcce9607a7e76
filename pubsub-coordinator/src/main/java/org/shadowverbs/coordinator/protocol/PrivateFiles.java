// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.Set;

/**
 * Files that hold a job's memory, its secret or its ids: they are for their owner alone, whatever the umask is. And whether
 * somebody else could have put or changed what is read back from a path.
 */
public final class PrivateFiles {
    /** For what makes a folder; no umask takes or adds anything. */
    public static final FileAttribute<Set<PosixFilePermission>> FOLDER =
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
    /** For what makes a file. */
    public static final FileAttribute<Set<PosixFilePermission>> FILE =
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));

    private static final Set<StandardOpenOption> TRUNCATE =
            Set.of(StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING);
    private static final int OTHERS = 0077;
    private static final int GROUP_WRITES = 0020;
    private static final int WORLD_WRITES = 0002;
    private static final int STICKY = 01000;
    private static final int MAX_LINKS = 40;
    /** Whom a file seems to belong to when its owner has no number in the user namespace: /proc/sys/kernel/overflowuid. */
    private static final int UNMAPPED = 65534;

    private PrivateFiles() {
    }

    /** Makes an empty file, or empties one that is there, and takes it from others. */
    public static void makeEmpty(final Path file) throws IOException {
        Files.newByteChannel(file, TRUNCATE, FILE).close();
        Files.setPosixFilePermissions(file, FILE.value());
    }

    /** Writes a file anew; one that is there is taken from others first. */
    public static void write(final Path file, final byte[] content) throws IOException {
        makeEmpty(file);
        Files.write(file, content);
    }

    /** Writes a file whole: who opens it finds what was there before or all that is new. */
    public static void replace(final Path file, final byte[] content) throws IOException {
        final Path part = file.resolveSibling(file.getFileName() + ".part");
        Files.deleteIfExists(part);
        write(part, content);
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Whether others than the owner have any right to the file or folder itself. */
    public static boolean isOpenToOthers(final Path path) throws IOException {
        return (mode(Files.readAttributes(path, "unix:mode", LinkOption.NOFOLLOW_LINKS)) & OTHERS) != 0;
    }

    /**
     * Why another user could have put something else in a path's place, or an empty string. It looks from the root of the file
     * system down, through links: when nobody else may change a folder, its entries stay what they are from then on. A folder
     * with the sticky bit is one whose entries only their owners may change.
     */
    public static String placeProblem(final Path path) throws IOException {
        final Deque<Path> names = new ArrayDeque<>();
        path.toAbsolutePath().forEach(names::addLast);
        Path at = path.getFileSystem().getPath("/");
        String problem = problem(at, true);
        for (int links = 0; problem.isEmpty() && !names.isEmpty();) {
            final Path name = names.removeFirst();
            if (name.toString().equals("..")) {
                at = at.getParent() == null ? at : at.getParent();
            } else if (!name.toString().equals(".")) {
                final Path next = at.resolve(name);
                problem = problem(next, true);
                if (!Files.isSymbolicLink(next)) {
                    at = next;
                } else {
                    if (++links > MAX_LINKS) {
                        throw new IOException(path + ": too many symbolic links");
                    }
                    final Path target = Files.readSymbolicLink(next);
                    at = target.isAbsolute() ? target.getRoot() : at;
                    for (int i = target.getNameCount() - 1; i >= 0; i--) {
                        names.addFirst(target.getName(i));
                    }
                }
            }
        }
        return problem;
    }

    /**
     * Why another user could have put or changed a folder or anything in it, or an empty string. What is not a file or a folder
     * has no business in it.
     */
    public static String contentProblem(final Path folder) throws IOException {
        final String place = placeProblem(folder);
        return place.isEmpty() ? treeProblem(folder) : place;
    }

    private static String treeProblem(final Path path) throws IOException {
        final String own = problem(path, false);
        if (!own.isEmpty() || !Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
            return own.isEmpty() && !Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)
                    ? path + " is neither a file nor a folder" : own;
        }
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(path)) {
            for (final Path entry : entries) {
                final String problem = treeProblem(entry);
                if (!problem.isEmpty()) {
                    return problem;
                }
            }
        }
        return "";
    }

    /** @param onTheWay its entries may be put there by others, when only their owners may change them */
    private static String problem(final Path path, final boolean onTheWay) throws IOException {
        final Map<String, Object> a = Files.readAttributes(path, "unix:uid,gid,mode", LinkOption.NOFOLLOW_LINKS);
        final int owner = (int) a.get("uid");
        if (owner != 0 && owner != ownId("uid") && !(onTheWay && owner == UNMAPPED && isRootUnmapped())) {
            return path + " belongs to user " + owner;
        }
        if (Files.isSymbolicLink(path)) {
            return onTheWay ? "" : path + " is a symbolic link";
        }
        final int mode = mode(a);
        if (onTheWay && (mode & STICKY) != 0) {
            return "";
        }
        // A user's own group often has no other member; that of root's is no reason to trust it with root's rights.
        final boolean ownGroup = onTheWay && ownId("uid") != 0 && (int) a.get("gid") == ownId("gid");
        return (mode & WORLD_WRITES) != 0 ? path + " may be written by everybody"
                : (mode & GROUP_WRITES) != 0 && !ownGroup ? path + " may be written by group " + a.get("gid") : "";
    }

    /** Whether in this user namespace root's files look like those of nobody, as "/" does then. */
    private static boolean isRootUnmapped() throws IOException {
        return (int) Files.getAttribute(Path.of("/proc"), "unix:uid") == UNMAPPED
                || (int) Files.getAttribute(Path.of("/"), "unix:uid") == UNMAPPED;
    }

    private static int mode(final Map<String, Object> attributes) {
        return (int) attributes.get("mode");
    }

    private static int ownId(final String which) throws IOException {
        return (int) Files.getAttribute(Path.of("/proc/self"), "unix:" + which);
    }
}
