// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.IOException;

/** The other side sent bytes that are no message of this protocol. The connection they came on is of no more use. */
public final class ProtocolException extends IOException {
    private static final long serialVersionUID = 1L;

    public ProtocolException(final String message) {
        super(message);
    }
}
