// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.model;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_cq_init_attr_ex;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.driver.backend.Backend;

/** A completion queue. */
public final class Cq extends Resource {
    /** The most entries that an application may ask for: with the room it is still a number. A device has less. */
    public static final int MOST = Integer.MAX_VALUE - Backend.CQ_ROOM;

    /** What an ibv_wc holds. */
    private static final long PLAIN_FIELDS = verbs_h.IBV_WC_STANDARD_FLAGS();
    /** What the drain reads of each completion, and, of a datagram's, who finds out whom it came from. */
    private static final long DRAIN_FIELDS = verbs_h.IBV_WC_EX_WITH_BYTE_LEN() | verbs_h.IBV_WC_EX_WITH_IMM()
            | verbs_h.IBV_WC_EX_WITH_SRC_QP() | verbs_h.IBV_WC_EX_WITH_SLID();

    public final Context context;
    /** Null: completions make no events. */
    public final Channel channel;
    public final int completionVector;
    /** For an extended queue, as the application asked: {@code enum ibv_create_cq_wc_flags}, ibv_create_cq_attr_flags. */
    public final long wcFlags;
    final int createFlags;
    /** As the application asked. */
    public int cqe;
    /** What ibv_modify_cq has set; period below 0: nothing. */
    public int moderationCount;
    public int moderationPeriod = -1;

    public Cq(final long virtual, final Context context, final Channel channel, final int completionVector, final int cqe,
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
    public void createReal(final Backend backend, final int vector) {
        final long realChannel = channel == null ? 0 : channel.real;
        if (!extended()) {
            real = backend.createCq(context.real, cqe + Backend.CQ_ROOM, virtual, realChannel, vector);
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_cq_init_attr_ex.allocate(arena);
            ibv_cq_init_attr_ex.cqe(attr, cqe + Backend.CQ_ROOM);
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
