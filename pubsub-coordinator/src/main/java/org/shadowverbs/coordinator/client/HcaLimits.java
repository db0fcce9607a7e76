// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;
import org.shadowverbs.bindings.verbs.ibv_device_attr;

/** What a device has, as far as struct ibv_device_attr says it, by its names. */
public final class HcaLimits {
    private HcaLimits() {
    }

    /** What is 0 is not known, or not there: those who have made use of it are told by the verb that makes it anew. */
    public static Map<String, Long> of(final MemorySegment attr) {
        final Map<String, Long> limits = new HashMap<String, Long>();
        limits.put("max_qp", Integer.toUnsignedLong(ibv_device_attr.max_qp(attr)));
        limits.put("max_qp_wr", Integer.toUnsignedLong(ibv_device_attr.max_qp_wr(attr)));
        limits.put("max_sge", Integer.toUnsignedLong(ibv_device_attr.max_sge(attr)));
        limits.put("max_qp_init_rd_atom", Integer.toUnsignedLong(ibv_device_attr.max_qp_init_rd_atom(attr)));
        limits.put("max_qp_rd_atom", Integer.toUnsignedLong(ibv_device_attr.max_qp_rd_atom(attr)));
        limits.put("max_cq", Integer.toUnsignedLong(ibv_device_attr.max_cq(attr)));
        limits.put("max_cqe", Integer.toUnsignedLong(ibv_device_attr.max_cqe(attr)));
        limits.put("max_srq", Integer.toUnsignedLong(ibv_device_attr.max_srq(attr)));
        limits.put("max_srq_wr", Integer.toUnsignedLong(ibv_device_attr.max_srq_wr(attr)));
        limits.put("max_srq_sge", Integer.toUnsignedLong(ibv_device_attr.max_srq_sge(attr)));
        limits.put("max_mr", Integer.toUnsignedLong(ibv_device_attr.max_mr(attr)));
        limits.put("max_mr_size", ibv_device_attr.max_mr_size(attr) < 0 ? Long.MAX_VALUE : ibv_device_attr.max_mr_size(attr));
        limits.put("max_mw", Integer.toUnsignedLong(ibv_device_attr.max_mw(attr)));
        limits.put("max_pd", Integer.toUnsignedLong(ibv_device_attr.max_pd(attr)));
        limits.put("max_ah", Integer.toUnsignedLong(ibv_device_attr.max_ah(attr)));
        limits.put("phys_port_cnt", ibv_device_attr.phys_port_cnt(attr) & 0xffL);
        limits.values().removeIf(limit -> limit == 0);
        return limits;
    }
}
