/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The global route header in front of a received datagram: the real GIDs that the device has put there become those that
 * the application knows. struct ibv_grh (IBTA volume 1, 8.3), or, of RoCE over IPv4, an IPv4 header in the last 20 of the 40
 * bytes; which of the two is found out as ibv_init_ah_from_wc does (rdma-core, libibverbs/verbs.c).
 */
#ifndef SV_GRH_H
#define SV_GRH_H

#include "objects/objects.h"

/*
 * Rewrites the header of a datagram, where the receive that it has filled has scattered it, unless the processor cannot write
 * there. True: the header named the sender, and src_qp and slid are the application's; otherwise they are as they were. To
 * be called once for each datagram, before its completion is the application's, with its receive still in the log.
 */
bool sv_grh_translate(struct ibv_context *vcontext, struct ibv_wc *wc, struct sv_recv_entry *entry);
/* The same of one that lies in memory of ours, aligned to 8 bytes. */
bool sv_grh_translate_at(struct ibv_context *vcontext, struct ibv_wc *wc, void *header);

#endif
