// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

/** The command could not do what it was to do. The message is one line. */
public class CommandException extends Exception {
    private static final long serialVersionUID = 1L;

    private final int status;

    CommandException(final String message) {
        this(message, 1);
    }

    CommandException(final String message, final int status) {
        super(message);
        this.status = status;
    }

    int status() {
        return status;
    }
}
