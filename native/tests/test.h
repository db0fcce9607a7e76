/* SPDX-License-Identifier: Apache-2.0 */
/* Checks, and a fixture: one device with all objects that a program of two queue pairs has. */
#ifndef TEST_H
#define TEST_H

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "mock.h"
#include "shadowverbs.h"

#define CHECK(condition)                                                                                \
	do {                                                                                            \
		if (!(condition)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                 \
			abort();                                                                        \
		}                                                                                       \
	} while (0)

#define CHECK_EQUAL(actual, expected)                                                                   \
	do {                                                                                            \
		long long sv_actual = (long long)(actual), sv_expected = (long long)(expected);         \
		if (sv_actual != sv_expected) {                                                         \
			fprintf(stderr, "%s:%d: %s is %lld (0x%llx), not %lld (0x%llx)\n", __FILE__, __LINE__, #actual, \
				sv_actual, sv_actual, sv_expected, sv_expected);                        \
			abort();                                                                        \
		}                                                                                       \
	} while (0)

#define RUN(test)                               \
	do {                                    \
		test();                         \
		printf("  ok  %s\n", #test);    \
		fflush(stdout);                 \
	} while (0)

#define SECOND 1000000000LL
#define BUFFER 4096

struct fixture {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;		/* of both queues of both QPs */
	struct ibv_mr *mr;
	char buffer[BUFFER];
	struct ibv_qp *qp;
	struct ibv_qp *other;
};

struct shape {
	unsigned send_wr, recv_wr, sge, payload;
	bool signal_all;
};

struct ibv_qp *make_qp(struct fixture *f, struct shape shape);
void to_state(struct ibv_qp *qp, enum ibv_qp_state state);
struct fixture *open_fixture(struct shape shape);
void close_fixture(struct fixture *f);

int post_send(struct fixture *f, uint64_t wr_id, enum ibv_wr_opcode opcode, unsigned flags);
int post_recv(struct fixture *f, uint64_t wr_id);
/* The gate must close at once. */
void close_gate(void);
struct sv_bookmark bookmark(struct ibv_qp *qp);
/* Polls one completion and checks its wr_id and status. */
struct ibv_wc expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
void expect_none(struct ibv_cq *cq);

#endif
