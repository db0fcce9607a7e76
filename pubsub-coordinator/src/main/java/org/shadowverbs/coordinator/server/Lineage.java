// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

/**
 * The checkpoints, by their epochs, that the job as it runs now comes from. 0: there is none. Safe for use by several threads.
 *
 * @see org.shadowverbs.coordinator.manifest.Manifest#parent
 */
final class Lineage {
    private long last;
    private long restartedFrom;

    Lineage(final long last, final long restartedFrom) {
        this.last = last;
        this.restartedFrom = restartedFrom;
    }

    /** The one that it was restarted from, or has made last. */
    synchronized long last() {
        return last;
    }

    /** The one that its processes come from: the user has chosen it, and it is not to be removed while they run. */
    synchronized long restartedFrom() {
        return restartedFrom;
    }

    synchronized void made(final long epoch) {
        last = epoch;
    }

    synchronized void restarted(final long epoch) {
        last = epoch;
        restartedFrom = epoch;
    }
}
