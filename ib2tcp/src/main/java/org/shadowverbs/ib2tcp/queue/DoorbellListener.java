// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.queue;

/** What has a bit in the doorbell: a queue pair, or a shared receive queue. */
public interface DoorbellListener {
    /** Something was posted that the engine is to be told of. */
    void onDoorbell();
}
