// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import java.util.Locale;

/**
 * The functions that {@link HcaBackend} calls, by their names: those of libibverbs.so.1, and for what
 * {@code infiniband/verbs.h} has inline, {@code SV_REAL_*} of {@code native/include/shadowverbs.h}.
 */
enum HcaFunction {
    IBV_GET_DEVICE_LIST, IBV_FREE_DEVICE_LIST, IBV_GET_DEVICE_NAME, IBV_OPEN_DEVICE, IBV_CLOSE_DEVICE,
    IBV_QUERY_DEVICE, IBV_QUERY_GID, _IBV_QUERY_GID_EX, _IBV_QUERY_GID_TABLE, IBV_QUERY_PKEY, IBV_GET_PKEY_INDEX,
    IBV_ALLOC_PD, IBV_DEALLOC_PD, IBV_REG_DMABUF_MR, IBV_REREG_MR, IBV_DEREG_MR, IBV_CREATE_COMP_CHANNEL,
    IBV_DESTROY_COMP_CHANNEL, IBV_CREATE_CQ, IBV_RESIZE_CQ, IBV_DESTROY_CQ, IBV_CREATE_AH, IBV_DESTROY_AH,
    IBV_CREATE_SRQ, IBV_MODIFY_SRQ, IBV_QUERY_SRQ, IBV_DESTROY_SRQ, IBV_CREATE_QP, IBV_QUERY_QP, IBV_MODIFY_QP,
    IBV_ATTACH_MCAST, IBV_DETACH_MCAST, IBV_DESTROY_QP, SV_REAL_ALLOC_DM, SV_REAL_ALLOC_MW, SV_REAL_ALLOC_NULL_MR,
    SV_REAL_CLOSE_XRCD, SV_REAL_CREATE_CQ_EX, SV_REAL_CREATE_QP_EX, SV_REAL_CREATE_SRQ_EX, SV_REAL_DEALLOC_MW,
    SV_REAL_FREE_DM, SV_REAL_GET_SRQ_NUM, SV_REAL_MODIFY_CQ, SV_REAL_MODIFY_QP_RATE_LIMIT, SV_REAL_OPEN_QP,
    SV_REAL_OPEN_XRCD, SV_REAL_QUERY_DEVICE_EX, SV_REAL_QUERY_PORT, SV_REAL_REG_DM_MR, SV_REAL_REG_MR;

    /** Its name in C. */
    String symbol() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** Whether the preload library has it. */
    boolean isOurs() {
        return name().startsWith("SV_");
    }
}
