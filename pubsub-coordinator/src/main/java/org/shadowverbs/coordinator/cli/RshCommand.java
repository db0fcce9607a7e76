// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.process.RemoteShell;

/** {@code rsh}: becomes the small program that launchers call by themselves (native/restore-init/rsh.c). */
final class RshCommand extends CliCommand {
    private final Map<String, String> environment;
    private final Supplier<List<String>> words = operands("WORD", "2..*", "HOST, and the command for the shell there; in front of"
            + " them options as ssh has them, of which -n counts");

    RshCommand(final Map<String, String> environment) {
        super("runs a command on another host of the job", "For a program of a job, in place of ssh: the command is of the job, too, and"
                + " is saved with it. launch names it to mpirun as its remote shell.");
        footer("exit status: the command's; 255 it can't be run, or the connection has broken");
        this.environment = environment;
    }

    @Override
    public Integer call() throws CommandException {
        final Path program;
        try {
            program = RemoteShell.client();
        } catch (CheckpointException e) {
            throw new CommandException("rsh: " + e.getMessage());
        }
        final List<String> argv = new ArrayList<>(List.of(program.toString()));
        argv.addAll(words.get());
        throw Execution.become(program, argv, environment.entrySet().stream().map(x -> x.getKey() + "=" + x.getValue()).toList());
    }
}
