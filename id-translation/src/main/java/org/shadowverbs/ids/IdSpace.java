// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import java.util.Arrays;
import java.util.Collection;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * The virtual ids of one kind (queue pair numbers, keys) in one device context: which virtual id a new real object gets,
 * and whether it may have it at all.
 *
 * <p>A device gives its ids to all processes that have it open. So what another process has carried over counts as much as
 * what this one has, also when the object is gone: peers translate its id until the next REATTACH.
 *
 * <p>Not thread-safe: the sets change only while no verb is under way.
 */
public final class IdSpace {
    private static final int[] NONE = {};

    private final int mask;
    /** Virtual ids below this are not given out (queue pair numbers 0 and 1 are special). */
    private final int lowest;
    private ExceptionSet own = ExceptionSet.EMPTY;
    /** Virtual ids that any process with this device has carried over; ascending. */
    private int[] virtuals = NONE;
    /** The real ids that they stand for; ascending. */
    private int[] reals = NONE;

    public IdSpace(final int mask, final int lowest) {
        this.mask = mask;
        this.lowest = lowest;
    }

    /** The virtual id of a real object that was not carried over. */
    public int virtualOf(final int real) {
        return real ^ mask;
    }

    /**
     * Whether a real object with this id may be used. If not, another is to be created in its place, while this one
     * still exists: its virtual id would be one that is carried over, or its real id is one that a carried-over virtual id
     * stands for (of an object destroyed since).
     */
    public boolean accepts(final int real) {
        final int virtual = virtualOf(real);
        return Integer.compareUnsigned(virtual, lowest) >= 0 && Arrays.binarySearch(virtuals, virtual) < 0
                && Arrays.binarySearch(reals, real) < 0;
    }

    /** At most so many real ids are not accepted, but for the lowest. */
    public int taken() {
        return virtuals.length + reals.length;
    }

    public int realOf(final int virtual) {
        return own.realOf(virtual, mask);
    }

    public ExceptionSet own() {
        return own;
    }

    /**
     * Real objects have been made anew, or the context was opened in a job whose objects were.
     *
     * @param carriedOver every object of this context that lives
     * @param ofDevice the sets of all who have the device
     */
    public void reattached(final ExceptionSet carriedOver, final Collection<ExceptionSet> ofDevice) {
        own = carriedOver;
        virtuals = sorted(carriedOver, ofDevice, ExceptionSet::virtuals);
        reals = sorted(carriedOver, ofDevice, ExceptionSet::reals);
    }

    /** Is one of another context of this process, which has the device open, too. */
    public void sameAs(final IdSpace other) {
        own = other.own;
        virtuals = other.virtuals;
        reals = other.reals;
    }

    private static int[] sorted(final ExceptionSet one, final Collection<ExceptionSet> others,
            final Function<ExceptionSet, int[]> ids) {
        return Stream.concat(Stream.of(one), others.stream()).map(ids).flatMapToInt(IntStream::of).sorted().distinct()
                .toArray();
    }
}
