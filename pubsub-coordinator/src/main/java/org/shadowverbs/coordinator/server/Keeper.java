// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.store.JobStore;
import org.shadowverbs.coordinator.store.Seat;
import org.shadowverbs.coordinator.store.StoreException;
import org.shadowverbs.coordinator.store.StorePlace;

/**
 * Has kept what the job must not lose with its coordinator: its state after each change, and the decision that a checkpoint is
 * valid. For any thread, without the job's lock.
 */
final class Keeper {
    private static final long LOOK_MILLIS = 100;
    /** A host that computes with all its processors, or a network that hiccups, is no reason to refuse a checkpoint. */
    private static final long HICCUP_NANOS = TimeUnit.SECONDS.toNanos(3);

    private final Job job;
    private final JobStore store;
    private final CoordinatorOptions options;
    private final Supplier<Seat> seat;
    private final Supplier<Set<String>> addresses;
    /** What the coordinator before this one had, as long as it is not known what has become of that; null: it is. */
    private volatile JobState before;
    /** Nothing is kept any more. Guarded by this. */
    private boolean ended;
    private long decided;

    /**
     * @param options what launches have not asked for otherwise
     * @param before of the coordinator in whose place this one is; null: there was none
     * @param seat where the coordinator is, for agents of other hosts
     * @param addresses at which it listens besides, for one that is started anew on this host
     */
    Keeper(final Job job, final JobStore store, final CoordinatorOptions options, final JobState before, final Supplier<Seat> seat,
            final Supplier<Set<String>> addresses) {
        this.job = job;
        this.store = store;
        this.options = options;
        this.before = before;
        decided = before == null ? 0 : before.decided();
        this.seat = seat;
        this.addresses = addresses;
    }

    /** Keeps the state as it is now. Who comes last keeps what is true then: agents join at the same time. */
    synchronized void save() {
        if (ended) {
            return;
        }
        try {
            store.keep(state().text(), seat.get());
        } catch (StoreException e) {
            job.log().add(e.getMessage());
        }
    }

    /**
     * The checkpoint of this epoch is written whole: from now on it is valid, wherever its folder is.
     *
     * @throws StoreException another coordinator may decide otherwise
     */
    synchronized void decide(final long epoch) throws StoreException {
        final long before = decided;
        decided = epoch;
        try {
            store.decide(state().text(), seat.get());
        } catch (StoreException e) {
            decided = before;
            save();
            throw e;
        }
    }

    /** Why nothing may be begun that no other coordinator may do at the same time, or an empty string. */
    String problem() {
        return store.problem();
    }

    /** For status: the store that all hosts reach, which coordinator of the job this is, and what is wrong; empty: there is none. */
    String store() {
        if (store.place().isEmpty()) {
            return "";
        }
        final String problem = store.problem();
        return StorePlace.ofText(store.place()) + ", coordinator number " + store.number()
                + (problem.isEmpty() ? "" : ": " + problem);
    }

    /** Waits until the coordinator may do what no other may do at the same time. @param user is told what is waited for */
    void awaitStore(final Report user) throws Stopped {
        final String problem = store.problem();
        if (!problem.isEmpty()) {
            user.line("the job comes back when the store does: " + problem);
        }
        awaitStore(Long.MAX_VALUE);
    }

    /** Waits for a moment, if need be, until it may be so that the store is there. */
    void awaitStoreShortly() throws Stopped {
        awaitStore(HICCUP_NANOS);
    }

    private void awaitStore(final long nanos) throws Stopped {
        final long began = System.nanoTime();
        while (!store.problem().isEmpty() && System.nanoTime() - began < nanos) {
            try {
                Thread.sleep(LOOK_MILLIS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new Stopped("the coordinator ends", false);
            }
        }
    }

    /** It is known who has come, and what is lost. */
    void tookOver() {
        before = null;
    }

    synchronized void end() {
        ended = true;
    }

    private JobState state() {
        final String host = seat.get().host();
        final JobState owed = before;
        return job.locked(() -> {
            final Set<String> ids = new LinkedHashSet<>();
            final Set<String> busy = new LinkedHashSet<>();
            job.agents().forEach(agent -> {
                ids.add(agent.id());
                if (!agent.trees.isEmpty() || agent.bound) {
                    busy.add(agent.host());
                }
            });
            if (owed != null) {
                ids.addAll(owed.agents());
                busy.addAll(owed.busyHosts());
            }
            final boolean recovering = job.isRecovering() || owed != null && owed.recovering();
            final Map<String, String> settings = new LinkedHashMap<>(options.settings());
            settings.putAll(job.settings());
            return new JobState(job.name(), job.epoch().number(), job.lineage().last(), job.lineage().restartedFrom(),
                    job.history().ran().toMillis(), job.history().failures(), ids, host, addresses.get(), busy, recovering, decided, settings,
                    options.exitOnLast(), options.deadlineSeconds());
        });
    }
}
