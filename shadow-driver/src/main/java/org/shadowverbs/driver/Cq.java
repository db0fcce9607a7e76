// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_cq_init_attr_ex;
import org.shadowverbs.bindings.verbs.verbs_h;

/** A completion queue. */
final class Cq extends Resource {
    /**
     * Entries that the real queue has more than the application asked for: for the completions of the drain's own
     * requests, markers and landings, of which no more are under way at a time.
     */
    static final int ROOM = 32;

    /** What an ibv_wc holds. */
    private static final long PLAIN_FIELDS = verbs_h.IBV_WC_STANDARD_FLAGS();
    /** What the drain reads of each completion, and, of a datagram's, who finds out whom it came from. */
    private static final long DRAIN_FIELDS = verbs_h.IBV_WC_EX_WITH_BYTE_LEN() | verbs_h.IBV_WC_EX_WITH_IMM()
            | verbs_h.IBV_WC_EX_WITH_SRC_QP() | verbs_h.IBV_WC_EX_WITH_SLID();

    final Context context;
    /** Null: completions make no events. */
    final Channel channel;
    final int completionVector;
    /** Of an extended queue, as the application asked: {@code enum ibv_create_cq_wc_flags}, ibv_create_cq_attr_flags. */
    final long wcFlags;
    final int createFlags;
    /** As the application asked. */
    int cqe;
    /** What ibv_modify_cq has set; period below 0: nothing. */
    int moderationCount;
    int moderationPeriod = -1;

    Cq(final long virtual, final Context context, final Channel channel, final int completionVector, final int cqe,
            final long wcFlags, final int createFlags) {
        super(virtual, 0);
        this.context = context;
        this.channel = channel;
        this.completionVector = completionVector;
        this.cqe = cqe;
        this.wcFlags = wcFlags;
        this.createFlags = createFlags;
    }

    /** Whether real queues must be extended ones: for a field that an ibv_wc does not have, or a flag that counts. */
    private boolean extended() {
        return (wcFlags & ~PLAIN_FIELDS) != 0 || (createFlags & ~verbs_h.IBV_CREATE_CQ_ATTR_SINGLE_THREADED()) != 0;
    }

    /** Makes the real queue. Its context is the virtual queue: so its events find their way. */
    void createReal(final Backend backend, final int vector) {
        final long realChannel = channel == null ? 0 : channel.real;
        if (!extended()) {
            real = backend.createCq(context.real, cqe + ROOM, virtual, realChannel, vector);
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_cq_init_attr_ex.allocate(arena);
            ibv_cq_init_attr_ex.cqe(attr, cqe + ROOM);
            ibv_cq_init_attr_ex.cq_context(attr, MemorySegment.ofAddress(virtual));
            ibv_cq_init_attr_ex.channel(attr, MemorySegment.ofAddress(realChannel));
            ibv_cq_init_attr_ex.comp_vector(attr, vector);
            ibv_cq_init_attr_ex.wc_flags(attr, wcFlags | DRAIN_FIELDS);
            if (createFlags != 0) {
                ibv_cq_init_attr_ex.comp_mask(attr, verbs_h.IBV_CQ_INIT_ATTR_MASK_FLAGS());
                ibv_cq_init_attr_ex.flags(attr, createFlags);
            }
            real = backend.createCqEx(context.real, attr);
        }
    }
}
