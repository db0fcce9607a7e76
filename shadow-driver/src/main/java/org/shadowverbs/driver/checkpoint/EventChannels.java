// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import java.io.IOException;
import java.time.Duration;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;

/**
 * The files behind librdmacm's event channels, over one checkpoint: the agent holds them while the image is made. They are
 * the kernel's connection manager's, with all ids and connections of the process.
 */
final class EventChannels {
    private static final Duration DEADLINE = Duration.ofSeconds(30);

    private final Native library;
    private boolean detached;

    EventChannels(final Native library) {
        this.library = library;
    }

    /** @return what went wrong, or null */
    String detach(final RankLink link) {
        final int socket = library.cmSend();
        if (socket == -VerbsErrno.ENOENT) {
            return null;
        }
        if (socket < 0) {
            return "cannot give the files of librdmacm's event channels away: " + VerbsErrno.name(-socket);
        }
        try {
            link.hold(socket, DEADLINE);
        } catch (IOException e) {
            library.close(socket);
            return "the agent cannot hold the files of librdmacm's event channels: " + e.getMessage();
        }
        detached = true;
        final int err = library.cmDetach(socket);
        return err == 0 ? null : "cannot put stand-ins for librdmacm's event channels: " + VerbsErrno.name(err);
    }

    /** The agent holds files for this process. */
    boolean held() {
        return detached;
    }

    /** @param restored the process is another one, and nobody holds anything for it */
    void reattach(final RankLink link, final boolean restored) {
        if (!detached) {
            return;
        }
        detached = false;
        if (restored) {
            library.cmReattach(-1);
            if (library.cmLostInUse() > 0) {
                library.say("rdma_cm: the connections of this process go on, but the connection manager's ids did not survive "
                        + "the restart");
            }
            return;
        }
        final int socket = library.cmReceiver();
        String problem = socket < 0 ? VerbsErrno.name(-socket) : null;
        if (problem == null) {
            try {
                link.giveBack(socket, DEADLINE);
            } catch (IOException e) {
                problem = e.getMessage();
            }
        }
        final int err = library.cmReattach(socket);
        if (problem != null || err != 0) {
            library.say("rdma_cm: the connection manager's ids are lost: " + (problem != null ? problem
                    : VerbsErrno.name(err)));
        }
    }
}
