// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/**
 * Who a rank is.
 *
 * @param uid made up once by the process, at random, and kept over images: it is the rank's identity
 * @param pid the process as it sees itself; in a restored job the agent sees it under another number
 * @param treeRootPid {@code SHADOWVERBS_TREE}: the process that was launched, whose descendant this one is
 * @param program for messages and status
 * @param epoch the last epoch this rank took part in, 0 at first
 * @param writes a descriptor of the process by which its writes can be counted, open until it is welcomed; -1: it has none
 */
public record RankHello(String uid, long pid, long treeRootPid, String program, long epoch, State state, int writes) {
    public enum State {
        /** Running with open gates: a new process, or one whose agent was lost outside a checkpoint. */
        FRESH,
        /** Detached, and now on the way back from a checkpoint, an abort or a restart. */
        REATTACHING
    }
}
