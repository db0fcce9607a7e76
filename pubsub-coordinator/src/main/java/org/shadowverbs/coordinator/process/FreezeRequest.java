// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Set;

/**
 * What to freeze and save.
 *
 * @param roots          the processes that were launched
 * @param replacedPipes  inodes of pipes whose other end is held outside, by the agent, and which get a new other end at
 *                       restart: the pipe that tells a rank what happened
 * @param freezeDeadline how long freezing may take
 * @param saveDeadline   how long saving may go on without anything being written or read
 * @param progress       of saving
 * @param attached       what is open now and will be closed before the processes are frozen
 */
public record FreezeRequest(
        List<ProcessRoot> roots,
        Set<Long> replacedPipes,
        Duration freezeDeadline,
        Duration saveDeadline,
        Progress progress,
        Attached attached) {
    /**
     * What ranks have open while they run, and give back before they are frozen: devices, and the links to this process.
     *
     * @param ranks     their pids on this host
     * @param listeners where devices over TCP listen, on all hosts
     */
    public record Attached(Set<Long> ranks, Set<InetSocketAddress> listeners) {
        /** Nothing: all that can be closed is closed. */
        public static final Attached NOTHING = new Attached(Set.of(), Set.of());
    }

    /**
     * A request for processes that have given back what cannot be saved.
     *
     * @param roots         the processes that were launched
     * @param replacedPipes inodes of pipes that get a new other end at restart
     * @param deadline      for freezing, and for saving
     * @param progress      of saving
     * @return the request
     */
    public static FreezeRequest of(final List<ProcessRoot> roots, final Set<Long> replacedPipes,
            final Duration deadline, final Progress progress) {
        return new FreezeRequest(
                List.copyOf(roots),
                Set.copyOf(replacedPipes),
                deadline,
                deadline,
                progress,
                Attached.NOTHING);
    }

    /**
     * The same for processes that run.
     *
     * @param running what they will have closed
     * @return the request
     */
    public FreezeRequest whileAttached(final Attached running) {
        return new FreezeRequest(roots, replacedPipes, freezeDeadline, saveDeadline, progress, running);
    }
}
