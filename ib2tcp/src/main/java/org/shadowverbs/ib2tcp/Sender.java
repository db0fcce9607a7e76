// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/** One that has frames to send over a link: half a queue pair. Senders of a link take turns, a frame each. */
abstract class Sender {
    /** In the link's queue. */
    Sender next;
    boolean queued;

    /** Adds at most one frame. @return whether there is more */
    abstract boolean fill(Batch batch);
}
