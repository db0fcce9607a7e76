// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.levels.ImageCopy;
import org.shadowverbs.coordinator.levels.ImageFetcher;
import org.shadowverbs.coordinator.levels.ImageServer;
import org.shadowverbs.coordinator.levels.LocalFolder;
import org.shadowverbs.coordinator.levels.Resolution;
import org.shadowverbs.coordinator.manifest.Levels;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.Progress;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.HostMessages.Plan;
import org.shadowverbs.coordinator.protocol.LevelMessages.CopyImages;
import org.shadowverbs.coordinator.protocol.LevelMessages.CopyProgress;
import org.shadowverbs.coordinator.protocol.LevelMessages.Holder;
import org.shadowverbs.coordinator.protocol.LevelMessages.ImagesAt;
import org.shadowverbs.coordinator.protocol.LevelMessages.ImagesCopied;
import org.shadowverbs.coordinator.protocol.LevelMessages.LevelLost;
import org.shadowverbs.coordinator.protocol.LevelMessages.RetainImages;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * This host's part in keeping images at several levels: where they are written first, copies to and from other places, which are made on
 * a thread of their own while the job runs on, and where a restore finds them.
 */
final class HostLevels {
    private static final String NO_SPACE = "no space";
    /** With so few bytes left a place is full. */
    private static final long LITTLE = 4 << 20;

    private final String host;
    private final EventLog log;
    private final Supplier<String> job;
    private final Consumer<Message> coordinator;
    private final ExecutorService copies = Executors.newSingleThreadExecutor(Thread.ofPlatform().daemon().name("copies").factory());

    // Told by the thread of the steps alone.
    /** The checkpoint before the one whose images go to its own folder although there is another place; null: none. */
    private String avoidedAfter;
    private String whyAvoided = "";
    /** Of the checkpoint that is being made. */
    private String placedFor = "";
    private Place placed;

    /** What a recovery has said. */
    private volatile String local = "";
    private volatile List<Holder> holders = List.of();
    /** When a copy has gone on, or begun. */
    private volatile long lastSign = System.nanoTime();
    private volatile boolean copied;
    /** Guarded by this. */
    private ImageServer server;

    /** @param job its name, as soon as it is known */
    HostLevels(final String host, final EventLog log, final Supplier<String> job, final Consumer<Message> coordinator) {
        this.host = host;
        this.log = log;
        this.job = job;
        this.coordinator = coordinator;
    }

    // ---- where images are written ----

    /**
     * Where images are written.
     *
     * @param root the folder of checkpoints on this host that it is in; empty: the checkpoint's own folder has them
     * @param checkpoint the checkpoint's folder there
     * @param note why not on this host, though the user has asked for that; else empty
     */
    record Place(String root, Path checkpoint, String note) {
    }

    /** The same for all steps of a checkpoint. @param shared the checkpoint's own folder */
    Place place(final Plan plan, final Path shared) {
        if (!placedFor.equals(plan.name())) {
            placed = plan.local().isEmpty() ? new Place("", shared, "") : chosen(plan, shared);
            placedFor = plan.name();
        }
        return placed;
    }

    private Place chosen(final Plan plan, final Path shared) {
        String why = whyAvoided;
        if (!plan.base().equals(avoidedAfter)) {
            avoidedAfter = null;
            try {
                final Path root = LocalFolder.of(plan.local(), host, job.get());
                LocalFolder.make(root);
                final Path folder = root.resolve(plan.name());
                LocalFolder.remove(folder); // of a checkpoint of that name that was given up
                Files.createDirectory(folder, PrivateFiles.FOLDER);
                return new Place(root.toString(), folder, "");
            } catch (IOException | RuntimeException e) {
                why = e.getMessage() == null ? e.toString() : e.getMessage();
            }
        }
        return new Place("", shared, "host " + host + " can't keep its images at level local (" + why + "): they go to level shared");
    }

    /**
     * Something could not be written there. If that is for want of the place, the images go to the checkpoint's own folder until a
     * checkpoint is made.
     *
     * @return whether it is
     */
    boolean fails(final Place place, final Plan plan, final String why) {
        if (place.root().isEmpty()) {
            return false;
        }
        boolean full;
        try {
            full = why.toLowerCase(Locale.ROOT).contains(NO_SPACE) || !Files.isDirectory(place.checkpoint())
                    || Files.getFileStore(place.checkpoint()).getUsableSpace() < LITTLE;
        } catch (IOException e) {
            full = true;
        }
        if (full) {
            whyAvoided = why;
            avoidedAfter = plan.base();
        }
        return full;
    }

    // ---- copies ----

    /** The coordinator has come, perhaps another one. */
    synchronized void coordinatorCame() {
        if (server != null) {
            coordinator.accept(new ImagesAt(server.port(), server.token()));
        }
    }

