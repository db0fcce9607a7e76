// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * A checkpoint that is being made. Everything goes into a temporary folder beside its place; {@link #commit} renames it
 * there, so a folder {@code ckpt-JOB-EPOCH} is always whole.
 */
public final class CheckpointFolder {
    /** Points to the newest checkpoint of a directory. */
    public static final String LATEST = "latest";

    private static final Pattern NAME = Pattern.compile("ckpt-(.+)-(\\d+)");

    private final Path directory;
    private final String name;
    private final Path temporary;

    private CheckpointFolder(final Path directory, final String name) {
        this.directory = directory;
        this.name = name;
        this.temporary = directory.resolve("." + name + ".tmp");
    }

    /** Makes the temporary folder; those that crashes left behind are removed first. */
    public static CheckpointFolder begin(final Path directory, final String job, final long epoch) throws IOException {
        try {
            Files.createDirectories(directory);
        } catch (FileAlreadyExistsException e) {
            throw new IOException("the checkpoint directory " + directory + " is not a directory", e);
        } catch (IOException e) {
            throw new IOException("the checkpoint directory " + directory + " can't be made: " + e.getMessage(), e);
        }
        final CheckpointFolder folder = new CheckpointFolder(directory, "ckpt-" + job + "-" + epoch);
        if (Files.exists(folder.place())) {
            throw new IOException(folder.place() + " exists already");
        }
        removeStale(directory, job);
        Files.createDirectory(folder.temporary);
        return folder;
    }

    /** What crashes of the job's coordinators have left half made. */
    private static void removeStale(final Path directory, final String job) throws IOException {
        final Pattern stale = Pattern.compile("\\.ckpt-" + Pattern.quote(job) + "-\\d+\\.tmp");
        final List<Path> all;
        try (Stream<Path> entries = Files.list(directory)) {
            all = entries.filter(p -> stale.matcher(p.getFileName().toString()).matches()).toList();
        }
        for (final Path folder : all) {
            remove(folder);
        }
    }

    public Path temporary() {
        return temporary;
    }

    /** Where it will be. */
    public Path place() {
        return directory.resolve(name);
    }

    /** Writes the manifest, last, and renames the folder into place. From its return on the checkpoint is safe. */
    public Path commit(final Manifest manifest) throws IOException {
        ManifestFile.write(temporary, manifest);
        sync(temporary);
        Files.move(temporary, place(), StandardCopyOption.ATOMIC_MOVE);
        sync(directory);
        // A link is replaced by a rename, too: there is no moment without one.
        final Path link = directory.resolve("." + LATEST + ".tmp");
        Files.deleteIfExists(link);
        Files.createSymbolicLink(link, Path.of(name));
        Files.move(link, directory.resolve(LATEST), StandardCopyOption.ATOMIC_MOVE,
                StandardCopyOption.REPLACE_EXISTING);
        sync(directory);
        return place();
    }

    /** Removes what has been written so far. */
    public void discard() throws IOException {
        remove(temporary);
    }

    /** Removes the oldest checkpoints of the job, so that this many stay. */
    public static List<Path> prune(final Path directory, final String job, final int keep) throws IOException {
        final List<Path> all = new ArrayList<>();
        for (final Path folder : list(directory)) {
            final Matcher m = NAME.matcher(folder.getFileName().toString());
            if (m.matches() && m.group(1).equals(job)) {
                all.add(folder);
            }
        }
        all.sort(Comparator.comparingLong(CheckpointFolder::epoch));
        final List<Path> old = all.subList(0, Math.max(0, all.size() - Math.max(1, keep)));
        for (final Path folder : old) {
            // Hidden first: what is half removed must not look like a checkpoint.
            final Path hidden = directory.resolve("." + folder.getFileName() + ".tmp");
            Files.move(folder, hidden, StandardCopyOption.ATOMIC_MOVE);
            remove(hidden);
        }
        return List.copyOf(old);
    }

    /** The checkpoints of a directory, whole or damaged, by name. */
    public static List<Path> list(final Path directory) throws IOException {
        if (!Files.isDirectory(directory)) {
            return List.of();
        }
        try (Stream<Path> entries = Files.list(directory)) {
            return entries.filter(p -> NAME.matcher(p.getFileName().toString()).matches())
                    .filter(p -> Files.isDirectory(p, LinkOption.NOFOLLOW_LINKS)).sorted().toList();
        }
    }

    /** The checkpoint that a user means by a folder, by a directory of checkpoints, or by its {@code latest}. */
    public static Path resolve(final Path given) throws ManifestException {
        if (!Files.exists(given)) {
            throw new ManifestException(given + " does not exist");
        }
        Path folder = given;
        if (!Files.exists(folder.resolve(ManifestFile.NAME)) && Files.exists(folder.resolve(LATEST))) {
            folder = folder.resolve(LATEST);
        }
        try {
            return folder.toRealPath();
        } catch (IOException e) {
            throw new ManifestException(given + " can't be read: " + e);
        }
    }

    private static long epoch(final Path folder) {
        final Matcher m = NAME.matcher(folder.getFileName().toString());
        return m.matches() ? Long.parseLong(m.group(2)) : -1;
    }

    private static void sync(final Path directory) throws IOException {
        try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
            channel.force(true);
        }
    }

    private static void remove(final Path folder) throws IOException {
        if (!Files.exists(folder, LinkOption.NOFOLLOW_LINKS)) {
            return;
        }
        try (Stream<Path> all = Files.walk(folder)) {
            all.sorted(Comparator.reverseOrder()).forEach(p -> {
                try {
                    Files.delete(p);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }
}
