// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

/** {@code shadowverbs} without a command. */
final class RootCommand extends CliCommand {
    RootCommand() {
        super("Transparent checkpointing of InfiniBand verbs programs.");
        footer("shadowverbs help COMMAND says more. Exit status: 0 done, 1 failed, 2 wrong usage.");
        version(Main.VERSION);
    }

    @Override
    public Integer call() throws UsageException {
        throw new UsageException("no command is given (see shadowverbs help)");
    }
}
