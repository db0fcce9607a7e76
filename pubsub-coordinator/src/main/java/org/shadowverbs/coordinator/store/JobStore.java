// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

/**
 * What a job must not lose with its coordinator: its state, its published ids, and the decision that a checkpoint is valid. A
 * store on the coordinator's host ({@link EmbeddedStore}) has it for a coordinator that is started anew there, one that
 * several hosts reach ({@link RedisStore}) for a coordinator on any of them. Safe for use by several threads.
 */
public interface JobStore extends AutoCloseable {
    /** Hears what becomes of a store, on a thread of the store's. */
    interface Listener {
        /** A line for the user. */
        void line(String line);

        /** Another coordinator has taken this one's place, which is to act no more. */
        void superseded(String why);
    }

    /** What the coordinator before this one has kept; null: there was none. */
    String before();

    /** The published ids, those that the coordinator before this one has left among them. */
    PublishedStore published();

    /** From now on the listener hears of it. Once, before anything is kept. */
    default void begin(final Listener listener) {
    }

    /**
     * Keeps the state, and where the coordinator is, in place of what was kept. In the background, where it may take long; a later
     * call overtakes those that are not done.
     *
     * @throws StoreException it can't be kept
     */
    void keep(String state, Seat seat) throws StoreException;

    /**
     * Keeps the state, for what follows from it to be done only when this coordinator is the job's and no other can be: a later one
     * will find it.
     *
     * @throws StoreException it is not kept: nothing is to follow
     */
    void decide(String state, Seat seat) throws StoreException;

    /** Why nothing may be begun that others must not do at the same time, or an empty string. */
    default String problem() {
        return "";
    }

    /** The number of this coordinator among those of the job, which has gone up with each; 0: they need none. */
    default long number() {
        return 0;
    }

    /** For the agents, as {@link StorePlace#text}; empty: they can't reach it. */
    default String place() {
        return "";
    }

    /** Under which name the job is found there. */
    default String key() {
        return "";
    }

    /** Removes all: the job is over. When {@link #published} is open. */
    void discard();

    /** For a coordinator that is to follow at once. */
    @Override
    void close();

    /** Leaves it as a coordinator does that is killed. */
    default void abandon() {
        published().close();
    }
}
