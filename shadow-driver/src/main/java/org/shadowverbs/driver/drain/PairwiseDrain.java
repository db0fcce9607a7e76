// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.shadowverbs.coordinator.client.RankLink;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.nativelib.Native;

/**
 * Finishes a drain that was broken off, for example because a rank died. There are no rounds of all ranks any more: the two
 * ends of each connection read each other's bookmarks until both are settled. Without it, requests that had been sent but
 * not confirmed when the checkpoint was given up would be sent again.
 */
public final class PairwiseDrain {
    private static final Duration LOOKUP_DEADLINE = Duration.ofSeconds(30);
    private static final long PAUSE_NANOS = 1_000_000;

    private final Native library;
    private final Backend backend;
    private final Model model;
    private final List<Connection> connections;
    private final Set<Integer> apart;

    /** @param apart ranks that take no part: what had come to their queues is not known */
    public PairwiseDrain(final Native library, final Backend backend, final Model model,
            final List<Connection> connections, final Set<Integer> apart) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.connections = connections;
        this.apart = apart;
    }

    /** Until all are settled, or the time is over: what is in doubt then reports an error. */
    public void run(final RankLink link, final long epoch, final int seconds) throws Refusal, IOException {
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        final Drain drain = new Drain(library, backend, model, connections, link.rank(),
                RankLink.OF_EPOCH + "p/" + epoch + '/' + link.attempt() + '/');
        try {
            failWhatNobodyKnows();
            Map<String, byte[]> found = new HashMap<String, byte[]>();
            for (;;) {
                drain.round(found);
                final Map<String, byte[]> values = drain.published();
                if (!values.isEmpty()) {
                    link.publish(values);
                }
                if (drain.settledOnBothSides()) {
                    break;
                }
                if (System.nanoTime() > end) {
                    failUnsettled();
                    break;
                }
                LockSupport.parkNanos(PAUSE_NANOS);
                found = link.lookup(drain.wanted(), LOOKUP_DEADLINE);
            }
            drain.finish(seconds);
        } finally {
            drain.close();
        }
    }

    /** What has come to shared receive queues, of XRC, of ranks that take no part is in doubt. */
    private void failWhatNobodyKnows() {
        for (final Connection c : connections) {
            if (c.crossing != null && c.crossing.others.stream().anyMatch(other -> apart.contains(other.rank()))) {
                doubt(c, "has named shared receive queues of a process that is not there");
            }
        }
    }

    private void failUnsettled() {
        for (final Connection c : connections) {
            if (!c.settled()) {
                doubt(c, "still waits for " + c.decision.why);
            }
        }
    }

    private void doubt(final Connection c, final String why) {
        library.say(c.name() + ' ' + why + "; what it has sent is in doubt, and it will report an error");
        c.end.failAfterwards = true;
    }
}
