// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import org.shadowverbs.bindings.verbs.verbs_h;

/** Which transitions a reliable connected queue pair makes, and with which attributes (IBTA volume 1, 11.2.5.2). */
final class QpStates {
    private static final int STATE = verbs_h.IBV_QP_STATE();
    private static final int CUR = verbs_h.IBV_QP_CUR_STATE();
    private static final int ACCESS = verbs_h.IBV_QP_ACCESS_FLAGS();
    private static final int PKEY = verbs_h.IBV_QP_PKEY_INDEX();
    private static final int PORT = verbs_h.IBV_QP_PORT();
    private static final int TIMER = verbs_h.IBV_QP_MIN_RNR_TIMER();
    private static final int MIGRATION = verbs_h.IBV_QP_PATH_MIG_STATE();
    private static final int AT_RTR = verbs_h.IBV_QP_AV() | verbs_h.IBV_QP_PATH_MTU() | verbs_h.IBV_QP_DEST_QPN()
            | verbs_h.IBV_QP_RQ_PSN() | verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC() | TIMER;
    private static final int AT_RTS = verbs_h.IBV_QP_TIMEOUT() | verbs_h.IBV_QP_RETRY_CNT()
            | verbs_h.IBV_QP_RNR_RETRY() | verbs_h.IBV_QP_SQ_PSN() | verbs_h.IBV_QP_MAX_QP_RD_ATOMIC();

    /** From, to, required, allowed besides. To RESET and ERR one may go from anywhere, with nothing. */
    private static final int[] TABLE = {
        QueuePair.RESET, QueuePair.INIT, PKEY | PORT | ACCESS, 0,
        QueuePair.INIT, QueuePair.INIT, 0, PKEY | PORT | ACCESS,
        QueuePair.INIT, QueuePair.RTR, AT_RTR, ACCESS | PKEY,
        QueuePair.RTR, QueuePair.RTS, AT_RTS, CUR | ACCESS | TIMER | MIGRATION,
        QueuePair.RTS, QueuePair.RTS, 0, CUR | ACCESS | TIMER | MIGRATION,
        QueuePair.RTS, QueuePair.SQD, 0, verbs_h.IBV_QP_EN_SQD_ASYNC_NOTIFY(),
        QueuePair.SQD, QueuePair.RTS, 0, CUR | ACCESS | TIMER | MIGRATION,
        QueuePair.SQD, QueuePair.SQD, 0, PKEY | ACCESS | TIMER | MIGRATION | verbs_h.IBV_QP_TIMEOUT()
            | verbs_h.IBV_QP_RETRY_CNT() | verbs_h.IBV_QP_RNR_RETRY() | verbs_h.IBV_QP_MAX_QP_RD_ATOMIC(),
    };

    private QpStates() {
    }

    static boolean allows(final int from, final int to, final int mask) {
        final int rest = mask & ~STATE;
        if (to == QueuePair.RESET || to == QueuePair.ERR) {
            return (rest & ~CUR) == 0;
        }
        for (int i = 0; i < TABLE.length; i += 4) {
            if (TABLE[i] == from && TABLE[i + 1] == to) {
                return (rest & TABLE[i + 2]) == TABLE[i + 2] && (rest & ~(TABLE[i + 2] | TABLE[i + 3])) == 0;
            }
        }
        return false;
    }
}
