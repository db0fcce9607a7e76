// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import java.util.List;

/**
 * One measured case.
 *
 * @param name in the report
 * @param program the case of {@code dataplane}: what is posted
 * @param queuePairs number of queue pairs that take turns
 * @param regions number of memory regions that take turns
 */
record BenchCase(String name, String program, int queuePairs, int regions) {
    static final int MANY_QUEUE_PAIRS = 1024;
    static final int MANY_REGIONS = 4096;

    private static final String AFTER_RESTART = "_after_restart";

    static final BenchCase SEND_1QP = new BenchCase("send_1qp", "send", 1, 1);
    static final BenchCase SEND_1024QP = new BenchCase("send_1024qp", "send", MANY_QUEUE_PAIRS, 1);
    static final BenchCase SEND_4096MR = new BenchCase("send_4096mr", "send", 1, MANY_REGIONS);
    static final BenchCase WRITE_1QP = new BenchCase("write_1qp", "write", 1, 1);
    static final BenchCase RECV_1QP = new BenchCase("recv_1qp", "recv", 1, 1);
    static final BenchCase EMPTY_POLL = new BenchCase("empty_poll", "empty_poll", 1, 1);

    static final List<BenchCase> FRESH = List.of(SEND_1QP, SEND_1024QP, SEND_4096MR, WRITE_1QP, RECV_1QP,
            EMPTY_POLL);

    /** One queue pair and one region again, first: the row is named for what it is compared with. */
    static final List<BenchCase> RESTARTED = List.of(
            new BenchCase("send" + AFTER_RESTART, "send", 1, 1),
            new BenchCase(SEND_1024QP.name + AFTER_RESTART, "send", MANY_QUEUE_PAIRS, 1),
            new BenchCase(SEND_4096MR.name + AFTER_RESTART, "send", 1, MANY_REGIONS),
            new BenchCase(WRITE_1QP.name + AFTER_RESTART, "write", 1, 1),
            new BenchCase(RECV_1QP.name + AFTER_RESTART, "recv", 1, 1),
            new BenchCase(EMPTY_POLL.name + AFTER_RESTART, "empty_poll", 1, 1));
}
