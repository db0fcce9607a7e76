// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.List;

/** A checkpoint or a reattachment can't go on. The message is one line for the user. */
final class Stopped extends Exception {
    private static final long serialVersionUID = 1L;

    /** It is to be tried again: a checkpoint with those that are there then, a way back as a new attempt. */
    private final boolean again;
    /** The ranks that were waited for in vain. */
    private final transient List<Rank> late;

    Stopped(final String message, final boolean again) {
        this(message, again, List.of());
    }

    Stopped(final String message, final boolean again, final List<Rank> late) {
        super(message);
        this.again = again;
        this.late = late;
    }

    List<Rank> late() {
        return late;
    }

    boolean again() {
        return again;
    }
}
