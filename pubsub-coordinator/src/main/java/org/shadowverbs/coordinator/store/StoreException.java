// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.io.IOException;

/** The store can't be reached, or does not do what it is asked for; the message says why, without the store's password. */
public final class StoreException extends IOException {
    private static final long serialVersionUID = 1L;

    public StoreException(final String message) {
        super(message);
    }

    StoreException(final String message, final Throwable cause) {
        super(message, cause);
    }
}