    /** What is not to stay is removed, after the copies that are under way. */
    void retain(final RetainImages m) {
        final Path root = LocalFolder.of(m.local(), host, job.get());
        if (m.serve()) {
            serve(root);
        }
        later(() -> {
            try {
                LocalFolder.retain(root, m.epoch(), m.names()).forEach(old -> log.add("removed " + old));
            } catch (IOException | RuntimeException e) {
                log.add("an old checkpoint in " + root + " could not be removed: " + e);
            }
        });
    }

    private synchronized void serve(final Path root) {
        try {
            if (server == null) {
                server = new ImageServer(log);
                coordinator.accept(new ImagesAt(server.port(), server.token()));
            }
            server.serve(root);
        } catch (IOException e) {
            log.add("other hosts can't fetch images from this one: " + e);
        }
    }

    /** Makes a copy, after those that are under way; the coordinator hears what has come of it. */
    void copy(final CopyImages m) {
        later(() -> {
            lastSign = System.nanoTime();
            copied = true;
            final Progress progress = new Progress(done -> {
                lastSign = System.nanoTime();
                coordinator.accept(new CopyProgress(m.id(), done));
            });
            final Path root = LocalFolder.of(m.local(), host, job.get());
            try {
                final Path folder = Path.of(m.folder());
                final Manifest.HostPart part = ManifestFile.read(folder).hosts().stream()
                        .filter(p -> p.directory().equals(m.directory())).findFirst()
                        .orElseThrow(() -> new IOException(folder + " has no " + m.directory()));
                final String name = folder.getFileName().toString();
                final long bytes;
                if (m.from().isEmpty()) {
                    bytes = ImageCopy.copy(name, part, ImageCopy.from(root), folder.getParent(), false, progress);
                } else {
                    LocalFolder.make(root);
                    bytes = fetch(name, part, m.from().getFirst(), root, progress);
                }
                coordinator.accept(new ImagesCopied(m.id(), m.from().isEmpty() ? "" : root.toString(), bytes, ""));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } catch (IOException | RuntimeException e) {
                coordinator.accept(new ImagesCopied(m.id(), "", 0, e.getMessage() == null ? e.toString() : e.getMessage()));
            }
        });
    }

    private static long fetch(final String checkpoint, final Manifest.HostPart part, final Holder from, final Path root,
            final Progress progress) throws IOException, InterruptedException {
        try (ImageCopy.Source source = new ImageFetcher(from)) {
            return ImageCopy.copy(checkpoint, part, source, root, true, progress);
        }
    }

    private void later(final Runnable what) {
        try {
            copies.execute(what);
        } catch (RejectedExecutionException e) {
            log.add("not done, for the agent ends: a copy of images");
        }
    }

    // ---- where a restore finds them ----

    /** What a recovery says of where they may be. */
    void expect(final String named, final List<Holder> from) {
        local = named;
        holders = from;
    }

    /**
     * Where a restore finds the images of a part; those of another host are fetched.
     *
     * @param progress of reading them
     */
    Resolution.Found find(final Path folder, final Manifest manifest, final Manifest.HostPart part, final Progress progress)
            throws CheckpointException {
        final long begun = System.nanoTime();
        final Levels levels = Resolution.read(folder, manifest, this::tell);
        final Resolution.Found found = new Resolution(folder, levels, host, (copy, its) -> fetched(folder, copy, its, progress),
                this::tell, progress).find(part);
        progress.read(System.nanoTime() - begun);
        log.add("the images of host " + part.host() + " in " + folder.getFileName() + " are read at level " + found.copy().text());
        return found;
    }

    private Path fetched(final Path folder, final Levels.Copy copy, final Manifest.HostPart part, final Progress progress)
            throws IOException, InterruptedException {
        final Holder holder = holders.stream().filter(h -> h.host().equals(copy.host())).findFirst().orElse(null);
        if (holder == null || local.isEmpty()) {
            return null;
        }
        final Path root = LocalFolder.of(local, host, job.get());
        LocalFolder.make(root);
        fetch(folder.getFileName().toString(), part, holder, root, progress);
        return root;
    }

    private void tell(final String line) {
        log.add(line);
        coordinator.accept(new LevelLost(line));
    }

    /**
     * Ends it, when the copies are made that are under way.
     *
     * @param stall so long one may not go on
     * @return whether any was made
     */
    boolean finish(final Duration stall) throws InterruptedException {
        copies.shutdown();
        while (!copies.awaitTermination(1, TimeUnit.SECONDS)) {
            if (System.nanoTime() - lastSign > stall.toNanos()) {
                log.add("at the end: a copy of images is given up, as nothing was copied for " + stall.toSeconds() + " s");
                copies.shutdownNow();
                break;
            }
        }
        synchronized (this) {
            try {
                if (server != null) {
                    server.close();
                }
            } catch (IOException e) {
                log.add("at the end: " + e);
            }
        }
        return copied;
    }
}
