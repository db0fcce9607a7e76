// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

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
    private static final String AFTER_RESUMES = "_after_resumes";

    static final BenchCase SEND_1QP = new BenchCase("send_1qp", "send", 1, 1);
    static final BenchCase SEND_1024QP = new BenchCase("send_1024qp", "send", MANY_QUEUE_PAIRS, 1);
    static final BenchCase SEND_4096MR = new BenchCase("send_4096mr", "send", 1, MANY_REGIONS);
    static final BenchCase WRITE_1QP = new BenchCase("write_1qp", "write", 1, 1);
    static final BenchCase RECV_1QP = new BenchCase("recv_1qp", "recv", 1, 1);
    static final BenchCase EMPTY_POLL = new BenchCase("empty_poll", "empty_poll", 1, 1);

    static final BenchCase WR_SEND_1QP = new BenchCase("wr_send_1qp", "wr_send", 1, 1);
    static final BenchCase CQ_EX_1QP = new BenchCase("cq_ex_1qp", "cq_ex", 1, 1);
    static final BenchCase SRQ_RECV_1QP = new BenchCase("srq_recv_1qp", "srq_recv", 1, 1);
    static final BenchCase UD_SEND_1QP = new BenchCase("ud_send_1qp", "ud_send", 1, 1);

    static final List<BenchCase> FRESH = List.of(SEND_1QP, SEND_1024QP, SEND_4096MR, WRITE_1QP, RECV_1QP,
            EMPTY_POLL, WR_SEND_1QP, CQ_EX_1QP, SRQ_RECV_1QP, UD_SEND_1QP);

    /** The same again; the row for one queue pair and one region is called {@code send_after_restart}. */
    static final List<BenchCase> RESTARTED = FRESH.stream().map(c -> c.after(AFTER_RESTART)).toList();
    /** Likewise after checkpoints that left the devices open, and that the process ran on from. */
    static final List<BenchCase> RESUMED = FRESH.stream().map(c -> c.after(AFTER_RESUMES)).toList();

    private BenchCase after(final String what) {
        return new BenchCase((this == SEND_1QP ? "send" : name) + what, program, queuePairs, regions);
    }
}
