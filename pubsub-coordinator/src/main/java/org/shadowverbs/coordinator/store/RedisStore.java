// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The store in Redis or Valkey, for a coordinator that may be followed by one on another host. It holds a lease, and renews it; what
 * it writes counts only while no other has taken that ({@link RedisJob}). All of it is also on the heap, so that nobody waits for
 * the store but who decides something: one thread writes what has changed, behind everybody's back, and again when the store
 * was away. A coordinator whose lease may have run out may decide nothing until it has it again.
 */
public final class RedisStore implements JobStore {
    /** How long a lease lasts that is not renewed: after that another host may take over. */
    static final Duration LEASE = Duration.ofSeconds(5);

    private static final int RENEWALS = 3;
    /** In tenths of the lease: so long the holder trusts in it, by a clock that may be slower than the store's. */
    private static final int TRUSTED = 8;
    private static final long RETRY_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
    private static final long DECISION_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final long SETTLING_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final long LAST_WORDS_MILLIS = 3_000;
    private static final int MOST_KEYS = 500;
    private static final int MOST_BYTES = 1 << 20;
    private static final int NONCE_BYTES = 8;
    private static final String SUPERSEDED = "another coordinator has taken over the job, or it is over";

    private final RedisJob job;
    private final String key;
    private final Duration lease;
    private final String nonce = nonce();
    private final String before;
    private final Ids ids = new Ids();
    private final Thread thread;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    // Guarded by the lock.
    private final Set<String> dirty = new LinkedHashSet<>();
    private String state;
    private String seat;
    private boolean stateDirty;
    /** Goes up with each change of the state, and of what is published. */
    private long asked;
    /** What was asked for up to here is written. */
    private long done;
    private Listener listener;
    private boolean closing;
    private boolean over;
    private String token;
    private long number;
    /** Until when the lease is trusted in, by System.nanoTime. */
    private long heldUntil;
    /** What the store refuses to write; empty: nothing. */
    private String refusal = "";
    /** Why it was not reached the last time; empty: it was. */
    private String failure = "";
    /** What the user was told; empty: all is well. */
    private String said = "";

    // The thread's.
    private long sequence;
    private long renewAt;
    /** Nothing that is published there counts any more. */
    private boolean forget;

    /**
     * Takes the lease.
     *
     * @param key under which the job is found
     * @param takeOver the job of a coordinator that was lost goes on; waits for its lease to run out
     * @throws StoreException the store can't be reached, or somebody else is the job's coordinator
     */
    public static RedisStore open(final StorePlace place, final String key, final boolean takeOver)
            throws StoreException {
        return open(place, key, takeOver, LEASE);
    }

    static RedisStore open(final StorePlace place, final String key, final boolean takeOver, final Duration lease)
            throws StoreException {
        final RedisJob job = new RedisJob(new RedisLink(place), key);
        try {
            return new RedisStore(job, key, takeOver, lease);
        } catch (StoreException | RuntimeException e) {
            job.close();
            throw e;
        }
    }

    private RedisStore(final RedisJob job, final String key, final boolean takeOver, final Duration lease) throws StoreException {
        this.job = job;
        this.key = key;
        this.lease = lease;
        final long began = System.nanoTime();
        final RedisJob.Taken taken = job.take(nonce, lease, 1, takeOver);
        if (taken.number() <= 0) {
            throw new StoreException(taken.number() < 0 ? "the store at " + job.place() + " knows no job " + key
                    : "job " + key + " has a coordinator: number " + taken.token().split(" ")[0] + " of the store at " + job.place());
        }
        held(taken, began);
        before = job.state();
        job.published().forEach(ids::found);
        thread = Thread.ofPlatform().daemon().name("store").unstarted(this::write);
    }

