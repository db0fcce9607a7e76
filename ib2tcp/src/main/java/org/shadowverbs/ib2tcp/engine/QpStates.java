// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import org.shadowverbs.bindings.verbs.verbs_h;

/** Which transitions a queue pair makes, and with which attributes (IBTA volume 1, 11.2.5.2). */
public final class QpStates {
    private static final int STATE = verbs_h.IBV_QP_STATE();
    private static final int CUR = verbs_h.IBV_QP_CUR_STATE();
    private static final int ACCESS = verbs_h.IBV_QP_ACCESS_FLAGS();
    private static final int PKEY = verbs_h.IBV_QP_PKEY_INDEX();
    private static final int PORT = verbs_h.IBV_QP_PORT();
    private static final int QKEY = verbs_h.IBV_QP_QKEY();
    private static final int TIMER = verbs_h.IBV_QP_MIN_RNR_TIMER();
    private static final int MIGRATION = verbs_h.IBV_QP_PATH_MIG_STATE();
    private static final int NOTIFY = verbs_h.IBV_QP_EN_SQD_ASYNC_NOTIFY();
    private static final int PATH = verbs_h.IBV_QP_AV() | verbs_h.IBV_QP_PATH_MTU() | verbs_h.IBV_QP_DEST_QPN()
            | verbs_h.IBV_QP_RQ_PSN();
    private static final int PSN = verbs_h.IBV_QP_SQ_PSN();
    private static final int RETRIES = verbs_h.IBV_QP_TIMEOUT() | verbs_h.IBV_QP_RETRY_CNT()
            | verbs_h.IBV_QP_RNR_RETRY() | verbs_h.IBV_QP_MAX_QP_RD_ATOMIC();

