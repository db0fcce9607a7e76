// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.ToLongFunction;

/**
 * The ranks or agents that a step waits for. It is asked with each message of each of them, and looks at each a few
 * times in all: at one that is still missing again and again, at those behind it not before that one has come. Guarded
 * by the job's lock.
 */
final class Awaited<T> {
    private final Collection<T> all;
    private final Predicate<T> missing;
    private final ToLongFunction<T> lateAt;
    private Iterator<T> rest;
    private T one;
    /** Nobody is late before this time, as far as that was known when it was looked up. */
    private long nobodyBefore;
    private boolean looked;

    /**
     * @param all those who take part, whenever this is asked
     * @param missing whether one takes part and has yet to come
     * @param lateAt when it is too late for one that is missing; no earlier when asked again
     */
    Awaited(final Collection<T> all, final Predicate<T> missing, final ToLongFunction<T> lateAt) {
        this.all = all;
        this.missing = missing;
        this.lateAt = lateAt;
        rest = List.copyOf(all).iterator();
    }

    /** Whether none of them is missing. */
    boolean none() {
        while (!stillMissing()) {
            if (rest.hasNext()) {
                one = rest.next();
                continue;
            }
            final List<T> left = missing(); // some may have gone back
            if (left.isEmpty()) {
                return true;
            }
            rest = left.iterator();
            one = rest.next();
        }
        return false;
    }

    private boolean stillMissing() {
        return one != null && missing.test(one);
    }

    /** Those that are missing. */
    List<T> missing() {
        return all.stream().filter(missing).toList();
    }

    /**
     * When the first of those that are missing is late, or earlier: then it is to be asked again.
     *
     * @param now by the clock of lateAt
     */
    long lateAt(final long now) {
        if (!looked || nobodyBefore - now <= 0) {
            nobodyBefore = missing().stream().mapToLong(lateAt).min().orElse(now);
            looked = true;
        }
        return nobodyBefore;
    }
}
