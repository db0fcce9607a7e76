// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * A FIFO with a name that a process has open, as mpirun of Open MPI 4 has one below /tmp. CRIU opens it by its name, so a restart
 * makes it again where it is missing. What is there already stays as it is.
 *
 * <p>Folders are made only below one in which everybody may make something, as /tmp is: elsewhere a missing folder is one that this
 * host should have and has not.
 *
 * @param path    its absolute path
 * @param mode    its permission bits, which CRIU compares
 * @param uid     its owner
 * @param gid     its group
 * @param folders those that it is in, the uppermost first, below the first one on its path in which everybody may make something;
 *                none when there is no such
 */
public record NamedPipe(String path, int mode, int uid, int gid, List<Folder> folders) {
    private static final Duration TIMEOUT = Duration.ofSeconds(10);
    private static final int TYPE = 0170000;
    private static final int FIFO = 0010000;
    private static final int PERMISSIONS = 07777;
    private static final int FOR_EVERYBODY = 01777;

    /**
     * A folder.
     *
     * @param path its absolute path
     * @param mode its permission bits
     * @param uid  its owner
     * @param gid  its group
     */
    public record Folder(String path, int mode, int uid, int gid) {
        static Folder of(final Path path) throws IOException {
            final Map<String, Object> a = look(path);
            return new Folder(path.toString(), (int) a.get("mode") & PERMISSIONS, (int) a.get("uid"), (int) a.get("gid"));
        }
    }

    /** Those of a tree that stands still, but for those that a restart replaces. */
    static List<NamedPipe> of(final ProcessTree tree, final Sharing sharing) throws IOException {
        final long top = tree.top().pid();
        final List<NamedPipe> pipes = new ArrayList<>();
        for (final ProcessTree.Member member : tree.members()) {
            for (final Proc.Descriptor descriptor : member.descriptors()) {
                final String path = descriptor.target();
                if (UserFiles.hasName(path) && isFifo(UserFiles.asSeenBy(top, path))
                        && pipes.stream().noneMatch(pipe -> pipe.path().equals(path))
                        && sharing.externals(member.ids().pid()).stream().noneMatch(external -> external.fd() == descriptor.fd()
                                && external.kind() == ExternalDescriptor.Kind.REPLACED_PIPE)) {
                    final Map<String, Object> a = look(UserFiles.asSeenBy(top, path));
                    pipes.add(new NamedPipe(path, (int) a.get("mode") & PERMISSIONS, (int) a.get("uid"), (int) a.get("gid"),
                            folders(Path.of(path))));
                }
            }
        }
        return pipes;
    }

    private static List<Folder> folders(final Path path) throws IOException {
        final List<Folder> folders = new ArrayList<>();
        boolean below = false;
        for (int names = 1; names < path.getNameCount(); names++) {
            final Path folder = path.getRoot().resolve(path.subpath(0, names));
            if (below) {
                folders.add(Folder.of(folder));
            }
            below |= ((int) look(folder).get("mode") & FOR_EVERYBODY) == FOR_EVERYBODY;
        }
        return folders;
    }

    private static boolean isFifo(final Path path) {
        try {
            return ((int) look(path).get("mode") & TYPE) == FIFO;
        } catch (final IOException e) {
            return false; // It is not there.
        }
    }

    private static Map<String, Object> look(final Path path) throws IOException {
        return Files.readAttributes(path, "unix:mode,uid,gid", LinkOption.NOFOLLOW_LINKS);
    }

    /** What stands in the way of it here; empty when nothing does. */
    String problem() throws IOException {
        final Path file = Path.of(path);
        if (Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
            return isFifo(file) ? "" : path + " is no FIFO any more";
        }
        for (final Folder folder : folders) {
            final Path there = Path.of(folder.path());
            if (!Files.exists(there, LinkOption.NOFOLLOW_LINKS)) {
                return missing(there.getParent());
            }
            // In another user's folder below /tmp nothing may be made: he could have it made anywhere.
            if (!Files.isDirectory(there, LinkOption.NOFOLLOW_LINKS) || !look(there).get("uid").equals(folder.uid())) {
                return "the FIFO " + path + " is missing, and " + there + " is not the folder that it was";
            }
        }
        return missing(file.getParent());
    }

    private String missing(final Path folder) {
        return Files.isDirectory(folder) ? "" : "the FIFO " + path + " is missing, and so is the folder " + folder;
    }

    /**
     * Makes it where it is missing, and the folders that it needs.
     *
     * @param file where this process finds it
     * @throws CheckpointException when something else is in its place
     */
    void make(final Path file) throws IOException, CheckpointException, InterruptedException {
        if (isFifo(file)) {
            return;
        }
        for (final Folder folder : folders) {
            final Path made = file.getRoot().resolve(file.subpath(0, file.getNameCount() - names(path) + names(folder.path())));
            try {
                Files.createDirectory(made, PrivateFiles.FOLDER);
                FileOwner.give(made, folder.mode(), folder.uid(), folder.gid());
            } catch (final FileAlreadyExistsException e) {
                continue; // It stays as it is.
            }
        }
        // It fails where there is anything by that name.
        final CriuCommand.Result result = CriuCommand.run(List.of("mkfifo", "-m", "600", file.toString()), TIMEOUT);
        if (result.status() == 0) {
            FileOwner.give(file, mode, uid, gid);
            System.err.println("shadowverbs: made the FIFO " + path + ", which this host did not have");
        } else if (!isFifo(file)) {
            throw new CheckpointException("the FIFO " + path + " could not be made: " + result.output().strip());
        }
    }

    private static int names(final String path) {
        return Path.of(path).getNameCount();
    }
}
