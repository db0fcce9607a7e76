// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.io.IOException;

/** The store can't be reached, or does not do what it is asked for; the message says why, without the store's password. */
public final class StoreException extends IOException {
    private static final long serialVersionUID = 1L;

    private final boolean refusal;

    public StoreException(final String message) {
        super(message);
        refusal = false;
    }

    StoreException(final String message, final Throwable cause) {
        this(message, cause, false);
    }

    StoreException(final String message, final Throwable cause, final boolean refusal) {
        super(message, cause);
        this.refusal = refusal;
    }

    /** Whether the store has answered, and does not do it. */
    boolean isRefusal() {
        return refusal;
    }
}
