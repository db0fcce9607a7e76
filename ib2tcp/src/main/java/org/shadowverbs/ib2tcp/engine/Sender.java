// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

/** One that has frames to send over a link: half a queue pair. Senders of a link take turns, a frame each. */
public abstract class Sender {
    /** In the link's queue. */
    Sender next;
    public boolean queued;

    /** Adds at most one frame. @return whether there is more */
    public abstract boolean fill(Batch batch);
}
