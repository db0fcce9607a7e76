// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.io.IOException;

/** The link to the agent broke, or did not answer in time, during a call. */
public final class LinkLostException extends IOException {
    private static final long serialVersionUID = 1L;

    public LinkLostException(final String message) {
        super(message);
    }
}
