// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.io.IOException;
import java.util.concurrent.TimeUnit;

/**
 * The exchanges of a reattachment, over one link after another: a rank that loses its agent in the midst of one says the same
 * once more through the next link, as long as the attempt is the same. Of the checkpoint's thread.
 */
public final class WayBack {
    /** How often the coordinator is told that there is progress. */
    private static final long PROGRESS_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    private final long epoch;
    private final Connector connector;
    private RankLink link;
    private long said = System.nanoTime() - PROGRESS_NANOS;

    /** How a rank finds its agent. */
    public interface Connector {
        /**
         * Makes a new link, as a rank that reattaches; as long as there is no agent it goes on trying.
         *
         * @param before no longer used
         * @throws IOException when this rank takes no part any more: the message is the coordinator's
         */
        RankLink reconnect(RankLink before) throws IOException;
    }

    public WayBack(final RankLink link, final long epoch, final Connector connector) {
        this.link = link;
        this.epoch = epoch;
        this.connector = connector;
    }

    /** The link that is in use now. */
    public RankLink link() {
        return link;
    }

    /** Makes a new link after something that was not an exchange has failed. */
    public void reconnect() throws IOException {
        link = connector.reconnect(link);
    }

    /**
     * As {@link RankLink#exchange}.
     *
     * @throws CheckpointAborted all begin again with PUBLISHED, as another attempt
     * @throws IOException this rank takes no part any more
     */
    public Reply exchange(final Phase phase, final Contribution contribution) throws CheckpointAborted, IOException {
        for (;;) {
            try {
                return link.exchange(epoch, phase, 0, contribution);
            } catch (LinkLostException e) {
                final int attempt = link.attempt();
                reconnect();
                if (link.attempt() != attempt) {
                    throw new CheckpointAborted(epoch, true, e.getMessage());
                }
            }
        }
    }

    /** This rank works, and is not to be counted as late. A link that is lost is noticed at the next exchange. */
    public void progress(final Phase phase, final String doing) {
        final long now = System.nanoTime();
        if (now - said < PROGRESS_NANOS) {
            return;
        }
        said = now;
        try {
            link.progress(epoch, phase, 0, 0, doing);
        } catch (IOException e) {
            said = now; // nobody to tell
        }
    }
}
