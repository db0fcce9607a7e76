/* The same requests and completions by the extended calls of verbs: ibv_wr_*, ibv_start_poll. As the classic ones. */
#ifndef PROGRAMS_EXTENDED_H
#define PROGRAMS_EXTENDED_H

#include <infiniband/verbs.h>

struct ibv_qp *extended_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
struct ibv_cq *extended_create_cq(struct ibv_context *context, int entries, void *cq_context,
				  struct ibv_comp_channel *channel);

/* The list as one batch, of which all is posted or nothing. */
int extended_post(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad);
int extended_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc);

#endif
