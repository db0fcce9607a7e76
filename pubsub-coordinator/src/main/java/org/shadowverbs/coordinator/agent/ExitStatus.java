// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import org.shadowverbs.coordinator.system.Libc;
import org.shadowverbs.coordinator.system.Processes;

/**
 * How a process has ended that is nobody's child here. While it is a zombie /proc says it (proc_pid_stat(5), exit_code); once it has
 * been waited for its pidfd does (PIDFD_GET_INFO of linux/pidfd.h, from Linux 6.15 on).
 */
final class ExitStatus {
    /** Nobody can say. */
    static final int UNKNOWN = -1;

    private static final int SIGNAL_BITS = 0x7f;
    private static final int KILLED_BY = 128;

    private ExitStatus() {
    }

    /**
     * Of a process that has ended.
     *
     * @param pidfd an open descriptor of it
     * @return 0 to 255, 128 and its signal, or {@link #UNKNOWN}
     */
    static int of(final long pid, final int pidfd) {
        final int zombie = ofZombie(pid);
        return zombie != UNKNOWN ? zombie : ofWait(Libc.exitCode(pidfd));
    }

    private static int ofZombie(final long pid) {
        try {
            return Processes.stat(pid, Processes.STATE).equals("Z")
                    ? ofWait(Integer.parseInt(Processes.stat(pid, Processes.EXIT_CODE))) : UNKNOWN;
        } catch (IOException | RuntimeException e) {
            return UNKNOWN; // it has been waited for
        }
    }

    /** As a shell has what wait(2) says. */
    private static int ofWait(final int code) {
        final int signal = code & SIGNAL_BITS;
        return code < 0 ? UNKNOWN : signal != 0 ? KILLED_BY + signal : code >> 8 & 0xff;
    }
}
