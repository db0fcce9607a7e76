// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import org.shadowverbs.coordinator.client.Phase;

/**
 * The steps of a checkpoint, of the way back and of a restart, in their order: who is waited for in each, and how long.
 * What it means when one of them fails is the {@link Course}'s.
 */
enum Stage {
    //               waits for        for                          goes on with
    RUNNING(         Awaited.NOBODY,  Limit.NONE),
    // A checkpoint.
    PRE_COPY(        Awaited.AGENTS,  Limit.STEP_SILENCE),      // ANNOUNCE; if it was asked for
    PREPARE(         Awaited.AGENTS,  Limit.UNHURRIED),         // ANNOUNCE
    ANNOUNCE(        Awaited.RANKS,   Limit.SILENCE),           // CLOSE
    CLOSE(           Awaited.RANKS,   Limit.SILENCE),           // PAIRED, or DRAIN when nothing has changed since ANNOUNCE
    PAIRED(          Awaited.RANKS,   Limit.SILENCE),           // DRAIN
    DRAIN(           Awaited.RANKS,   Limit.PHASE),             // DETACH, when all are settled
    DETACH(          Awaited.RANKS,   Limit.SILENCE),           // FREEZE, when all links are closed
    FREEZE(          Awaited.AGENTS,  Limit.STEP_SILENCE),      // SAVE, or HOLD: connections between hosts may wait to be accepted
    HOLD(            Awaited.AGENTS,  Limit.STEP_SILENCE),      // ACCEPT, or SAVE when none does
    ACCEPT(          Awaited.AGENTS,  Limit.STEP_SILENCE),      // SAVE, when all have been told
    SAVE(            Awaited.AGENTS,  Limit.STEP_SILENCE),      // THAW, or SEAL when the job ends with it
    SEAL(            Awaited.AGENTS,  Limit.STEP_SILENCE),      // COMMIT; the job runs, or waits for its end
    COMMIT(          Awaited.NOBODY,  Limit.NONE),              // KILL or RUNNING
    KILL(            Awaited.AGENTS,  Limit.of(30)),            // RUNNING
    // A recovery; it goes on as a restart.
    END(             Awaited.AGENTS,  Limit.of(60)),            // RECOVER, or RUNNING when nothing is to come back
    RECOVER(         Awaited.AGENTS,  Limit.STEP_SILENCE),      // RESTORE
    // The way back. It begins again with THAW when somebody is late.
    THAW(            Awaited.AGENTS,  Limit.of(60)),            // PUBLISHED, or OPENING when nobody has let go of anything
    RESTORE(         Awaited.AGENTS,  Limit.STEP_SILENCE),      // RELEASE; in a restart, in place of THAW
    RELEASE(         Awaited.AGENTS,  Limit.STEP_SILENCE),      // PUBLISHED
    PUBLISHED(       Awaited.RANKS,   Limit.SILENCE),           // CONNECTED
    CONNECTED(       Awaited.RANKS,   Limit.SILENCE),           // RECEIVES_POSTED
    RECEIVES_POSTED( Awaited.RANKS,   Limit.SILENCE),           // REPLAYED
    REPLAYED(        Awaited.RANKS,   Limit.SILENCE),           // OPENING
    OPENING(         Awaited.RANKS,   Limit.SILENCE);           // RUNNING

    enum Awaited {
        NOBODY, RANKS, AGENTS
    }

    /** How long a stage waits. */
    record Limit(Kind kind, Duration time) {
        enum Kind {
            /** As long as each that is waited for gives a sign of life within the deadline of a phase. */
            SILENCE,
            /**
             * As long as each agent tells within the deadline of a phase, and {@link #time} more, that the step goes on: one that
             * gives it up knows better why, and is to be the first.
             */
            STEP_SILENCE,
            /** The deadline of a phase for all of it. */
            PHASE,
            /** So long. */
            FIXED,
            NONE
        }

        static final Limit NONE = new Limit(Kind.NONE, Duration.ZERO);
        static final Limit SILENCE = new Limit(Kind.SILENCE, Duration.ZERO);
        static final Limit STEP_SILENCE = new Limit(Kind.STEP_SILENCE, Duration.ofSeconds(15));
        /** Of a step that tells of nothing, while programs run on, and may leave an agent little of the processors. */
        static final Limit UNHURRIED = new Limit(Kind.STEP_SILENCE, Duration.ofSeconds(240));
        static final Limit PHASE = new Limit(Kind.PHASE, Duration.ZERO);

        static Limit of(final int seconds) {
            return new Limit(Kind.FIXED, Duration.ofSeconds(seconds));
        }
    }

    final Awaited awaited;
    final Limit limit;

    Stage(final Awaited awaited, final Limit limit) {
        this.awaited = awaited;
        this.limit = limit;
    }

    /** That of an exchange. */
    static Stage of(final Phase phase) {
        return valueOf(phase.name());
    }

    /** As the agents call the step: a restart's is told by a THAW, too, and so is the end of a job. */
    String step() {
        return this == RESTORE || this == KILL ? THAW.name() : name();
    }

    /** As messages and status name it. */
    @Override
    public String toString() {
        return switch (this) {
            case RUNNING -> "running";
            case OPENING -> "opening its gate";
            default -> name();
        };
    }
}
