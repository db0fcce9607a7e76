// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import java.lang.invoke.VarHandle;

/**
 * Threads of the application that sleep in a poll until something completes: {@code rest} in native/src/tcp/tcp_post.c. They
 * are woken once for all that was completed meanwhile.
 */
public final class Waiters {
    private final Posix posix;
    private final long bell;
    private boolean completed;
    private int count;

    /** @param bell address of the struct sv_tcp_doorbell */
    public Waiters(final Posix posix, final long bell) {
        this.posix = posix;
        this.bell = bell;
    }

    /** A completion is in its queue. */
    public void completed() {
        completed = true;
    }

    /**
     * Wakes who sleeps, and lets them run first where they share the processor with this thread: what they post goes out
     * together with what this thread has to send.
     */
    public void wake() {
        if (!completed) {
            return;
        }
        completed = false;
        // The index of a queue without a channel is stored without a fence.
        VarHandle.fullFence();
        if (Memory.volatileGet(bell + Host.BELL_WAITING) != 0) {
            Memory.volatileSet(bell + Host.BELL_COMPLETIONS, ++count);
            posix.futexWake(bell + Host.BELL_COMPLETIONS);
            posix.yield();
        }
    }
}
