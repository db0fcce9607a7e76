// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.util.ArrayList;
import java.util.List;
import org.shadowverbs.driver.model.Srq;

/**
 * A shared receive queue in the drain, or all those of an XRC domain, among which each message chooses one. Which of the
 * senders gets a receive that is left is the network's affair, so no sender has a number of receives of its own:
 * {@link DrainPolicy} says what can be concluded all the same.
 */
final class Pool {
    /** One queue. */
    static final class Queue {
        /** Null in tests. */
        final Srq srq;
        /** By which messages choose it. */
        final int number;
        /** Posted by the application, and not yet consumed. */
        long receives;
        /** Landings on their way. */
        int landings;

        Queue(final Srq srq, final int number) {
            this.srq = srq;
            this.number = number;
        }
    }

    /** A landing that is to be posted. */
    static final class Landing {
        final Queue queue;
        final long length;

        Landing(final Queue queue, final long length) {
            this.queue = queue;
            this.length = length;
        }
    }

    /** A connected queue pair that receives from it. */
    interface User {
        /** Messages of its peer that have been counted. */
        long received();

        /** What the peer said last; null: nothing yet. */
        DrainRecord heard();
    }

    final List<Queue> queues = new ArrayList<Queue>();
    /** Messages name their queue: it is an XRC domain. */
    final boolean numbered;
    /** Landings posted in this drain in all. */
    long landingsPosted;

    Pool(final boolean numbered) {
        this.numbered = numbered;
    }

    /** Receives of the only queue; of a domain {@link #numbers} and {@link #free} have them. */
    long receives() {
        return numbered ? 0 : queues.get(0).receives;
    }

    int landings() {
        return numbered ? 0 : queues.get(0).landings;
    }

    int[] numbers() {
        final int[] numbers = new int[numbered ? queues.size() : 0];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = queues.get(i).number;
        }
        return numbers;
    }

    /** Receives and landings left, in the order of {@link #numbers}. */
    long[] free() {
        final long[] free = new long[numbered ? queues.size() : 0];
        for (int i = 0; i < free.length; i++) {
            free[i] = queues.get(i).receives + queues.get(i).landings;
        }
        return free;
    }

    private Queue queue(final int number) {
        for (final Queue queue : queues) {
            if (!numbered || queue.number == number) {
                return queue;
            }
        }
        return null;
    }

    /**
     * The landing to post, or null. Nothing moves any more, and somebody needs one; but any of the senders whose next
     * message is for that queue may get it, so it is as long as the longest of these, and it is posted only when the next
     * message of everyone is known. Whoever gets one that did not need it has one message less to wait for, so that in the
     * end all who need one are served.
     */
    Landing landing(final List<? extends User> users) {
        Queue needed = null;
        for (final User user : users) {
            if (user.heard() == null) {
                return null;
            }
            final PoolRecord next = user.heard().pool;
            if (!cannotMove(user)) {
                return null;
            }
            if (next.nextOrdinal != 0 && user.heard().landingOrdinal == user.received() + 1) {
                needed = queue(next.nextSrq);
            }
        }
        for (final Queue queue : queues) {
            if (queue.landings > 0) {
                return null;
            }
        }
        return needed == null ? null : new Landing(needed, longest(needed, users));
    }

    /** Its next message waits for a receive, or there is none, or it sends nothing any more. */
    private boolean cannotMove(final User user) {
        final PoolRecord next = user.heard().pool;
        if (user.heard().dead || user.heard().withdrawn) {
            return true;
        }
        if (!next.saysWhatFollows(user.received())) {
            return false;
        }
        final Queue queue = next.nextOrdinal == 0 ? null : queue(next.nextSrq);
        return next.nextOrdinal == 0 || queue != null && queue.receives == 0;
    }

    private long longest(final Queue wanted, final List<? extends User> users) {
        long longest = 0;
        for (final User user : users) {
            final PoolRecord next = user.heard().pool;
            if (next.nextOrdinal != 0 && next.saysWhatFollows(user.received()) && queue(next.nextSrq) == wanted) {
                longest = Math.max(longest, next.nextLength);
            }
        }
        return longest;
    }

    /** Whether all senders have heard of the last landing. */
    boolean isKnownTo(final List<? extends User> users) {
        for (final User user : users) {
            if (user.heard() == null || user.heard().pool.landingsKnown != landingsPosted) {
                return false;
            }
        }
        return true;
    }

    /** Nobody can consume anything any more, be it posted already or not. */
    boolean settled(final List<? extends User> users) {
        for (final User user : users) {
            if (user.heard() == null || !user.heard().settled) {
                return false;
            }
        }
        return isKnownTo(users);
    }
}
