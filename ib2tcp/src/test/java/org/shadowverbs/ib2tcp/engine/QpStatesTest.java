// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.shadowverbs.bindings.verbs.verbs_h;

/** The way to RESET and ERR, as in the kernel's table (drivers/infiniband/core/verbs.c). */
class QpStatesTest {
    @Test
    void allButOneInResetCanBePutIntoError() {
        for (final int type : new int[] {QueuePair.RC, QueuePair.UC, QueuePair.UD, QueuePair.XRC_SEND, QueuePair.XRC_RECV}) {
            for (int from = QueuePair.RESET; from <= QueuePair.ERR; from++) {
                assertEquals(from != QueuePair.RESET, QpStates.allows(type, from, QueuePair.ERR, verbs_h.IBV_QP_STATE()));
                assertEquals(true, QpStates.allows(type, from, QueuePair.RESET, verbs_h.IBV_QP_STATE()));
                for (final int to : new int[] {QueuePair.RESET, QueuePair.ERR}) {
                    assertEquals(false, QpStates.allows(type, from, to, verbs_h.IBV_QP_STATE() | verbs_h.IBV_QP_PORT()));
                }
            }
        }
    }
}