    private static String nonce() {
        final byte[] bytes = new byte[NONCE_BYTES];
        new SecureRandom().nextBytes(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private void held(final RedisJob.Taken taken, final long since) {
        token = taken.token();
        number = taken.number();
        sequence = 0;
        trust(since);
    }

    private void trust(final long since) {
        heldUntil = since + lease.toNanos() / 10 * TRUSTED;
        renewAt = since + lease.toNanos() / RENEWALS;
    }

    @Override
    public void begin(final Listener its) {
        listener = its;
        thread.start();
    }

    // ---- what the coordinator asks for ----

    @Override
    public String before() {
        return before;
    }

    @Override
    public PublishedStore published() {
        return ids;
    }

    @Override
    public void keep(final String text, final Seat at) {
        lock.lock();
        try {
            state(text, at.text());
        } finally {
            lock.unlock();
        }
    }

    private void state(final String text, final String at) {
        state = text;
        seat = at;
        stateDirty = true;
        asked++;
        changed.signalAll();
    }

    @Override
    public void decide(final String text, final Seat at) throws StoreException {
        lock.lock();
        try {
            requireLease();
            final String stateBefore = state;
            final String seatBefore = seat;
            state(text, at.text());
            if (!await(asked, DECISION_NANOS)) {
                if (text.equals(state)) {
                    state(stateBefore == null ? text : stateBefore, seatBefore == null ? at.text() : seatBefore);
                }
                requireLease();
                throw new StoreException(tooSlow());
            }
            requireLease();
        } finally {
            lock.unlock();
        }
    }

    private void requireLease() throws StoreException {
        final String problem = problemNow();
        if (!problem.isEmpty()) {
            throw new StoreException(problem);
        }
    }

    private String tooSlow() {
        return "the store at " + job.place() + " is too slow";
    }

    /** Waits until what was asked for so far is written; returns whether it is. */
    private boolean await(final long upTo, final long nanos) {
        long left = nanos;
        try {
            while (done < upTo && left > 0 && !over) {
                left = changed.awaitNanos(left);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return done >= upTo && !over;
    }

    @Override
    public String problem() {
        lock.lock();
        try {
            return problemNow();
        } finally {
            lock.unlock();
        }
    }

    private String problemNow() {
        if (over) {
            return SUPERSEDED;
        }
        if (!refusal.isEmpty()) {
            return refusal;
        }
        return System.nanoTime() - heldUntil < 0 ? "" : failure.isEmpty() ? "the store at " + job.place() + " does not answer" : failure;
    }

    @Override
    public long number() {
        lock.lock();
        try {
            return number;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public String place() {
        return job.place().text();
    }

    @Override
    public String key() {
        return key;
    }

    // ---- what the thread does ----

    private void write() {
        for (;;) {
            try {
                if (!awaitWork()) {
                    return;
                }
                if (System.nanoTime() - renewAt >= 0) {
                    renew();
                }
                writeState();
                while (writePublished()) {
                    if (System.nanoTime() - renewAt >= 0) {
                        renew();
                    }
                }
                answered();
            } catch (Superseded e) {
                end();
                listener.superseded(e.getMessage());
                return;
            } catch (StoreException e) {
                failed(e);
            }
        }
    }

    /** There is a later coordinator. */
    private static final class Superseded extends Exception {
        private static final long serialVersionUID = 1L;

        Superseded() {
            super(SUPERSEDED);
        }
    }

    private boolean awaitWork() {
        lock.lock();
        try {
            final boolean again = !failure.isEmpty() || !refusal.isEmpty();
            final long until = System.nanoTime() + RETRY_NANOS;
            while (!closing && (again ? until - System.nanoTime() > 0
                    : !stateDirty && dirty.isEmpty() && !forget && renewAt - System.nanoTime() > 0)) {
                changed.awaitNanos(Math.max(1, (again ? until : renewAt) - System.nanoTime()));
            }
            return !closing;
        } catch (InterruptedException e) {
            return false;
        } finally {
            lock.unlock();
        }
    }

    private void renew() throws StoreException, Superseded {
        final long now = System.nanoTime();
        check(job.renew(token, lease));
        lock.lock();
        try {
            if (System.nanoTime() - now < lease.toNanos()) {
                trust(now);
            }
            failure = "";
        } finally {
            lock.unlock();
        }
        tell();
    }

    /** A store that has lost everything gets it anew, under a new number. */
    private void check(final RedisJob.Outcome outcome) throws StoreException, Superseded {
        if (outcome == RedisJob.Outcome.SUPERSEDED) {
            throw new Superseded();
        }
        if (outcome == RedisJob.Outcome.DONE) {
            return;
        }
        final long now = System.nanoTime();
        final RedisJob.Taken taken = job.take(nonce, lease, number + 1, false);
        if (taken.number() <= 0) {
            throw new Superseded();
        }
        lock.lock();
        try {
            held(taken, now);
            stateDirty = state != null;
            forget = true;
            ids.forEach((id, value) -> dirty.add(id));
            asked++; // who waits for what was put before waits for it again
        } finally {
            lock.unlock();
        }
        listener.line("the store has lost what it knew of this job: all of it is written there anew");
    }

    private void writeState() throws StoreException, Superseded {
        final String text;
        final String at;
        final long upTo;
        lock.lock();
        try {
            if (!stateDirty) {
                return;
            }
            text = state;
            at = seat;
            upTo = asked;
        } finally {
            lock.unlock();
        }
        final RedisJob.Outcome outcome = job.keep(token, ++sequence, text, at);
        check(outcome);
        lock.lock();
        try {
            if (outcome == RedisJob.Outcome.DONE && text.equals(state) && at.equals(seat)) {
                stateDirty = false;
            }
            written(upTo);
        } finally {
            lock.unlock();
        }
    }

    /** With the lock held. */
    private void written(final long upTo) {
        if (!stateDirty && dirty.isEmpty() && !forget) {
            done = Math.max(done, upTo);
            changed.signalAll();
        }
    }

    /** Returns whether there may be more. */
    private boolean writePublished() throws StoreException, Superseded {
        if (forget) {
            check(job.forgetPublished(token, ++sequence));
            forget = false;
        }
        final Map<String, byte[]> put = new LinkedHashMap<>();
        final List<String> removed = new ArrayList<>();
        final long upTo;
        lock.lock();
        try {
            upTo = asked;
            int bytes = 0;
            for (final String id : dirty) {
                final byte[] value = ids.get(id);
                if (value == null) {
                    removed.add(id);
                } else {
                    put.put(id, value);
                    bytes += value.length;
                }
                if (put.size() + removed.size() >= MOST_KEYS || bytes >= MOST_BYTES) {
                    break;
                }
            }
            if (put.isEmpty() && removed.isEmpty()) {
                written(upTo);
                return false;
            }
            dirty.removeAll(put.keySet());
            removed.forEach(dirty::remove);
        } finally {
            lock.unlock();
        }
        boolean is = false;
        try {
            final RedisJob.Outcome outcome = job.publish(token, ++sequence, put, removed);
            check(outcome);
            is = outcome == RedisJob.Outcome.DONE;
        } finally {
            lock.lock();
            try {
                if (!is) {
                    dirty.addAll(put.keySet());
                    dirty.addAll(removed);
                }
                written(upTo);
            } finally {
                lock.unlock();
            }
        }
        return true;
    }

    /** The store has done all that it was asked for. */
    private void answered() {
        lock.lock();
        try {
            refusal = "";
            failure = "";
        } finally {
            lock.unlock();
        }
        tell();
    }

    private void failed(final StoreException e) {
        lock.lock();
        try {
            if (e.isRefusal()) {
                refusal = e.getMessage();
            } else {
                failure = e.getMessage();
            }
        } finally {
            lock.unlock();
        }
        tell();
    }

    /** Once for each time that it is away. */
    private void tell() {
        final String line;
        lock.lock();
        try {
            final String problem = problemNow();
            if (said.isEmpty() == problem.isEmpty() || over) {
                return;
            }
            said = problem;
            line = problem.isEmpty() ? "the store is back: checkpoints are made again"
                    : problem + ": no checkpoints until it is back";
        } finally {
            lock.unlock();
        }
        listener.line(line);
    }

    // ---- the end ----

    private void end() {
        lock.lock();
        try {
            over = true;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private boolean stop() {
        lock.lock();
        try {
            closing = true;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        try {
            thread.join(LAST_WORDS_MILLIS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return !thread.isAlive();
    }

    /** What can't be said to a store that does not answer, or is another's, is left. */
    private void lastly(final Words words) {
        final boolean stopped = stop();
        try {
            if (stopped && !over) {
                words.say();
            }
        } catch (StoreException e) {
            System.getLogger(RedisStore.class.getName()).log(System.Logger.Level.WARNING, "at the end: {0}", e.getMessage());
        } finally {
            end();
            job.close();
        }
    }

    private interface Words {
        void say() throws StoreException;
    }

    @Override
    public void discard() {
        lastly(() -> job.end(token));
    }

    @Override
    public void close() {
        lastly(() -> {
            if (stateDirty) {
                job.keep(token, ++sequence, state, seat);
            }
            job.release(token);
        });
    }

    @Override
    public void abandon() {
        lastly(() -> { });
    }

    /** The published ids, on the heap; the store follows. */
    private final class Ids extends MemoryStore {
        void found(final String id, final byte[] value) {
            super.put(id, value);
        }

        @Override
        public void put(final String id, final byte[] value) {
            super.put(id, value);
            changed(List.of(id));
        }

        @Override
        public void remove(final String id) {
            super.remove(id);
            changed(List.of(id));
        }

        @Override
        public void removeAll(final String prefix) {
            final List<String> gone = new ArrayList<>();
            forEach((id, value) -> {
                if (id.startsWith(prefix)) {
                    gone.add(id);
                }
            });
            super.removeAll(prefix);
            changed(gone);
        }

        private void changed(final List<String> which) {
            lock.lock();
            try {
                if (dirty.addAll(which)) {
                    asked++;
                    changed.signalAll();
                }
            } finally {
                lock.unlock();
            }
        }

        @Override
        public String settle() {
            lock.lock();
            try {
                final String problem = problemNow();
                return !problem.isEmpty() || await(asked, SETTLING_NANOS) ? problem : tooSlow();
            } finally {
                lock.unlock();
            }
        }
    }
}
