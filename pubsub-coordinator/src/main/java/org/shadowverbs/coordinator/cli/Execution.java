// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.shadowverbs.coordinator.system.Libc;

/** How this process becomes another program. */
final class Execution {
    private static final int ENOEXEC = 8;

    private Execution() {
    }

    /** @return why it does not */
    static CommandException become(final Path program, final List<String> argv, final List<String> newEnvironment)
            throws CommandException {
        final long mask = originalSignalMask();
        System.out.flush();
        System.err.flush();
        int errno = Libc.exec(program, argv, newEnvironment, mask);
        if (errno == ENOEXEC) { // a script without #! is for the shell, as execvp(3) has it
            final List<String> shell = new ArrayList<>(List.of("/bin/sh", program.toString()));
            shell.addAll(argv.subList(1, argv.size()));
            errno = Libc.exec(Path.of("/bin/sh"), shell, newEnvironment, mask);
        }
        return new CommandException(program + " can't be executed: errno " + errno, 126);
    }

    /** The launcher's first thread never enters the JVM, so its mask is still what this process was started with. */
    private static long originalSignalMask() throws CommandException {
        try {
            for (final String line : Files.readAllLines(
                    Path.of("/proc/self/task/" + ProcessHandle.current().pid() + "/status"))) {
                if (line.startsWith("SigBlk:")) {
                    return Long.parseUnsignedLong(line.substring(7).strip(), 16);
                }
            }
        } catch (IOException e) {
            throw new CommandException("/proc can't be read: " + e.getMessage());
        }
        return 0;
    }
}
