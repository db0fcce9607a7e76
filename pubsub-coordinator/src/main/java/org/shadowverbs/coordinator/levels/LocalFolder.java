// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.levels;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/** A job's folder on a host's own disk or memory: its images, and the copies of other hosts' images that this one is the partner of. */
public final class LocalFolder {
    /** What stands for the host's name in what the user has named. */
    public static final String HOST = "%h";

    private LocalFolder() {
    }

    /** Where it is. @param named by the user */
    public static Path of(final String named, final String host, final String job) {
        return Path.of(named.replace(HOST, host)).toAbsolutePath().resolve(job);
    }

    /** Makes it where it is not there. @throws IOException it can't be, or another user could change what is in it */
    public static void make(final Path root) throws IOException {
        Files.createDirectories(root, PrivateFiles.FOLDER);
        final String foreign = PrivateFiles.placeProblem(root);
        if (!foreign.isEmpty()) {
            throw new IOException(foreign);
        }
    }

    /**
     * Removes the job's checkpoints but for some.
     *
     * @param epoch later ones stay in any case: they are being made
     * @param names of those that stay
     * @return those that were removed
     */
    public static List<Path> retain(final Path root, final long epoch, final Collection<String> names) throws IOException {
        final List<Path> old = CheckpointFolder.list(root).stream().filter(folder -> CheckpointFolder.epoch(folder) <= epoch)
                .filter(folder -> !names.contains(folder.getFileName().toString())).toList();
        for (final Path folder : old) {
            remove(folder);
        }
        return old;
    }

    /** Removes a folder and all in it, if it is there. */
    public static void remove(final Path folder) throws IOException {
        if (!Files.exists(folder, LinkOption.NOFOLLOW_LINKS)) {
            return;
        }
        try (Stream<Path> all = Files.walk(folder)) {
            for (final Path path : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }
}
