/* The same requests and completions by the classic calls of verbs, or by the extended ones: ibv_wr_*, ibv_start_poll. */
#ifndef PROGRAMS_EXTENDED_H
#define PROGRAMS_EXTENDED_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* One way or the other; names and results as those of the classic calls. */
struct verbs_way {
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *cq_context,
				    struct ibv_comp_channel *channel);
	/* The extended one posts the list as one batch: all or nothing. */
	int (*post)(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad);
	int (*poll)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
};

const struct verbs_way *verbs_way(bool extended);

#endif
