// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Level;
import org.shadowverbs.coordinator.manifest.Levels;
import org.shadowverbs.coordinator.manifest.Levels.Copy;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestException;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.protocol.LevelMessages.CopyImages;
import org.shadowverbs.coordinator.protocol.LevelMessages.CopyProgress;
import org.shadowverbs.coordinator.protocol.LevelMessages.Holder;
import org.shadowverbs.coordinator.protocol.LevelMessages.ImagesAt;
import org.shadowverbs.coordinator.protocol.LevelMessages.ImagesCopied;
import org.shadowverbs.coordinator.protocol.LevelMessages.LevelLost;
import org.shadowverbs.coordinator.protocol.LevelMessages.RetainImages;
import org.shadowverbs.coordinator.protocol.Message;

/**
 * The copies of a checkpoint's images that are made while the job runs on: at partner hosts, and in the checkpoint's folder. What is
 * confirmed is written to {@link Levels}, and nothing else. The next checkpoint begins when none is under way any more, and so does
 * the job's end. A copy that does not go on for the deadline of a phase is given up. Older checkpoints are removed when the newest
 * has all its copies: until then they may be what a lost host leaves.
 *
 * <p>What is not private and not said to be for another thread is called with the job's lock held.
 */
final class LevelCopies {
    private static final Duration LOOK = Duration.ofMillis(500);
    private static final int ID_BITS = 20;
    /** One was to be flushed, and was not. */
    private static final int OVERDUE = 1_000_000;

    private final Job job;
    private final Supplier<LevelChoice> choice;
    private final Supplier<Path> directory;
    private final Supplier<Integer> keep;
    private final Duration deadline;
    private final ScheduledExecutorService timer;
    /** Files are written here: nobody waits for the shared file system with the job's lock held. */
    private final ExecutorService writer = Executors.newSingleThreadExecutor(Thread.ofPlatform().daemon().name("levels").factory());

    private final Map<Long, Copying> copying = new LinkedHashMap<>();
    /** The number of the last one; those of a coordinator before are others. */
    private long copies = System.currentTimeMillis() << ID_BITS;
    /** How often files are still to be written, or removed, for copies that are over. */
    private int settling;
    /** Of the last checkpoint, the first copy that has failed; empty: none has. */
    private String failure = "";
    private final Set<Runnable> whenDone = new LinkedHashSet<>();
    private boolean looking;

    /** One that is under way. */
    private static final class Copying {
        final Path folder;
        final Manifest.HostPart part;
        final Level level;
        final AgentSession worker;
        long heard = System.nanoTime();
        long done;

        Copying(final Path folder, final Manifest.HostPart part, final Level level, final AgentSession worker) {
            this.folder = folder;
            this.part = part;
            this.level = level;
            this.worker = worker;
        }

        @Override
        public String toString() {
            return "the copy of host " + part.host() + "'s images in " + folder.getFileName() + " to level " + level
                    + (level == Level.PARTNER ? " on " + worker.host() : "");
        }
    }

    /**
     * @param choice of now
     * @param directory of the job's checkpoints
     * @param keep how many stay
     * @param deadline how long a copy may not go on
     */
    LevelCopies(final Job job, final Supplier<LevelChoice> choice, final Supplier<Path> directory, final Supplier<Integer> keep,
            final Duration deadline, final ScheduledExecutorService timer) {
        this.job = job;
        this.choice = choice;
        this.directory = directory;
        this.keep = keep;
        this.deadline = deadline;
        this.timer = timer;
    }

    LevelChoice choice() {
        return choice.get();
    }

    // ---- from a checkpoint, without the lock ----

    /**
     * What is to be written beside the manifest.
     *
     * @param roots where each host has its images, by the host's folder in the checkpoint; empty: in that
     * @param before the checkpoint before; null: there is none
     * @param last whether the job ends with it
     * @return null: all images are in the checkpoint's folder
     */
    Levels levels(final List<Manifest.HostPart> parts, final Map<String, String> roots, final Path before, final boolean last) {
        if (roots.values().stream().allMatch(String::isEmpty)) {
            return null;
        }
        final List<Copy> all = parts.stream().map(part -> roots.get(part.directory()).isEmpty() ? Copy.shared(part.directory())
                : new Copy(part.directory(), Level.LOCAL, part.host(), roots.get(part.directory()))).toList();
        final int unflushed = unflushed(before) + 1;
        return new Levels(choice().flushes(unflushed, last) ? 0 : unflushed, all);
    }

