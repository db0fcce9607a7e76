// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

/** The benchmark can't go on; the message is the line that says why. */
final class BenchException extends Exception {
    private static final long serialVersionUID = 1L;

    BenchException(final String message) {
        super(message);
    }
}
