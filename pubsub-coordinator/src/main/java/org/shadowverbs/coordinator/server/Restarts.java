// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.Outbox;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartEnd;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartJoin;

/** The connections of restarts that share a checkpoint among several hosts. One such restart goes on at a time. */
final class Restarts {
    /** A person may have to walk to the next terminal. */
    private static final Duration GATHERING = Duration.ofMinutes(10);
    /** Every image is read once before anything is restored. */
    private static final Duration VERIFYING = Duration.ofMinutes(30);

    private static final long SENDING_MILLIS = 2_000;

    private final Job job;
    private final ScheduledExecutorService timer;
    private RestartGathering gathering;

    Restarts(final Job job, final ScheduledExecutorService timer) {
        this.job = job;
        this.timer = timer;
    }

    /** Serves one host's connection until the job runs, or it is known that it will not. */
    void serve(final RestartJoin join, final FrameChannel channel) throws InterruptedException {
        final Outbox link = new Outbox(channel, "restart on " + join.host());
        final RestartGathering mine;
        try {
            mine = join(join, link);
        } catch (ProtocolException e) {
            link.send(new RestartEnd(e.getMessage()));
            link.closeAfterSending();
            link.join(SENDING_MILLIS);
            return;
        }
        String why = "its restart was lost before the job ran";
        try {
            final Message message = channel.read();
            if (!(message instanceof RestartEnd end)) {
                throw new ProtocolException("message of type " + message.type() + " from a restart");
            }
            why = end.problem();
        } catch (ProtocolException e) {
            why = e.getMessage();
        } catch (IOException e) {
            job.log().add("restart on host " + join.host() + ": " + e);
        } finally {
            link.close();
            left(mine, link, why);
        }
    }

    private synchronized RestartGathering join(final RestartJoin join, final Outbox link) throws ProtocolException {
        if (job.locked(() -> !job.ranks().isEmpty() && gathering == null)) {
            throw new ProtocolException("job " + job.name() + " has ranks that run; a restart needs a coordinator"
                    + " without any");
        }
        final boolean first = gathering == null;
        final RestartGathering now = first ? new RestartGathering(join) : gathering;
        now.join(join, link);
        gathering = now;
        job.log().add("restart of " + join.checkpoint() + ": host " + join.host() + " has come");
        if (now.isOver()) {
            gathering = null;
        } else if (now.isDealt()) {
            timer.schedule(() -> late(now, true, VERIFYING), VERIFYING.toMillis(), TimeUnit.MILLISECONDS);
        } else if (first) {
            timer.schedule(() -> late(now, false, GATHERING), GATHERING.toMillis(), TimeUnit.MILLISECONDS);
        }
        return now;
    }

    private synchronized void late(final RestartGathering which, final boolean dealt, final Duration deadline) {
        if (gathering == which && which.isDealt() == dealt && !which.haveAllArrived()) {
            end(which.waitingFor() + " within " + Sizes.deadline(deadline));
        }
    }

    private synchronized void left(final RestartGathering which, final Outbox link, final String why) {
        if (which.isOver()) {
            return;
        }
        which.left(link, why);
        if (which.isOver() && gathering == which) {
            gathering = null;
            job.epoch().stopRestart(why);
        }
    }

    /** Whether an agent that brings restored members may join now. */
    synchronized boolean expects(final AgentHello hello) {
        return gathering == null || gathering.expects(hello);
    }

    /** An agent has brought restored members. @return whether all have come that are to restore something */
    synchronized boolean arrived(final AgentHello hello) {
        if (gathering == null) {
            return true;
        }
        gathering.arrived(hello);
        return gathering.haveAllArrived();
    }

    /** The job runs, or, with a text that is not empty, it does not. */
    synchronized void end(final String problem) {
        if (gathering != null) {
            gathering.end(problem);
            gathering = null;
            if (!problem.isEmpty()) {
                job.epoch().stopRestart(problem);
            }
        }
    }
}
