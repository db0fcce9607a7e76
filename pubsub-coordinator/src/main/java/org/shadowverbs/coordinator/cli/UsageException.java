// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import picocli.CommandLine.ExitCode;

/** The command was called wrongly: exit status 2. The message is one line. */
final class UsageException extends CommandException {
    private static final long serialVersionUID = 1L;

    UsageException(final String message) {
        super(message, ExitCode.USAGE);
    }
}