    private static int unflushed(final Path before) {
        try {
            if (before == null) {
                return 0;
            }
            final Manifest manifest = ManifestFile.read(before);
            final Levels levels = Levels.read(before, manifest);
            return levels.unflushed() == 0 && !levels.allShared(manifest) ? OVERDUE : levels.unflushed();
        } catch (ManifestException e) {
            return 0;
        }
    }

    /** A checkpoint is safe: begins the copies that it is to have, and removes what is not kept when they are made. */
    void begin(final Path folder, final Manifest manifest, final Levels levels) {
        job.locked(() -> {
            failure = "";
            for (final Manifest.HostPart part : manifest.hosts()) {
                if (levels.of(part.directory()).getFirst().level() == Level.LOCAL) {
                    begin(folder, part, levels.unflushed() == 0);
                }
            }
            over();
            return null;
        });
    }

    private void begin(final Path folder, final Manifest.HostPart part, final boolean flush) {
        final List<AgentSession> ring = job.agents().stream().filter(agent -> !agent.lost)
                .sorted(Comparator.comparing(AgentSession::host)).toList();
        final AgentSession owner = ring.stream().filter(agent -> agent.host().equals(part.host())).findFirst().orElse(null);
        if (owner == null) {
            fails("the images of host " + part.host() + " in " + folder.getFileName() + " are not copied: its agent is gone");
            return;
        }
        if (choice().partner()) {
            final AgentSession partner = ring.get((ring.indexOf(owner) + 1) % ring.size());
            if (partner == owner) {
                fails("the images of host " + part.host() + " in " + folder.getFileName() + " have no partner: there is no other host");
            } else if (owner.holder() == null) {
                fails("the images of host " + part.host() + " can't be copied to " + partner.host() + ": its agent gives none");
            } else {
                send(new Copying(folder, part, Level.PARTNER, partner), List.of(owner.holder()));
            }
        }
        if (flush) {
            send(new Copying(folder, part, Level.SHARED, owner), List.of());
        }
    }

    private void send(final Copying copy, final List<Holder> from) {
        copies++;
        copying.put(copies, copy);
        if (!looking) {
            lookLater();
        }
        copy.worker.send(new CopyImages(copies, copy.folder.toString(), copy.part.directory(), choice().local(), from));
    }

    /** What hosts have of checkpoints up to that epoch is removed, but for those that are there. */
    void retained(final long epoch) {
        if (choice().several()) {
            writer.execute(() -> retain(epoch));
        }
    }

