// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.levels;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.shadowverbs.coordinator.manifest.Level;
import org.shadowverbs.coordinator.manifest.Levels;
import org.shadowverbs.coordinator.manifest.Levels.Copy;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestException;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.Progress;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * Which copy of a host's images a restore reads: what this host has itself, else what another one has, else what all share. The first
 * whose files are all as they were written serves; of each one that should be there and does not serve a line says why.
 */
public final class Resolution {
    private final Path folder;
    private final Levels levels;
    private final String host;
    private final Fetching fetching;
    private final Consumer<String> user;
    private final Progress progress;

    /** Brings what another host has to this one. */
    public interface Fetching {
        /** @return the folder of checkpoints here that has it then; null: from that host nothing can be fetched */
        Path fetch(Copy copy, Manifest.HostPart part) throws IOException, InterruptedException;
    }

    /**
     * Where the images are.
     *
     * @param directory the host's folder of them
     * @param verified whether all files were read and are as they were written
     */
    public record Found(Path directory, Copy copy, boolean verified) {
    }

    /**
     * @param folder the checkpoint's
     * @param host this one
     * @param user is told of copies that do not serve, each in a line
     * @param progress of reading
     */
    public Resolution(final Path folder, final Levels levels, final String host, final Fetching fetching, final Consumer<String> user,
            final Progress progress) {
        this.folder = folder.toAbsolutePath();
        this.levels = levels;
        this.host = host;
        this.fetching = fetching;
        this.user = user;
        this.progress = progress;
    }

    /** What is written of a checkpoint's levels; where that is damaged, the user hears so, and what is in the folder serves. */
    public static Levels read(final Path folder, final Manifest manifest, final Consumer<String> user) {
        try {
            return Levels.read(folder, manifest);
        } catch (ManifestException e) {
            user.accept(e.getMessage() + "; only what is in " + folder + " is looked at");
            return Levels.shared(manifest);
        }
    }

    /** Whether it is written that the part can be read on this host, and there is something of it. Reads no image. */
    public boolean isHere(final Manifest.HostPart part) {
        return levels.of(part.directory()).stream().filter(copy -> isHere(copy)).anyMatch(copy -> Files.isDirectory(directory(copy)));
    }

    private boolean isHere(final Copy copy) {
        return copy.host().isEmpty() || copy.host().equals(host);
    }

    private Path directory(final Copy copy) {
        return copy.rootFor(folder).resolve(folder.getFileName()).resolve(copy.directory());
    }

    /** The copies of a part, in the order in which they serve. */
    private List<Copy> candidates(final Manifest.HostPart part) {
        final List<Copy> all = levels.of(part.directory());
        final List<Copy> ordered = new ArrayList<>();
        all.stream().filter(copy -> copy.host().equals(host)).forEach(ordered::add);
        all.stream().filter(copy -> !isHere(copy)).forEach(ordered::add);
        all.stream().filter(copy -> copy.level() == Level.SHARED).forEach(ordered::add);
        return ordered;
    }

    /**
     * Finds the images of a part.
     *
     * @throws CheckpointException no copy serves
     */
    public Found find(final Manifest.HostPart part) throws CheckpointException {
        final List<Copy> candidates = candidates(part);
        if (candidates.size() == 1 && candidates.getFirst().level() == Level.SHARED) {
            return new Found(directory(candidates.getFirst()), candidates.getFirst(), false); // who restores it verifies it
        }
        final List<String> problems = new ArrayList<>();
        for (int i = 0; i < candidates.size(); i++) {
            final Copy copy = candidates.get(i);
            final Path root;
            String problem;
            try {
                root = isHere(copy) ? copy.rootFor(folder) : fetching.fetch(copy, part);
                problem = root == null ? "" : problem(part, root);
                if (root != null && problem.isEmpty()) {
                    return new Found(root.resolve(folder.getFileName()).resolve(part.directory()), copy, true);
                }
            } catch (IOException e) {
                problem = e.getMessage() == null ? e.toString() : e.getMessage();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new CheckpointException("interrupted while the images of host " + part.host() + " were read", e);
            }
            if (problem.isEmpty()) {
                problems.add(copy.text() + ": not on this host");
                continue;
            }
            problems.add(copy.text() + ": " + problem);
            if (i + 1 < candidates.size()) {
                user.accept("of the images of host " + part.host() + " the copy at level " + copy.text() + " does not serve: " + problem
                        + "; next: " + candidates.get(i + 1).text());
            }
        }
        throw new CheckpointException("the images of host " + part.host() + " in " + folder.getFileName() + " are at no level that"
                + " serves" + (problems.isEmpty() ? "" : ": " + String.join("; ", problems)));
    }

    private String problem(final Manifest.HostPart part, final Path root) throws IOException, InterruptedException {
        if (!root.equals(folder.getParent())) { // of that the whole has been looked at
            final Set<Path> folders = new TreeSet<>();
            folders.add(root.resolve(folder.getFileName()).resolve(part.directory()));
            ImageCopy.items(folder.getFileName().toString(), part).forEach(item -> folders.add(root.resolve(item.folder())));
            for (final Path its : folders) {
                if (!Files.isDirectory(its)) {
                    return its + " is not there";
                }
                final String foreign = PrivateFiles.contentProblem(its);
                if (!foreign.isEmpty()) {
                    return "another user could have written it: " + foreign;
                }
            }
        }
        return ImageCopy.problem(folder.getFileName().toString(), part, root, progress);
    }
}
