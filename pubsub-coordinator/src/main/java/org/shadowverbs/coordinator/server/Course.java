// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.shadowverbs.coordinator.server.Course.Effect.AGAIN;
import static org.shadowverbs.coordinator.server.Course.Effect.MISSED;
import static org.shadowverbs.coordinator.server.Course.Effect.NONE;
import static org.shadowverbs.coordinator.server.Course.Effect.STOPS;

/**
 * What goes on in the job, and, for each, what becomes of it when something happens to one of those who take part. This table
 * is all there is to know about it; {@link Stage} has the steps.
 */
enum Course {
    //          a rank    dies      fails     is late   its agent stays     a step    fails     a rank
    //          ends                                    is lost   away      fails     for now   joins
    /** Nothing goes on. */
    IDLE(       NONE,     NONE,     NONE,     NONE,     NONE,     NONE,     NONE,     NONE,     NONE),
    /** A checkpoint, until its images are written, or up to its commit if the job ends: it holds all ranks or there is none. */
    CHECKPOINT( AGAIN,    STOPS,    STOPS,    STOPS,    STOPS,    STOPS,    STOPS,    AGAIN,    AGAIN),
    /** The way back to work, of a checkpoint that is safe, or was given up: as many as can go on do. */
    BACK(       MISSED,   MISSED,   MISSED,   AGAIN,    NONE,     MISSED,   NONE,     NONE,     NONE),
    /** The ranks of a checkpoint run again, and its images are made safe: that concerns nobody but the agents that have them. */
    SEALING(    NONE,     NONE,     NONE,     NONE,     STOPS,    NONE,     STOPS,    STOPS,    NONE),
    /** All processes are ended: none of them is missed. */
    ENDING(     NONE,     NONE,     NONE,     NONE,     NONE,     NONE,     NONE,     NONE,     NONE),
    /** The way back after a restart, or of a recovery: half a job is not what was asked for. */
    RESTART(    MISSED,   STOPS,    STOPS,    STOPS,    STOPS,    STOPS,    STOPS,    STOPS,    NONE);

    /** What may happen to somebody who takes part. */
    enum Event {
        ENDED, DIED, FAILED, LATE, AGENT_LOST, AGENT_STAYS_AWAY, STEP_FAILED, STEP_FAILED_FOR_NOW, JOINED
    }

    enum Effect {
        /** It goes on, and who it happened to is still waited for. */
        NONE,
        /** It goes on without that rank. */
        MISSED,
        /** It is tried again: a checkpoint with those that are there then, a way back as a new attempt of all. */
        AGAIN,
        /** It has failed. */
        STOPS
    }

    private final Effect[] effects;

    /** @param effects of the events, in their order */
    Course(final Effect... effects) {
        this.effects = effects;
    }

    Effect of(final Event event) {
        return effects[event.ordinal()];
    }
}
