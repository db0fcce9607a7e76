// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.system;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The scheduler's group of this process's session. A kernel that has such groups gives each the same share of the processors,
 * whatever the nice values in it: a service of one thread beside eight programs that poll, each in a session of its own, gets a
 * ninth, and what a checkpoint does while the programs run takes nine times as long. See sched(7), "The autogroup feature".
 */
public final class Autogroup {
    private static final Path SELF = Path.of("/proc/self");
    /** As a nice value: 70 times the weight of a group that nobody has changed. */
    private static final String FIRST = "-19";

    private Autogroup() {
    }

    /**
     * Lets this process's session come before others. Only where it is a session of services alone: this process leads it, or who did
     * has ended, as the starter of a daemon does. Else, where the kernel has no such groups or has this process in a control group
     * with processors of its own, and for an ordinary user, who may not ask for that, nothing is changed.
     */
    public static void comeFirst() {
        try {
            final long leader = Long.parseLong(Processes.stat(SELF.resolve("stat"), Processes.SESSION));
            if (leader == 0 || leader != ProcessHandle.current().pid() && Files.exists(Path.of("/proc", Long.toString(leader)))) {
                return; // zero: it leads from outside of the pid namespace
            }
            Files.writeString(SELF.resolve("autogroup"), FIRST);
        } catch (IOException e) {
            System.getLogger(Autogroup.class.getName()).log(System.Logger.Level.DEBUG, "autogroup: {0}", e.getMessage());
        }
    }
}
