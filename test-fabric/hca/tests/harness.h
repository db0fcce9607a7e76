/* What the tests of the software HCA share: endpoints, work requests in one line, polling with a deadline. */
#ifndef HARNESS_H
#define HARNESS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define CHECK(condition) do {								\
	if (!(condition)) {								\
		fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__, #condition);	\
		exit(1);								\
	}										\
} while (0)

#define CHECK_EQ(got, want) do {							\
	long long __got = (long long)(got), __want = (long long)(want);			\
	if (__got != __want) {								\
		fprintf(stderr, "%s:%d: %s: %s is %lld, expected %s = %lld\n", __FILE__, __LINE__, __func__,	\
			#got, __got, #want, __want);					\
		exit(1);								\
	}										\
} while (0)

#define ACCESS_ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		    IBV_ACCESS_REMOTE_ATOMIC)

#define BUFFER 65536
#define QKEY 0x11111111

/* Zero in a field means the default that harness.c gives it. */
struct options {
	enum ibv_qp_type qp_type;
	uint32_t max_send_wr, max_recv_wr, max_sge, max_inline;
	int cqe;
	bool sq_sig_all;
	bool channel;
	unsigned int qp_access;
	unsigned int mr_access;
	uint8_t rnr_retry, retry_cnt, timeout, min_rnr_timer;
	uint8_t max_rd_atomic;
	uint8_t port;
	unsigned int device;	/* its place in the list */
	uint32_t srq_wr;	/* receives come from an SRQ of this size */
};

/* A device opened, with one of everything. */
struct endpoint {
	struct options opt;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned char *buf;
	uint16_t lid;
	bool ethernet;
	uint32_t psn;
};

/* What the two ends tell each other. */
struct address {
	uint16_t lid;
	union ibv_gid gid;	/* where it is Ethernet */
	uint32_t qpn, psn, rkey;
	uint64_t buf;
};

/* A private fabric directory, removed at exit. To be called first. */
void harness_start(void);
/* A setting for what is opened from now on; NULL takes it away. */
void harness_set(const char *name, const char *value);

uint64_t now_ms(void);

void endpoint_open(struct endpoint *ep, const struct options *opt);
void endpoint_close(struct endpoint *ep);
struct ibv_qp *endpoint_qp(struct endpoint *ep);
struct address endpoint_address(const struct endpoint *ep);
int qp_init(struct endpoint *ep, struct ibv_qp *qp);
int qp_rtr(struct endpoint *ep, struct ibv_qp *qp, const struct address *peer);
int qp_rts(struct endpoint *ep, struct ibv_qp *qp);
void endpoint_connect(struct endpoint *ep, const struct address *peer);
/* Two endpoints of this process, connected. */
void pair_open(struct endpoint *a, struct endpoint *b, const struct options *opt);
void pair_close(struct endpoint *a, struct endpoint *b);
enum ibv_qp_state qp_state(struct ibv_qp *qp);

struct ibv_sge sge_of(const struct endpoint *ep, uint32_t offset, uint32_t length);
int post_recv(struct endpoint *ep, uint64_t wr_id, uint32_t offset, uint32_t length);
int post_srq_recv(struct endpoint *ep, uint64_t wr_id, uint32_t offset, uint32_t length);
/* A SEND of @length bytes at @offset of our buffer. */
int post_send(struct endpoint *ep, uint64_t wr_id, uint32_t offset, uint32_t length, unsigned int flags);
/* The path to a peer. */
struct ibv_ah_attr path_to(const struct endpoint *ep, const struct address *peer);
/* An RDMA or atomic request against @remote of the peer's buffer. */
int post_rdma(struct endpoint *ep, const struct address *peer, enum ibv_wr_opcode opcode, uint64_t wr_id,
	      uint32_t offset, uint32_t length, uint32_t remote, unsigned int flags);

/* The next completion, within ten seconds. */
struct ibv_wc poll_one(struct ibv_cq *cq, const char *what);
/* No completion within @ms. */
void poll_none(struct ibv_cq *cq, int ms);
struct ibv_wc expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
/* The next asynchronous event, within ten seconds; acknowledged. */
struct ibv_async_event await_async(struct endpoint *ep, enum ibv_event_type type);
/* Readable within ten seconds, or not within @ms. */
void await_readable(int fd, const char *what);
void expect_silent(int fd, int ms);

void run_test(const char *name, void (*test)(void));
#define RUN(test) run_test(#test, test)

#endif