    /**
     * For each transition: from, to, required, allowed besides. RESET can be reached from anywhere, and ERR from anywhere but RESET,
     * with nothing.
     */
    private static final int[] RC = {
        QueuePair.RESET, QueuePair.INIT, PKEY | PORT | ACCESS, 0,
        QueuePair.INIT, QueuePair.INIT, 0, PKEY | PORT | ACCESS,
        QueuePair.INIT, QueuePair.RTR, PATH | verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC() | TIMER, ACCESS | PKEY,
        QueuePair.RTR, QueuePair.RTS, RETRIES | PSN, CUR | ACCESS | TIMER | MIGRATION,
        QueuePair.RTS, QueuePair.RTS, 0, CUR | ACCESS | TIMER | MIGRATION,
        QueuePair.RTS, QueuePair.SQD, 0, NOTIFY,
        QueuePair.SQD, QueuePair.RTS, 0, CUR | ACCESS | TIMER | MIGRATION,
        QueuePair.SQD, QueuePair.SQD, 0, PKEY | ACCESS | TIMER | MIGRATION | RETRIES,
    };
    private static final int[] UC = {
        QueuePair.RESET, QueuePair.INIT, PKEY | PORT | ACCESS, 0,
        QueuePair.INIT, QueuePair.INIT, 0, PKEY | PORT | ACCESS,
        QueuePair.INIT, QueuePair.RTR, PATH, ACCESS | PKEY,
        QueuePair.RTR, QueuePair.RTS, PSN, CUR | ACCESS | MIGRATION,
        QueuePair.RTS, QueuePair.RTS, 0, CUR | ACCESS | MIGRATION,
        QueuePair.RTS, QueuePair.SQD, 0, NOTIFY,
        QueuePair.SQD, QueuePair.RTS, 0, CUR | ACCESS | MIGRATION,
        QueuePair.SQD, QueuePair.SQD, 0, PKEY | ACCESS | MIGRATION,
        QueuePair.SQE, QueuePair.RTS, 0, CUR | ACCESS,
    };
    private static final int[] XRC_SEND = {
        QueuePair.RESET, QueuePair.INIT, PKEY | PORT | ACCESS, 0,
        QueuePair.INIT, QueuePair.INIT, 0, PKEY | PORT | ACCESS,
        QueuePair.INIT, QueuePair.RTR, PATH, ACCESS | PKEY,
        QueuePair.RTR, QueuePair.RTS, RETRIES | PSN, CUR | ACCESS | MIGRATION,
        QueuePair.RTS, QueuePair.RTS, 0, CUR | ACCESS | MIGRATION,
        QueuePair.RTS, QueuePair.SQD, 0, NOTIFY,
        QueuePair.SQD, QueuePair.RTS, 0, CUR | ACCESS | MIGRATION,
        QueuePair.SQD, QueuePair.SQD, 0, PKEY | ACCESS | MIGRATION | RETRIES,
    };
    private static final int[] XRC_RECV = {
        QueuePair.RESET, QueuePair.INIT, PKEY | PORT | ACCESS, 0,
        QueuePair.INIT, QueuePair.INIT, 0, PKEY | PORT | ACCESS,
        QueuePair.INIT, QueuePair.RTR, PATH | verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC() | TIMER, ACCESS | PKEY,
        QueuePair.RTR, QueuePair.RTS, verbs_h.IBV_QP_TIMEOUT() | PSN, CUR | ACCESS | TIMER | MIGRATION,
        QueuePair.RTS, QueuePair.RTS, 0, CUR | ACCESS | TIMER | MIGRATION,
        QueuePair.RTS, QueuePair.SQD, 0, NOTIFY,
        QueuePair.SQD, QueuePair.RTS, 0, CUR | ACCESS | TIMER | MIGRATION,
        QueuePair.SQD, QueuePair.SQD, 0, PKEY | ACCESS | TIMER | MIGRATION | verbs_h.IBV_QP_TIMEOUT(),
    };
    private static final int[] UD = {
        QueuePair.RESET, QueuePair.INIT, PKEY | PORT | QKEY, 0,
        QueuePair.INIT, QueuePair.INIT, 0, PKEY | PORT | QKEY,
        QueuePair.INIT, QueuePair.RTR, 0, PKEY | QKEY,
        QueuePair.RTR, QueuePair.RTS, PSN, CUR | QKEY,
        QueuePair.RTS, QueuePair.RTS, 0, CUR | QKEY,
        QueuePair.RTS, QueuePair.SQD, 0, NOTIFY,
        QueuePair.SQD, QueuePair.RTS, 0, CUR | QKEY,
        QueuePair.SQD, QueuePair.SQD, 0, PKEY | QKEY,
        QueuePair.SQE, QueuePair.RTS, 0, CUR | QKEY,
    };

    private QpStates() {
    }

    /** What a queue pair of XRC has no half for is left out: programs treat both alike, as the kernel's verbs core lets them. */
    public static int relevant(final int type, final int mask) {
        return switch (type) {
            case QueuePair.XRC_SEND -> mask & ~(verbs_h.IBV_QP_MAX_DEST_RD_ATOMIC() | TIMER);
            case QueuePair.XRC_RECV -> mask & ~(verbs_h.IBV_QP_MAX_QP_RD_ATOMIC() | verbs_h.IBV_QP_RETRY_CNT()
                    | verbs_h.IBV_QP_RNR_RETRY());
            default -> mask;
        };
    }

    /** @param type of {@link QueuePair} */
    public static boolean allows(final int type, final int from, final int to, final int mask) {
        final int rest = mask & ~STATE;
        if (to == QueuePair.RESET || to == QueuePair.ERR) {
            return rest == 0 && (to == QueuePair.RESET || from != QueuePair.RESET);
        }
        final int[] table = switch (type) {
            case QueuePair.RC -> RC;
            case QueuePair.UC -> UC;
            case QueuePair.XRC_SEND -> XRC_SEND;
            case QueuePair.XRC_RECV -> XRC_RECV;
            default -> UD;
        };
        for (int i = 0; i < table.length; i += 4) {
            if (table[i] == from && table[i + 1] == to) {
                return (rest & table[i + 2]) == table[i + 2] && (rest & ~(table[i + 2] | table[i + 3])) == 0;
            }
        }
        return false;
    }
}