    /**
     * Waits until no copy is under way, or the job is to be brought back.
     *
     * @param user is told that it waits
     * @return the first copy of the last checkpoint that has failed, or empty
     */
    String await(final Report user, final String what) {
        final CountDownLatch done = new CountDownLatch(1);
        final String first = job.locked(() -> !postpones(done::countDown) ? null
                : copying.isEmpty() ? "" : copying.values().iterator().next().toString());
        try {
            if (first != null && !first.isEmpty()) {
                user.line(what + " waits for " + first);
            }
            while (first != null && !done.await(LOOK.toMillis(), TimeUnit.MILLISECONDS) && !job.epoch().isAbandoned()) {
                continue; // each copy has a deadline
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return job.locked(() -> failure);
    }

    // ---- what is heard ----

    /** Whether no copy is under way. */
    boolean isDone() {
        return copying.isEmpty() && settling == 0;
    }

    /** @return whether it does that as soon as no copy is under way, instead of the caller now */
    boolean postpones(final Runnable what) {
        if (isDone()) {
            return false;
        }
        whenDone.add(what);
        return true;
    }

    /** For status. */
    List<String> underWay() {
        return copying.values().stream().map(copy -> copy + ": " + Sizes.bytes(copy.done) + " so far").toList();
    }

    /** @return whether it was about copies */
    boolean handles(final AgentSession from, final Message message) {
        switch (message) {
            case ImagesAt m -> from.imagesAt(m);
            case CopyProgress m -> {
                if (copying.get(m.id()) instanceof Copying copy) {
                    copy.done = m.done();
                }
                goesOn(from);
            }
            case ImagesCopied m -> {
                goesOn(from);
                copied(from, m);
            }
            case LevelLost m -> job.say("host " + from.host() + ": " + m.line());
            default -> {
                return false;
            }
        }
        return true;
    }

    /** An agent makes one copy after the other: those that wait for their turn are not late. */
    private void goesOn(final AgentSession worker) {
        copying.values().stream().filter(copy -> copy.worker == worker).forEach(copy -> copy.heard = System.nanoTime());
    }

    private void copied(final AgentSession from, final ImagesCopied m) {
        final Copying copy = copying.remove(m.id());
        if (copy == null) {
            return; // it was given up
        }
        if (!m.problem().isEmpty()) {
            fails(copy + " failed: " + m.problem());
            over();
            return;
        }
        job.log().add(copy + " is made: " + m.bytes() + " bytes");
        settle(() -> confirm(copy, copy.level == Level.SHARED ? Copy.shared(copy.part.directory())
                : new Copy(copy.part.directory(), copy.level, from.host(), m.root())));
        over();
    }

    private void confirm(final Copying copy, final Copy confirmed) {
        try {
            Levels.read(copy.folder, ManifestFile.read(copy.folder)).with(confirmed).write(copy.folder);
        } catch (IOException e) {
            job.locked(() -> {
                fails(copy + " is made and could not be noted: " + e.getMessage());
                return null;
            });
        }
    }

    private void fails(final String line) {
        failure = failure.isEmpty() ? line : failure;
        job.say(line);
    }

    /** The agent is gone; what it fetches or flushes is not. */
    void agentLost(final AgentSession session) {
        giveUp(copy -> copy.worker == session, "the agent of host " + session.host() + " is lost");
    }

    private void lookLater() {
        looking = true;
        timer.schedule(() -> job.locked(() -> {
            look();
            looking = false;
            if (!copying.isEmpty()) {
                lookLater();
            }
            return null;
        }), LOOK.toMillis(), TimeUnit.MILLISECONDS);
    }

    /** A copy that does not go on is given up. */
    private void look() {
        final long now = System.nanoTime();
        giveUp(copy -> now - copy.heard > deadline.toNanos(), "nothing was copied for " + Sizes.deadline(deadline));
    }

    private void giveUp(final Predicate<Copying> which, final String why) {
        final List<Copying> some = copying.values().stream().filter(which).toList();
        some.forEach(copy -> fails(copy + " is given up: " + why));
        if (copying.values().removeAll(some)) {
            over();
        }
    }

    /** An agent needs to know what it keeps, and whether others are to fetch from it. */
    void agentCame(final AgentSession session) {
        if (choice().several()) {
            session.send(new RetainImages(choice().local(), choice().partner(), 0, List.of()));
        }
    }

    /** A launch has asked for something. */
    void settingsCame() {
        job.agents().forEach(this::agentCame);
    }

    // ---- when copies are over ----

    private void over() {
        if (copying.isEmpty()) {
            final int stay = keep.get() + (failure.isEmpty() ? 0 : 1);
            settle(() -> prune(stay));
        }
    }

    /** Does something with files, during which copies count as under way. */
    private void settle(final Runnable what) {
        settling++;
        writer.execute(() -> {
            try {
                what.run();
            } finally {
                settled();
            }
        });
    }

    private void settled() {
        final List<Runnable> next = job.locked(() -> {
            settling--;
            final List<Runnable> waiting = isDone() ? List.copyOf(whenDone) : List.of();
            waiting.forEach(whenDone::remove);
            return waiting;
        });
        next.forEach(Runnable::run);
    }

    private void prune(final int stay) {
        try {
            CheckpointFolder.prune(directory.get(), job.name(), stay, job.lineage().restartedFrom())
                    .forEach(old -> job.log().add("removed old checkpoint " + old));
        } catch (IOException | RuntimeException e) {
            job.say("warning: an old checkpoint could not be removed: " + e);
        }
        retain(job.lineage().last());
    }

    /** Hosts remove what is not there any more of the checkpoints up to that epoch. */
    private void retain(final long epoch) {
        try {
            final List<String> names = new ArrayList<>(CheckpointFolder.list(directory.get()).stream()
                    .filter(folder -> CheckpointFolder.job(folder).equals(job.name()))
                    .map(folder -> folder.getFileName().toString()).toList());
            job.locked(() -> {
                final LevelChoice now = choice();
                if (now.several()) {
                    job.agents().forEach(agent -> agent.send(new RetainImages(now.local(), now.partner(), epoch, names)));
                }
                return null;
            });
        } catch (IOException | UncheckedIOException e) {
            job.say("warning: old images on the hosts are not removed: " + e.getMessage());
        }
    }

    /** What a reader is told of a checkpoint's levels: each level with its hosts. */
    static String text(final Levels levels) {
        final Map<Level, Set<String>> hosts = new TreeMap<>();
        levels.copies().forEach(copy -> hosts.computeIfAbsent(copy.level(), level -> new TreeSet<>())
                .add(copy.host().isEmpty() ? copy.directory() : copy.host()));
        final List<String> text = new ArrayList<>();
        hosts.forEach((level, of) -> text.add("level " + level + ": " + String.join(", ", of)));
        return String.join("; ", text);
    }

    void close() {
        writer.shutdownNow();
    }
}
