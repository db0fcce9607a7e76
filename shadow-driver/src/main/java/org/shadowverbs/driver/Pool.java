// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.util.List;

/**
 * A shared receive queue in the drain. Which of its senders gets a receive that is left is the network's affair, so no
 * sender has a number of receives of its own: {@link DrainPolicy} says what can be concluded all the same.
 */
final class Pool {
    /** No landing is needed now. */
    static final long NO_LANDING = -1;

    /** A connected queue pair that receives from it. */
    interface User {
        /** Messages of its peer that have been counted. */
        long received();

        /** What the peer said last; null: nothing yet. */
        DrainRecord heard();
    }

    /** Posted by the application, and not yet consumed. */
    long receives;
    /** Landings on their way, and posted in this drain in all. */
    int landings;
    long landingsPosted;

    /**
     * The length of the landing to post, or {@link #NO_LANDING}. The queue is empty and somebody needs one; but any of
     * the senders may get it, so it is as long as the longest message that may come next, and it is posted only when
     * that is known of everyone. Whoever gets one that did not need it has one message less to wait for, so that in the
     * end all who need one are served.
     */
    long landing(final List<? extends User> users) {
        if (receives > 0 || landings > 0) {
            return NO_LANDING;
        }
        long longest = NO_LANDING;
        boolean needed = false;
        for (final User user : users) {
            if (user.heard() == null) {
                return NO_LANDING;
            }
            final long received = user.received();
            final PoolRecord next = user.heard().pool;
            if (!next.saysWhatFollows(received)) {
                if (user.heard().dead || user.heard().withdrawn) {
                    continue;
                }
                return NO_LANDING;
            }
            if (next.nextOrdinal != 0) {
                longest = Math.max(longest, next.nextLength);
            }
            needed |= user.heard().landingOrdinal == received + 1;
        }
        return needed ? longest : NO_LANDING;
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
