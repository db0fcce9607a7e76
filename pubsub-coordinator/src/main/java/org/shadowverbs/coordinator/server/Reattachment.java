// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.MemberState;

/** The one way back to work, for resume, abort and restart. */
final class Reattachment {
    private static final Duration THAW_DEADLINE = Duration.ofSeconds(60);

    private final Job job;
    private final Duration deadline;

    Reattachment(final Job job, final Duration deadline) {
        this.job = job;
        this.deadline = deadline;
    }

    /**
     * Thaws all hosts, tells every rank the outcome, and leads the ranks through the reattachment.
     *
     * @param outcome "resumed" or "aborted"
     * @param reattach false when no rank has let go of anything: then they only say that they are done
     */
    void run(final String outcome, final String why, final boolean reattach) throws Stopped {
        final long epoch = job.epoch();
        final int attempt = job.nextAttempt();
        // The agents pass it to every rank: through its link while that is open, else through its verdict pipe.
        job.tellAgents("THAW", new Thaw(epoch, attempt, reattach ? outcome : "released", why, false));
        CheckpointRun.requireAll(job.awaitAgents("THAW", THAW_DEADLINE));
        if (reattach) {
            exchanges();
        } else {
            job.awaitState(MemberState.RUNNING, "opening its gate", deadline);
        }
    }

    /** PUBLISHED to REPLAYED, and until every rank is done. */
    void exchanges() throws Stopped {
        for (final Phase phase : Phase.values()) {
            if (phase.reattaches()) {
                job.complete(phase, 0, deadline);
            }
        }
        job.awaitState(MemberState.RUNNING, "opening its gate", deadline);
    }
}
