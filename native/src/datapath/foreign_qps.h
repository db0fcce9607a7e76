/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to SRQs of this process by way of XRC receive QPs of other processes, which have the domain of one file open,
 * too. Their completions say the real number of a QP that we know nothing of; how many messages each has brought is
 * counted here, for its process to ask for in a checkpoint.
 */
#ifndef SV_FOREIGN_QPS_H
#define SV_FOREIGN_QPS_H

#include "objects/objects.h"

/*
 * Makes the numbers in the completion of such a message those that the application knows, and counts it, unless it has
 * failed. From any thread.
 */
void sv_foreign_qp_brought(const struct sv_srq *srq, struct ibv_wc *wc);
/* A QP of this process becomes one: what it has brought until now. */
void sv_foreign_qp_had_brought(uint32_t domain, uint32_t qp_num, uint64_t messages);

#endif
