// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * Opens another store on a thread of its own: Chronicle Map takes a second, and nobody is to wait for it. What is put
 * meanwhile is kept on the heap and goes into the store once that is open. Who needs no more than a place for many values has them
 * on the heap as long as they are few.
 */
public final class LazyStore implements PublishedStore {
    private static final int OPEN_SECONDS = 60;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition opened = lock.newCondition();
    private final MemoryStore meanwhile = new MemoryStore();
    private final Callable<PublishedStore> open;
    private final int few;
    private final boolean mayHoldValues;
    private boolean begun;
    private PublishedStore store;
    private String failure;
    private boolean closed;

    /**
     * Begins to open.
     *
     * @param mayHoldValues whether the store to be opened has values of an earlier process, which a get must wait for
     */
    public LazyStore(final Callable<PublishedStore> open, final boolean mayHoldValues) {
        this(open, 0, mayHoldValues);
        begin();
    }

    /**
     * Begins to open when there are more values than a few.
     *
     * @param few so many stay on the heap
     */
    public LazyStore(final Callable<PublishedStore> open, final int few) {
        this(open, few, false);
    }

    private LazyStore(final Callable<PublishedStore> open, final int few, final boolean mayHoldValues) {
        this.open = open;
        this.few = few;
        this.mayHoldValues = mayHoldValues;
    }

    private void begin() {
        begun = true;
        Thread.ofPlatform().daemon().name("open-store").start(this::open);
    }

    private void open() {
        PublishedStore ready = null;
        String why = null;
        try {
            ready = open.call();
        } catch (Exception | LinkageError e) {
            why = "the store of published ids can't be opened: " + e;
        }
        lock.lock();
        try {
            if (closed && ready != null) {
                ready.close();
                return;
            }
            if (ready != null) {
                meanwhile.forEach(ready::put);
                meanwhile.close();
            }
            store = ready;
            failure = why;
            opened.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** The store that holds everything now; the one on the heap stays in use when the other can't be opened. */
    private PublishedStore current() {
        return store != null ? store : meanwhile;
    }

    /** Why the store could not be opened, or null. */
    public String failure() {
        lock.lock();
        try {
            return failure;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void put(final String key, final byte[] value) {
        lock.lock();
        try {
            current().put(key, value);
            if (!begun && meanwhile.size() > few) {
                begin();
            }
        } finally {
            lock.unlock();
        }
    }

    @Override
    public byte[] get(final String key) {
        lock.lock();
        try {
            final byte[] value = current().get(key);
            if (value != null || store != null || !mayHoldValues) {
                return value;
            }
            awaitOpen();
            return current().get(key);
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void awaitOpen() {
        long left = TimeUnit.SECONDS.toNanos(OPEN_SECONDS);
        lock.lock();
        try {
            while (begun && store == null && failure == null) {
                if (left <= 0) {
                    throw new IllegalStateException("the store of published ids was not open after " + OPEN_SECONDS
                            + " s");
                }
                left = opened.awaitNanos(left);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while the store of published ids was being opened", e);
        } finally {
            lock.unlock();
        }
    }

    /** Of one that can't be opened the heap is all there is: {@link #failure}. */
    @Override
    public String settle() {
        try {
            awaitOpen();
        } catch (IllegalStateException e) {
            return e.getMessage();
        }
        lock.lock();
        try {
            return current().settle();
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void remove(final String key) {
        change(s -> s.remove(key));
    }

    @Override
    public void removeAll(final String prefix) {
        change(s -> s.removeAll(prefix));
    }

    /** Changes the store, with the values of an earlier process. */
    private void change(final Consumer<PublishedStore> how) {
        lock.lock();
        try {
            if (store == null && mayHoldValues) {
                awaitOpen();
            }
            how.accept(current());
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void close() {
        end(PublishedStore::close);
    }

    @Override
    public void discard() {
        end(PublishedStore::discard);
    }

    private void end(final Consumer<PublishedStore> how) {
        lock.lock();
        try {
            closed = true;
            begun = true;
            if (store != null) {
                how.accept(store);
            }
        } finally {
            lock.unlock();
        }
    }
}
