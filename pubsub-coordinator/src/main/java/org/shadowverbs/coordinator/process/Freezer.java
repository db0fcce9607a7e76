// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Makes process trees stand still with the control group freezer of version 2 or 1, whichever the host has.
 *
 * <p>A tree is moved into a group of its own below the one that it is in, so that whoever manages that one (systemd)
 * still sees it populated, and is moved back afterwards. CRIU needs a group for each tree: it takes hold of every
 * process in it, and freezes again a group that it found frozen.
 */
final class Freezer {
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
    /** The version 1 freezer may have to be told again: it gives up on a task that sleeps uninterruptibly. */
    private static final int TELL_AGAIN = 50;

    private final boolean unified;
    private final Path mount;

    private Freezer(final boolean unified, final Path mount) {
        this.unified = unified;
        this.mount = mount;
    }

    /** Finds a freezer that can be used among the mounts of a mountinfo file, proc(5). Null when there is none. */
    static Freezer find(final Path mountInfo) throws IOException {
        Freezer second = null;
        for (final String line : Files.readAllLines(mountInfo)) {
            final String[] halves = line.split(" - ", 2);
            final String[] type = halves[1].split(" ");
            final Path point = Path.of(halves[0].split(" ")[4]);
            final boolean readOnly = List.of(halves[0].split(" ")[5].split(",")).contains("ro");
            if (readOnly) {
                continue;
            }
            if (type[0].equals("cgroup2")) {
                final Freezer freezer = new Freezer(true, point);
                if (freezer.works()) {
                    return freezer;
                }
            } else if (type[0].equals("cgroup") && List.of(type[2].split(",")).contains("freezer")) {
                second = new Freezer(false, point);
            }
        }
        return second != null && second.works() ? second : null;
    }

    String description() {
        return unified ? "cgroup v2 freezer" : "cgroup v1 freezer";
    }

    /** A group for one tree. */
    final class Group {
        private final Path folder;
        private final Map<Long, Path> origins = new HashMap<>();

        private Group(final Path folder) {
            this.folder = folder;
        }

        Path folder() {
            return folder;
        }

        /** Moves a process in, where its children are born then. Returns whether it was elsewhere, and not at its end. */
        boolean add(final long pid) throws IOException {
            try {
                final Path origin = current(pid);
                if (origin.equals(folder)) {
                    return false;
                }
                move(pid, folder);
                origins.put(pid, origin);
                return true;
            } catch (final IOException e) {
                if (Proc.ended(pid)) {
                    return false;
                }
                throw e;
            }
        }

        void freeze() throws IOException {
            write(true);
        }

        /** They run on until the next freeze, in the group. */
        void thaw() throws IOException {
            write(false);
        }

        /** Waits until all stand still. */
        void await(final long deadline, final Duration whole, final String name) throws IOException, CheckpointException {
            for (int polls = 1; !frozen(); polls++) {
                if (System.nanoTime() - deadline > 0) {
                    throw new CheckpointException(name + ": the deadline of " + whole.toSeconds()
                            + " s has passed, and it does not stand still: " + unfrozen());
                }
                LockSupport.parkNanos(POLL_NANOS);
                if (polls % TELL_AGAIN == 0 && !unified) {
                    write(true);
                }
            }
        }

        /** Thaws, puts every process back where it came from, and removes the group. */
        void release() throws IOException {
            thaw();
            final Path home = folder.getParent();
            for (final String pid : Files.readAllLines(folder.resolve("cgroup.procs"))) {
                final Path origin = origins.getOrDefault(Long.parseLong(pid), home);
                try {
                    move(Long.parseLong(pid), origin.equals(folder) ? home : origin);
                } catch (final IOException e) {
                    if (!Proc.ended(Long.parseLong(pid))) {
                        throw e;
                    }
                }
            }
            remove();
        }

        /** Removes the group. One that is ending leaves it only when it has, so it may have to be done again. */
        void remove() {
            try {
                Files.deleteIfExists(folder);
            } catch (final IOException e) {
                System.getLogger(Freezer.class.getName())
                        .log(System.Logger.Level.DEBUG, "{0} is left: {1}", folder, e.getMessage());
            }
        }

        private boolean frozen() throws IOException {
            return unified
                    ? Files.readAllLines(folder.resolve("cgroup.events")).contains("frozen 1")
                    : Files.readString(folder.resolve("freezer.state")).strip().equals("FROZEN");
        }

        private void write(final boolean frozen) throws IOException {
            if (unified) {
                Files.writeString(folder.resolve("cgroup.freeze"), frozen ? "1" : "0");
            } else {
                Files.writeString(folder.resolve("freezer.state"), frozen ? "FROZEN" : "THAWED");
            }
        }

        private String unfrozen() throws IOException {
            final StringBuilder text = new StringBuilder();
            for (final String pid : Files.readAllLines(folder.resolve("cgroup.procs"))) {
                try {
                    final Proc.Ids ids = Proc.ids(Long.parseLong(pid));
                    text.append(text.isEmpty() ? "" : ", ").append("pid ").append(pid).append(' ')
                            .append(ids.command()).append(" is in state ").append(ids.state());
                } catch (final IOException e) {
                    continue; // It has ended meanwhile.
                }
            }
            return text.toString();
        }
    }

    /**
     * Makes a group for the tree below a process, beside which it stays. Its name has a random part: pids say nothing of
     * who is in another pid namespace, and one that was killed leaves its groups behind.
     */
    Group group(final long pid) throws IOException {
        return new Group(Files.createTempDirectory(current(pid), "shadowverbs-"));
    }

    /** The shell command that thaws the groups given as its arguments. */
    String thawCommand() {
        return unified
                ? "for group; do echo 0 >\"$group/cgroup.freeze\"; done"
                : "for group; do echo THAWED >\"$group/freezer.state\"; done";
    }

    private boolean works() {
        try {
            final Path trial = Files.createTempDirectory(current(ProcessHandle.current().pid()), "shadowverbs-trial-");
            final boolean exists = Files.exists(trial.resolve(unified ? "cgroup.freeze" : "freezer.state"));
            Files.delete(trial);
            return exists;
        } catch (final IOException e) {
            return false;
        }
    }

    private Path current(final long pid) throws IOException {
        for (final String line : Files.readAllLines(Proc.path(pid, "cgroup"))) {
            final String[] field = line.split(":", 3);
            if (unified
                    ? field[0].equals("0") && field[1].isEmpty()
                    : List.of(field[1].split(",")).contains("freezer")) {
                return mount.resolve(field[2].substring(1)).normalize();
            }
        }
        throw new IOException("pid " + pid + " is in no group of " + mount);
    }

    private static void move(final long pid, final Path folder) throws IOException {
        Files.writeString(folder.resolve("cgroup.procs"), Long.toString(pid));
    }
}
