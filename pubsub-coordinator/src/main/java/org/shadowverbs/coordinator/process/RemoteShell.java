// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Path;

/** The programs by which a command runs on another host of the job: native/restore-init/rsh.c and rshd.c. */
public final class RemoteShell {
    /** In the environment of the one that runs the command: whom it is to connect to (rsh-line.h). */
    public static final String PLACE = "SHADOWVERBS_RSH";

    private RemoteShell() {
    }

    /**
     * The one that is called as ssh is.
     *
     * @return its file
     * @throws CheckpointException if the project is not whole
     */
    public static Path client() throws CheckpointException {
        return helper("shadowverbs-rsh");
    }

    /**
     * The one that runs the command.
     *
     * @return its file
     * @throws CheckpointException if the project is not whole
     */
    public static Path server() throws CheckpointException {
        return helper("shadowverbs-rshd");
    }

    /**
     * The command of the distribution, by which agents launch and start each other.
     *
     * @return its file
     * @throws CheckpointException if the project is not whole
     */
    public static Path shadowverbs() throws CheckpointException {
        return helper("shadowverbs");
    }

    private static Path helper(final String name) throws CheckpointException {
        final Path found = CriuCommand.findHelper(name);
        if (found == null) {
            throw new CheckpointException(name + " is not there: build the project again");
        }
        return found;
    }
}
