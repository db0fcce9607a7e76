// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.shadowverbs.coordinator.system.Libc;

/**
 * How a process has ended that is nobody's child here. While it is a zombie /proc says it (proc_pid_stat(5), exit_code); once it has
 * been waited for its pidfd does (PIDFD_GET_INFO of linux/pidfd.h, from Linux 6.15 on).
 */
final class ExitStatus {
    /** Nobody can say. */
    static final int UNKNOWN = -1;

    private static final int STATE_AFTER_NAME = 0;
    private static final int EXIT_CODE_AFTER_NAME = 49;
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
            final String stat = Files.readString(Path.of("/proc", Long.toString(pid), "stat"));
            final String[] fields = stat.substring(stat.lastIndexOf(')') + 2).strip().split(" ");
            return fields[STATE_AFTER_NAME].equals("Z") ? ofWait(Integer.parseInt(fields[EXIT_CODE_AFTER_NAME])) : UNKNOWN;
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
