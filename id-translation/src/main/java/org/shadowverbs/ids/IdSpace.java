// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

/**
 * The virtual ids of one kind (queue pair numbers, keys) in one device context: which virtual id a new real object gets,
 * and whether it may have it at all.
 *
 * <p>Not thread-safe: the sets change only while no verb is under way.
 */
public final class IdSpace {
    private final int mask;
    /** Virtual ids below this are not given out (queue pair numbers 0 and 1 are special). */
    private final int lowest;
    private ExceptionSet own = ExceptionSet.EMPTY;
    /** The entries of all owners that draw their ids from the same device, {@link #own} included. */
    private ExceptionSet shared = ExceptionSet.EMPTY;

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
     * still exists: its virtual id would be that of an object carried over, or its real id is one that a carried-over
     * virtual id stands for (of an object destroyed since; peers translate it until the next REATTACH).
     */
    public boolean accepts(final int real) {
        final int virtual = virtualOf(real);
        return Integer.compareUnsigned(virtual, lowest) >= 0 && !shared.containsVirtual(virtual)
                && !own.containsReal(real);
    }

    public int realOf(final int virtual) {
        return own.realOf(virtual, mask);
    }

    public ExceptionSet own() {
        return own;
    }

    /**
     * Real objects have been made anew.
     *
     * @param carriedOver every object of this context that lives
     * @param ofSameDevice the sets of the other owners whose ids come from the same device, as they see it
     */
    public void reattached(final ExceptionSet carriedOver, final ExceptionSet ofSameDevice) {
        own = carriedOver;
        shared = carriedOver.union(ofSameDevice);
    }
}
