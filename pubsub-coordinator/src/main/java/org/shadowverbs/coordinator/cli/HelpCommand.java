// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.Map;
import java.util.function.Supplier;
import picocli.CommandLine;

/** {@code help}: of one command, or all of them in a line each. */
final class HelpCommand extends CliCommand {
    private final Map<String, String> environment;
    private final Supplier<String> command = operand("COMMAND", "0..1", "the command; none: a list of all");

    HelpCommand(final Map<String, String> environment) {
        super("says what a command does, and its options");
        this.environment = environment;
    }

    @Override
    public Integer call() throws UsageException {
        final CommandLine all = Main.line(environment);
        final CommandLine asked = command.get() == null ? all : all.getSubcommands().get(command.get());
        if (asked == null) {
            throw new UsageException("help: no such command: " + command.get() + " (see shadowverbs help)");
        }
        asked.usage(System.out);
        return 0;
    }
}
