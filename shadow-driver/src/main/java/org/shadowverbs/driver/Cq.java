// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

/** A completion queue. */
final class Cq extends Resource {
    /**
     * Entries that the real queue has more than the application asked for: for the completions of the drain's own
     * requests, markers and landings, of which no more are under way at a time.
     */
    static final int ROOM = 32;

    final Context context;
    /** Null: completions make no events. */
    final Channel channel;
    final int completionVector;
    /** As the application asked. */
    int cqe;

    Cq(final long virtual, final long real, final Context context, final Channel channel,
            final int completionVector, final int cqe) {
        super(virtual, real);
        this.context = context;
        this.channel = channel;
        this.completionVector = completionVector;
        this.cqe = cqe;
    }
}
