// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

/** A checkpoint or a reattachment can't go on. The message is one line for the user. */
final class Stopped extends Exception {
    private static final long serialVersionUID = 1L;

    /** The members have changed, nothing is wrong: the checkpoint is tried again with those that are there. */
    private final boolean again;

    Stopped(final String message, final boolean again) {
        super(message);
        this.again = again;
    }

    boolean again() {
        return again;
    }
}
