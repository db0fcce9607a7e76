// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;

/**
 * The policy of a job that heals itself: which deaths count as failures, from which checkpoint the job is brought back, how often, and
 * with what it ends when it is not. {@link Steps} are what it has done, {@link Placement} says which host brings back what.
 *
 * <p>What is heard of deaths comes with the job's lock held; the rest runs on the conductor's thread, behind a checkpoint that goes on
 * and is stopped for it.
 */
final class Recovery {
    /** EX_TEMPFAIL of sysexits(3): the job is saved, to be run again. */
    static final int SAVED = 75;
    /** Of a job that ends for a reason that has no exit status: a host that is lost, say. */
    private static final int FAILED = 1;

    private final Job job;
    private final Executor conductor;
    private final Supplier<Path> directory;
    private final Supplier<? extends Steps> runs;
    private final Set<Path> damaged = new HashSet<>();
    private final Map<Path, Integer> times = new HashMap<>();

    // Guarded by the job's lock.
    private RecoveryOptions options = RecoveryOptions.NONE;
    /** What the job is being brought back for; null: nothing has happened. */
    private Failure failure;
    /** What has happened since it is being brought back. */
    private Failure another;
    private boolean restoring;
    /** Somebody wants the job to end: what dies now dies for that. */
    private boolean endsOnPurpose;
    /** What the job ends with: the first status that was not 0. */
    private int status;

    /** What is done, and not decided, here: {@link RecoveryRun}. */
    interface Steps {
        /** Tells the user. */
        void say(String line);

        /** All hosts end what they have of the job. */
        void endWhatIsLeft();

        /**
         * Brings the job back from the checkpoint.
         *
         * @param since when the failure was noticed, by System.nanoTime
         * @param why what the user is told of it when the job is back: files may have lost what was said before
         * @throws Damaged it is no good, nor will it be
         * @throws Stopped something has happened meanwhile
         */
        void restore(Path folder, long since, String why) throws Damaged, Stopped;

        /** Nothing is brought back any more. */
        void over();
    }

    /** The checkpoint is no good. */
    static final class Damaged extends Exception {
        private static final long serialVersionUID = 1L;

        Damaged(final String message) {
            super(message);
        }
    }

    /**
     * Something that the job did not survive.
     *
     * @param status the exit status that says so; 0: there is none
     * @param nanos when it was noticed, by System.nanoTime
     */
    record Failure(String what, int status, long nanos) {
    }

    /**
     * @param conductor runs one thing at a time
     * @param directory of the job's checkpoints
     * @param runs each takes the steps once
     */
    Recovery(final Job job, final Executor conductor, final Supplier<Path> directory,
            final Supplier<? extends Steps> runs) {
        this.job = job;
        this.conductor = conductor;
        this.directory = directory;
        this.runs = runs;
    }

    // ---- what is heard, with the job's lock held ----

    void options(final RecoveryOptions asked) {
        options = asked;
    }

    RecoveryOptions options() {
        return options;
    }

    /** A rank that dies by a signal or ends with an error status counts; so does one of which nobody knows how it has ended. */
    void rankGone(final String what, final boolean processEnded, final int itsStatus) {
        if (processEnded && itsStatus != 0) {
            failed(what, Math.max(itsStatus, 0));
        }
    }

    /** Of other processes only those count that were launched: who starts a child deals with its status. */
    void programEnded(final String host, final String program, final int itsStatus) {
        if (itsStatus != 0) {
            failed("the program on host " + host + " ended with status " + itsStatus + ": " + program, itsStatus);
        }
    }

    /** A host, or its agent, is gone for good, with processes of the job. */
    void hostLost(final String what) {
        failed(what, 0);
    }

    /** A program has asked for the end of all (MPI_Abort). @return whether that is taken care of */
    boolean aborted(final String why) {
        return failed(why, FAILED);
    }

    /** The processes live, and nothing comes of it. */
    void hangs(final String what) {
        failed(what, 0);
    }

    /** What dies from here on is meant to, and what is on its way back is not to come. */
    void endsOnPurpose() {
        endsOnPurpose = true;
        if (restoring) {
            job.epoch().stopRestart("its end was asked for");
        }
    }

    /** @return whether the job is brought back for it */
    private boolean failed(final String what, final int itsStatus) {
        if (status == 0) {
            status = itsStatus;
        }
        if (!options.asked() || endsOnPurpose) {
            return false;
        }
        final Failure now = new Failure(what, itsStatus, System.nanoTime());
        if (failure != null) {
            if (restoring && another == null) {
                another = now;
                job.epoch().stopRestart(what);
            }
            return true;
        }
        failure = now;
        job.log().add("failure: " + what);
        job.epoch().abandon(what);
        try {
            conductor.execute(this::heal);
        } catch (RejectedExecutionException e) {
            return false; // the coordinator ends
        }
        return true;
    }

