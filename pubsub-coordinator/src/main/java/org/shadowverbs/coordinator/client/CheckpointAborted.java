// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/** The checkpoint that this exchange belongs to is given up; the job goes on running. */
public final class CheckpointAborted extends Exception {
    private static final long serialVersionUID = 1L;

    private final long epoch;
    private final boolean reattach;

    public CheckpointAborted(final long epoch, final boolean reattach, final String reason) {
        super(reason);
        this.epoch = epoch;
        this.reattach = reattach;
    }

    public long epoch() {
        return epoch;
    }

    /**
     * True when some rank has begun to detach, or was reattaching: then all ranks exchange
     * PUBLISHED to REPLAYED from the beginning. False: no rank has let go of anything, gates simply open again.
     */
    public boolean reattach() {
        return reattach;
    }
}
