// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.MemberState;

/** The one way back to work, for resume, abort and restart. */
final class Reattachment {
    private static final Duration THAW_DEADLINE = Duration.ofSeconds(60);

    private final Epoch epoch;
    private final Duration deadline;

    Reattachment(final Epoch epoch, final Duration deadline) {
        this.epoch = epoch;
        this.deadline = deadline;
    }

    /**
     * Thaws all hosts, tells every rank the outcome, and leads the ranks through the reattachment.
     *
     * @param outcome "resumed" or "aborted"
     * @param reattach false when no rank has let go of anything: then they only say that they are done
     */
    void run(final String outcome, final String why, final boolean reattach) throws Stopped {
        final int attempt = epoch.nextAttempt();
        // The agents pass it to every rank: through its link while that is open, else through its verdict pipe.
        epoch.tellAgents("THAW", new Thaw(epoch.number(), attempt, reattach ? outcome : "released", why, false));
        CheckpointRun.requireAll(epoch.awaitAgents("THAW", THAW_DEADLINE));
        if (reattach) {
            exchanges();
        } else {
            epoch.awaitState(MemberState.RUNNING, "opening its gate", deadline);
        }
    }

    /** PUBLISHED to REPLAYED, and until every rank is done. */
    void exchanges() throws Stopped {
        for (final Phase phase : Phase.values()) {
            if (phase.reattaches()) {
                epoch.complete(phase, 0, deadline);
            }
        }
        epoch.awaitState(MemberState.RUNNING, "opening its gate", deadline);
    }
}