    /** Whether the job goes on although none of its programs may run at the moment. */
    boolean isUnderWay() {
        return failure != null;
    }

    /** Whether the processes of a checkpoint are on their way back: who has others has those that are ended. */
    boolean isRestoring() {
        return restoring;
    }

    /** For status. */
    @Override
    public String toString() {
        return "heals itself, up to " + options.times() + (options.times() == 1 ? " time" : " times") + " from each checkpoint"
                + (endsOnPurpose ? "; its end was asked for, so it is not brought back"
                        : failure == null ? "" : "; is being brought back: " + failure.what());
    }

    /** The job's last program has ended. @return what the job ends with */
    int jobEnded() {
        final int result = status;
        status = 0;
        endsOnPurpose = false;
        return result;
    }

    /** It is saved and was to end: that is what it ends with. */
    void saved() {
        status = SAVED;
    }

    // ---- on the conductor's thread ----

    private void heal() {
        try {
            while (!bringBack()) {
                job.locked(() -> {
                    failure = another == null ? failure : new Failure(another.what(), another.status(), failure.nanos());
                    another = null;
                    return null;
                });
            }
        } catch (RuntimeException | Error e) {
            job.log().add("the recovery failed: " + e);
            end(runs.get(), "the recovery failed: " + e);
        }
    }

    /** @return whether there is nothing more to be done: the job runs, or has ended */
    private boolean bringBack() {
        final Failure now = job.locked(() -> failure);
        final Steps run = runs.get();
        run.endWhatIsLeft();
        if (job.locked(() -> endsOnPurpose)) {
            return end(run, "");
        }
        final Path checkpoint = checkpoint();
        if (checkpoint == null) {
            return end(run, now.what() + ", and there is no checkpoint to go on from" + (damaged.isEmpty() ? "" : " that is good"));
        }
        final int most = job.locked(() -> options.times());
        final int before = times.getOrDefault(checkpoint, 0);
        if (before >= most) {
            return end(run, now.what() + "; it was brought back from " + checkpoint.getFileName() + " " + count(before) + " already");
        }
        times.put(checkpoint, before + 1);
        run.say(now.what() + ": the job goes on from " + checkpoint.getFileName() + " (" + (before + 1) + " of at most " + most + ")");
        job.locked(() -> restoring = true);
        try {
            run.restore(checkpoint, now.nanos(), now.what() + "; from " + checkpoint.getFileName() + ", " + (before + 1)
                    + " of at most " + most);
            final boolean back = job.locked(() -> {
                restoring = false;
                if (another != null || endsOnPurpose) {
                    return false;
                }
                failure = null;
                status = 0;
                return true;
            });
            job.endEpoch(); // which may also be the end of the job
            return back;
        } catch (Damaged e) {
            damaged.add(checkpoint);
            run.say(e.getMessage() + "; an older checkpoint is tried");
        } catch (Stopped e) {
            again(run, e.getMessage());
        }
        job.locked(() -> restoring = false);
        return false;
    }

    private void again(final Steps run, final String why) {
        run.say("the job did not come back: " + why);
        job.locked(() -> {
            if (another == null) {
                another = new Failure(why, 0, failure.nanos());
            }
            return null;
        });
    }

    private static String count(final int n) {
        return n == 1 ? "once" : n + " times";
    }

    /** The newest of those that the job has come from which is not known to be damaged; null: there is none. */
    private Path checkpoint() {
        try {
            final List<Path> all = CheckpointFolder.list(directory.get());
            return all.reversed().stream().filter(folder -> CheckpointFolder.job(folder).equals(job.name()))
                    .filter(folder -> CheckpointFolder.epoch(folder) <= job.lineage().last())
                    .filter(folder -> !damaged.contains(folder)).findFirst().orElse(null);
        } catch (IOException | UncheckedIOException e) {
            job.log().add("the checkpoint directory " + directory.get() + " can't be read: " + e);
            return null;
        }
    }

    /** @param why empty: somebody wanted it to */
    private boolean end(final Steps run, final String why) {
        if (!why.isEmpty()) {
            run.say("the job ends: " + why);
        }
        run.endWhatIsLeft();
        job.locked(() -> {
            if (status == 0) {
                status = FAILED;
            }
            failure = null;
            another = null;
            restoring = false;
            return null;
        });
        run.over();
        return true;
    }
}
