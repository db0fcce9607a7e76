// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.protocol.HostMessages.StepFailed;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;

/**
 * The one way back to work, for resume, abort and restart. Behind their closed gates the ranks can do nothing but wait for it:
 * so it ends only when each has opened its gate, or is given up, which it is told when it comes.
 */
final class Reattachment {
    /** A rank that is silent for so many deadlines one after the other is given up. */
    private static final int MOST_TIMES_LATE = 10;
    private static final int MOST_THAWS = 3;

    private final Epoch epoch;
    private final Report report;
    private String thawProblem = "";

    /** How far the ranks have let go of their devices. */
    enum Way {
        /** Not at all, and no connection was touched: they hear it through their links. */
        UNTOUCHED,
        /** They have kept them: they hear the outcome as all do, and open their gates. */
        ATTACHED,
        /** They make everything anew, together. */
        DETACHED;

        static Way of(final Epoch epoch) {
            return !epoch.drainBegun() ? UNTOUCHED : epoch.attached() ? ATTACHED : DETACHED;
        }
    }

    Reattachment(final Epoch epoch, final Report report) {
        this.epoch = epoch;
        this.report = report;
    }

    /**
     * Thaws all hosts, tells every rank the outcome, and leads the ranks through the reattachment. When one is late all begin
     * again, as a new attempt.
     *
     * @param outcome "resumed" or "aborted"
     * @param way how the ranks come back
     * @return what went wrong: of each rank that did not come through, and of processes that could not be thawed
     * @throws Stopped it was interrupted
     */
    List<String> run(final String outcome, final String why, final Way way) throws Stopped {
        final Map<Integer, String> before = epoch.lost();
        for (int times = 1;; times++) {
            try {
                thaw(way == Way.UNTOUCHED ? "released" : outcome, why);
                if (way == Way.DETACHED) {
                    exchanges();
                }
                break;
            } catch (Stopped e) {
                late(e, times, "the way back begins again", " was given up: it was silent for " + times
                        + " times the deadline");
            }
        }
        open();
        for (int tries = 0; tries < MOST_THAWS && !thawProblem.isEmpty(); tries++) {
            thaw(outcome, why); // what is still stopped holds no rank that was waited for
        }
        final List<String> problems = new ArrayList<>();
        epoch.lost().forEach((rank, what) -> {
            if (!what.equals(before.get(rank))) {
                problems.add(what);
            }
        });
        if (!thawProblem.isEmpty()) {
            problems.add(thawProblem);
        }
        return problems;
    }

    /** PUBLISHED to REPLAYED: from here on there is no other attempt. */
    void exchanges() throws Stopped {
        for (final Phase phase : Phase.values()) {
            if (phase.reattaches()) {
                epoch.complete(phase, 0);
            }
        }
    }

    /** Until every gate is open. */
    void open() throws Stopped {
        for (int times = 1;; times++) {
            try {
                epoch.awaitState(Stage.OPENING, MemberState.RUNNING);
                return;
            } catch (Stopped e) {
                late(e, times, "it is waited for", " has not said that its gate is open, for " + times
                        + " times the deadline");
            }
        }
    }

    /** The agents pass the outcome to every rank: through its link while that is open, else through its verdict pipe. */
    private void thaw(final String outcome, final String why) throws Stopped {
        final int attempt = epoch.nextAttempt();
        epoch.tellAgents(Stage.THAW, new Thaw(epoch.number(), attempt, outcome, why, false));
        thawProblem = "";
        try {
            // Whose processes are still stopped will be late, and then this is tried again.
            for (final Map.Entry<AgentSession, Message> e : epoch.awaitAgents().entrySet()) {
                if (e.getValue() instanceof StepFailed f) {
                    thawProblem = f.step() + " failed on host " + e.getKey().host() + ": " + f.reason();
                }
            }
        } catch (Stopped e) {
            throwIfInterrupted(e);
            thawProblem = e.getMessage();
        }
    }

    private void late(final Stopped e, final int times, final String then, final String atLast) throws Stopped {
        if (!e.again()) {
            throw e;
        }
        if (times % MOST_TIMES_LATE == 0) {
            epoch.miss(e.late(), atLast);
            report.line(e.getMessage() + ", " + times + " times; the others go on");
        } else {
            report.line(e.getMessage() + "; " + then);
        }
    }

    private static void throwIfInterrupted(final Stopped e) throws Stopped {
        if (Thread.currentThread().isInterrupted()) {
            throw e;
        }
    }
}
