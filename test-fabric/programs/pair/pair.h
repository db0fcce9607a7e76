/*
 * The frame of the two-process programs. Each does something, says READY, waits for a file to appear, goes on and
 * checks that everything happened exactly once and intact. What happens to the processes in between is not their
 * business.
 *
 * After the first connection is made the two talk over its queue pair only.
 */
#ifndef PAIR_PAIR_H
#define PAIR_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../common/die.h"
#include "../common/endpoint.h"
#include "../common/pattern.h"
#include "../common/rank_dir.h"
#include "../common/work_clock.h"

#define PAIR_DEADLINE_S 60
#define PAIR_FILE_DEADLINE_S 600
#define PAIR_EXCHANGE_MAX 256

/* Registered memory, poisoned at first. */
struct area {
	unsigned char *memory;
	size_t size;
	struct ibv_mr *mr;
};

/* A connected RC queue pair and what its peer lets it reach. */
struct link {
	struct ibv_qp *qp;
	struct qp_address own, peer;
	struct ibv_qp_cap cap;
	uint32_t lkey;
	uint32_t rkey;
	uint64_t remote;
};

struct link_wishes {
	struct ibv_cq *send_cq, *receive_cq;
	int max_send, max_receive, max_inline;
	struct ibv_srq *srq;			/* NULL: a receive queue of its own */
	int access;				/* of the queue pair */
	const struct qp_timing *timing;		/* NULL: qp_patient */
};

struct pair {
	int rank;				/* 0 or 1 */
	const char *mode;
	bool signaled, zero_length;
	int rnr_retry, rnr_timer;		/* -1: the program's own choice */
	int count;				/* of queue pairs, where the program has many */
	const char *go_file;
	const char *domain;			/* the file of an XRC domain; NULL: one of their own */
	struct rank_dir dir;
	struct endpoint endpoint;

	struct link control;
	struct ibv_cq *control_send_cq, *control_receive_cq;
	struct area control_area;
	bool control_up;
	bool alone;				/* the peer has ended: nothing is told it any more */
};

/* What each program defines. The first mode is the default. */
extern const char *const program_name;
extern const char *const program_modes[];	/* NULL at the end */
void program_run(struct pair *pair);

/* Both say READY when both have come this far, then wait for the go file, if one was named. */
void pair_ready(struct pair *pair);

/* The same in two halves, for programs that go on working in between. */
void pair_say_ready(struct pair *pair);
bool pair_may_go(struct pair *pair);

/* Both give and get `size` bytes; neither returns before the other has called. */
void pair_exchange(struct pair *pair, const char *what, const void *mine, void *theirs, size_t size);
void pair_sync(struct pair *pair, const char *what);

/* Waits until the peer, which ends before it says READY, has ended. What it had to say has been heard. */
void pair_await_end(struct pair *pair, pid_t peer);

void area_create(struct pair *pair, struct area *area, size_t size, int access);
void area_destroy(struct area *area);

void link_create(struct pair *pair, struct link *link, const struct link_wishes *wishes, const struct area *area);
void link_destroy(struct link *link);

/* `remote` is an offset into the peer's area. A post that fails ends the process. */
void link_post(struct link *link, enum ibv_wr_opcode opcode, uint64_t wr_id, int flags, void *local, uint32_t length,
	       size_t remote);
void link_fetch_add(struct link *link, uint64_t wr_id, int flags, void *old, size_t remote, uint64_t add);
void link_receive(struct link *link, uint64_t wr_id, void *local, uint32_t length);

/* Waits for a completion. await_completion: any status but success, or another wr_id, ends the process. */
void await_next_completion(struct ibv_cq *cq, struct ibv_wc *wc, const char *what);
void await_completion(struct ibv_cq *cq, uint64_t wr_id, struct ibv_wc *wc, const char *what);
void expect_no_completion(struct ibv_cq *cq, const char *what);

/* Waits until a word of memory that the peer writes has a value. */
void await_word(const void *word, uint64_t value, const char *what);

uint64_t load_word(const void *word);
void store_word(void *word, uint64_t value);

#endif
