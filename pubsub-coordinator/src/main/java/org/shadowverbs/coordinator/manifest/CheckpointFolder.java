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
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

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
    private final List<String> warnings = new ArrayList<>();
    private boolean safe;

    private CheckpointFolder(final Path directory, final String name) {
        this.directory = directory;
        this.name = name;
        this.temporary = directory.resolve("." + name + ".tmp");
    }

    /** Why no checkpoints can be made in a directory, which need not be there yet; empty when they can. */
    public static String problem(final Path directory) {
        final Path existing = existing(directory);
        final String subject = "the checkpoint directory " + directory;
        if (!Files.isDirectory(existing)) {
            return subject + (existing.equals(directory) ? " is" : " can't be made: " + existing + " is") + " not a directory";
        }
        return Files.isWritable(existing) ? ""
                : subject + (existing.equals(directory) ? " can't be written" : " can't be made: " + existing + " can't be written");
    }

    /** It, or the folder above it that is there. */
    public static Path existing(final Path directory) {
        Path existing = directory.toAbsolutePath();
        while (!Files.exists(existing) && existing.getParent() != null) {
            existing = existing.getParent();
        }
        return existing;
    }

    /** Makes the temporary folder; those that crashes left behind are removed first. */
    public static CheckpointFolder begin(final Path directory, final String job, final long epoch) throws IOException {
        try {
            Files.createDirectories(directory, PrivateFiles.FOLDER);
        } catch (FileAlreadyExistsException e) {
            throw new IOException("the checkpoint directory " + directory + " is not a directory", e);
        } catch (IOException e) {
            throw new IOException("the checkpoint directory " + directory + " can't be made: " + e.getMessage(), e);
        }
        final CheckpointFolder folder = new CheckpointFolder(directory, name(job, epoch));
        if (Files.exists(folder.place())) {
            throw new IOException(folder.place() + " exists already");
        }
        removeStale(directory, job);
        Files.createDirectory(folder.temporary, PrivateFiles.FOLDER);
        return folder;
    }

    /** What crashes of the job's coordinators have left half made. @return the highest epoch of these; 0: there were none */
    private static long removeStale(final Path directory, final String job) throws IOException {
        final Pattern stale = Pattern.compile("\\.ckpt-" + Pattern.quote(job) + "-(\\d+)(\\.gone)?\\.tmp");
        final List<Path> all;
        try (Stream<Path> entries = Files.list(directory)) {
            all = entries.filter(p -> stale.matcher(p.getFileName().toString()).matches()).toList();
        }
        long highest = 0;
        for (final Path folder : all) {
            final Matcher name = stale.matcher(folder.getFileName().toString());
            final long epoch = name.matches() ? Long.parseLong(name.group(1)) : 0;
            highest = Math.max(highest, epoch);
            if (name.matches() && name.group(2) == null) {
                new CheckpointFolder(directory, name(job, epoch)).discard();
            } else {
                remove(folder);
            }
        }
        return highest;
    }

    /** Removes what a coordinator of the job that is lost has left half made. @return the highest epoch of these; 0: there were none */
    public static long clean(final Path directory, final String job) throws IOException {
        return Files.isDirectory(directory) ? removeStale(directory, job) : 0;
    }

    /**
     * Gives a checkpoint its name whose coordinator was lost after it had decided so.
     *
     * @return whether it is there
     */
    public static boolean finish(final Path directory, final String job, final long epoch) throws IOException {
        final CheckpointFolder folder = new CheckpointFolder(directory, name(job, epoch));
        if (!Files.exists(folder.place()) && Files.exists(folder.temporary.resolve(ManifestFile.NAME))) {
            Files.move(folder.temporary, folder.place(), StandardCopyOption.ATOMIC_MOVE);
            sync(directory);
            folder.pointLatestHere();
            sync(directory);
        }
        return Files.exists(folder.place());
    }

    public Path temporary() {
        return temporary;
    }

    /** What the folder of a checkpoint is called. */
    public static String name(final String job, final long epoch) {
        return "ckpt-" + job + "-" + epoch;
    }

    /** Where it will be. */
    public Path place() {
        return directory.resolve(name);
    }

    /** Between a checkpoint that is written whole and its name. */
    public interface Decision {
        /** @throws IOException when it is not to get one */
        void make() throws IOException;
    }

    /**
     * Writes the manifest, last, and renames the folder into place.
     *
     * @param decision that it is to be so
     * @return where the checkpoint is; what went wrong after it was there is among the {@link #warnings}
     * @throws IOException when there is none
     */
    public Path commit(final Manifest manifest, final Decision decision) throws IOException {
        ManifestFile.write(temporary, manifest);
        sync(temporary);
        decision.make();
        Files.move(temporary, place(), StandardCopyOption.ATOMIC_MOVE);
        safe = true;
        try {
            sync(directory);
        } catch (IOException | RuntimeException e) {
            warnings.add(place() + " may not outlive a loss of power: " + directory + " could not be synced: " + e);
        }
        try {
            pointLatestHere();
            sync(directory);
        } catch (IOException | RuntimeException e) {
            warnings.add(directory.resolve(LATEST) + " does not point to " + name + ": " + e);
        }
        return place();
    }

    /** Whether the checkpoint is there. */
    public boolean isSafe() {
        return safe;
    }

    /** What does not make the checkpoint invalid. */
    public List<String> warnings() {
        return List.copyOf(warnings);
    }

    private void pointLatestHere() throws IOException {
        // A link is replaced by a rename, too: there is no moment without one.
        final Path link = directory.resolve("." + LATEST + ".tmp");
        Files.deleteIfExists(link);
        Files.createSymbolicLink(link, Path.of(name));
        Files.move(link, directory.resolve(LATEST), StandardCopyOption.ATOMIC_MOVE,
                StandardCopyOption.REPLACE_EXISTING);
    }

    /** Removes what has been written so far. An agent that has not heard of it yet finds no place to go on writing. */
    public void discard() throws IOException {
        final Path gone = directory.resolve("." + name + ".gone.tmp");
        remove(gone); // of a coordinator that was lost while it did this
        Files.move(temporary, gone, StandardCopyOption.ATOMIC_MOVE);
        remove(gone);
    }

    /**
     * Removes checkpoints of the job, so that this many stay. These are the newest of those that the newest has come from; what
     * was made after one of them, before the job was restarted from it, is the first to go. The newest stays, too, whose images all are
     * here. What one that stays builds on stays.
     *
     * @param restartedFrom epoch of one that stays in any case; 0: there is none
     */
    public static List<Path> prune(final Path directory, final String job, final int keep, final long restartedFrom)
            throws IOException {
        final List<Path> all = list(directory).stream().filter(folder -> job(folder).equals(job)).toList();
        final Set<Path> stay = new LinkedHashSet<>();
        all.stream().filter(folder -> epoch(folder) == restartedFrom).forEach(stay::add);
        final List<Path> wanted = new ArrayList<>(lineage(all));
        all.reversed().stream().filter(folder -> !wanted.contains(folder)).toList().forEach(wanted::add);
        wanted.stream().limit(Math.max(1, keep)).forEach(stay::add);
        // The newest that no loss of hosts can take. Where nothing is kept on hosts it is the newest of all.
        wanted.stream().filter(CheckpointFolder::isAllShared).findFirst().ifPresent(stay::add);
        // What those that stay build on stays, too.
        final Set<String> bases = new LinkedHashSet<>();
        stay.forEach(folder -> bases.addAll(bases(folder)));
        all.stream().filter(folder -> bases.contains(folder.getFileName().toString())).forEach(stay::add);
        final List<Path> old = all.stream().filter(folder -> !stay.contains(folder)).toList();
        for (final Path folder : old) {
            // Hidden first: what is half removed must not look like a checkpoint.
            final Path hidden = directory.resolve("." + folder.getFileName() + ".tmp");
            Files.move(folder, hidden, StandardCopyOption.ATOMIC_MOVE);
            remove(hidden);
        }
        return old;
    }

    /** The highest epoch of the job's checkpoints, of whatever branch; 0 when there is none. */
    public static long highest(final Path directory, final String job) throws IOException {
        return list(directory).stream().filter(folder -> job(folder).equals(job)).mapToLong(CheckpointFolder::epoch).max()
                .orElse(0);
    }

    /** Those of one job's checkpoints that the newest has not come from: the job was restarted from an older one. */
    public static List<Path> abandoned(final List<Path> ofOneJob) {
        final List<Path> lineage = lineage(ofOneJob);
        return ofOneJob.stream().filter(folder -> !lineage.contains(folder)).toList();
    }

    /** The newest of one job's checkpoints, the one that it has come from, and so on; by epoch in, newest first out. */
    private static List<Path> lineage(final List<Path> ofOneJob) {
        final List<Path> lineage = new ArrayList<>();
        long from = Long.MAX_VALUE;
        for (final Path folder : ofOneJob.reversed()) {
            if (epoch(folder) <= from) {
                lineage.add(folder);
                from = parent(folder);
            }
        }
        return lineage;
    }

    /** Of one that cannot be read, or does not say, any older one may be it. */
    private static long parent(final Path folder) {
        try {
            final Long parent = ManifestFile.read(folder).parent();
            return parent == null ? epoch(folder) - 1 : parent;
        } catch (ManifestException e) {
            return epoch(folder) - 1;
        }
    }

    /** The checkpoints that one builds on, by the names of their folders; of one that cannot be read, none. */
    public static Set<String> bases(final Path folder) {
        try {
            return ManifestFile.read(folder).bases();
        } catch (ManifestException e) {
            return Set.of();
        }
    }

    /** Whether its images all are in its folder; of one that cannot be read, they are not. */
    public static boolean isAllShared(final Path folder) {
        try {
            final Manifest manifest = ManifestFile.read(folder);
            return Levels.read(folder, manifest).allShared(manifest);
        } catch (ManifestException e) {
            return false;
        }
    }

    /** The job that a checkpoint is of. */
    public static String job(final Path folder) {
        final Matcher m = NAME.matcher(folder.getFileName().toString());
        return m.matches() ? m.group(1) : "";
    }

    /** The checkpoints of a directory, whole or damaged, by job and epoch. */
    public static List<Path> list(final Path directory) throws IOException {
        if (!Files.isDirectory(directory)) {
            return List.of();
        }
        try (Stream<Path> entries = Files.list(directory)) {
            return entries.filter(p -> NAME.matcher(p.getFileName().toString()).matches())
                    .filter(p -> Files.isDirectory(p, LinkOption.NOFOLLOW_LINKS))
                    .sorted(Comparator.comparing(CheckpointFolder::job).thenComparingLong(CheckpointFolder::epoch))
                    .toList();
        } catch (UncheckedIOException e) {
            throw e.getCause();
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

    /** The epoch that a checkpoint is; -1 for a folder that is none. */
    public static long epoch(final Path folder) {
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
