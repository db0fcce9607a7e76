// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.wire;

/** What came over a connection is not what a peer of ours sends: the connection is closed with one line. */
public final class ProtocolException extends Exception {
    private static final long serialVersionUID = 1L;

    public ProtocolException(final String message) {
        super(message);
    }
}
