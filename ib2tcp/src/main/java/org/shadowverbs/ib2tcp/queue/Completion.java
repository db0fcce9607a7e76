// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.queue;

/** What a completion says: the fields of a struct ibv_wc. One for each queue pair, filled again each time. */
public final class Completion {
    /** Of {@code enum ibv_wc_flags}. */
    public static final int GRH = 1;
    public static final int WITH_IMM = 2;
    public static final int WITH_INV = 8;

    long wrId;
    int status;
    int opcode;
    public int bytes;
    /** Immediate data, or the rkey that was invalidated. */
    public int imm;
    public int flags;
    public int sourceNumber;
    public int sourceLid;
    public int serviceLevel;
    /** Wakes who waits for solicited ones only. */
    public boolean solicited;

    /** What only the completion of a received message has is 0 again. */
    public void start(final long id, final int result, final int kind, final int length) {
        wrId = id;
        status = result;
        opcode = kind;
        bytes = length;
        imm = 0;
        flags = 0;
        sourceNumber = 0;
        sourceLid = 0;
        serviceLevel = 0;
        solicited = false;
    }
}
