// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/** What a completion says: the fields of a struct ibv_wc. One for each queue pair, filled again each time. */
final class Completion {
    /** Of {@code enum ibv_wc_flags}. */
    static final int GRH = 1;
    static final int WITH_IMM = 2;
    static final int WITH_INV = 8;

    long wrId;
    int status;
    int opcode;
    int bytes;
    /** Immediate data, or the rkey that was invalidated. */
    int imm;
    int flags;
    int sourceNumber;
    int sourceLid;
    int serviceLevel;
    /** Wakes who waits for solicited ones only. */
    boolean solicited;

    /** What only the completion of a received message has is 0 again. */
    void start(final long id, final int result, final int kind, final int length) {
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
