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
 * @param open           what ranks have open that no image could hold otherwise
 * @param others         addresses of the job's other hosts, numeric
 */
public record FreezeRequest(
        List<ProcessRoot> roots,
        Set<Long> replacedPipes,
        Duration freezeDeadline,
        Duration saveDeadline,
        Progress progress,
        Open open,
        Set<String> others) {
    /**
     * What ranks have open. While they run they have links to this process and devices; when they are frozen they have devices, if
     * these stay open, and CRIU's plugin takes them ({@code native/restore-init/criu-devices.c}).
     *
     * @param links     pids on this host of the ranks that have links to this process
     * @param devices   pids on this host of the ranks that may have devices open
     * @param listeners where devices over TCP listen, on all hosts
     */
    public record Open(Set<Long> links, Set<Long> devices, Set<InetSocketAddress> listeners) {
        /** Nothing: all that can be closed is closed. */
        public static final Open NOTHING = new Open(Set.of(), Set.of(), Set.of());

        /** Of ranks that run. */
        public static Open running(final Set<Long> ranks, final Set<InetSocketAddress> listeners) {
            return new Open(ranks, ranks, listeners);
        }

        /** Of ranks whose devices stay open while they are saved. */
        public static Open devicesOf(final Set<Long> ranks) {
            return new Open(Set.of(), ranks, Set.of());
        }
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
                Open.NOTHING,
                Set.of());
    }

    /**
     * The same with what ranks have open.
     *
     * @param now what is open
     * @return the request
     */
    public FreezeRequest with(final Open now) {
        return new FreezeRequest(roots, replacedPipes, freezeDeadline, saveDeadline, progress, now, others);
    }

    /**
     * The same for a job that has other hosts.
     *
     * @param addresses theirs
     * @return the request
     */
    public FreezeRequest withOthers(final Set<String> addresses) {
        return new FreezeRequest(roots, replacedPipes, freezeDeadline, saveDeadline, progress, open, Set.copyOf(addresses));
    }
}
