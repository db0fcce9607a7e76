/* What the files of the program share: numbered slots for objects, and how a step's outcome is printed. */
#ifndef STEPS_STEPS_H
#define STEPS_STEPS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "../common/endpoint.h"
#include "../common/route.h"

enum {
	SLOTS = 8,
	QPS = 2 * SLOTS,
	HANDLES = SLOTS,	/* slots behind those of queue pairs, for what ibv_open_qp makes */
	REGION = 24576,
	LINES = 4096,		/* of a script, at most */
	DEPTH = 16,
	INLINE = 64,
};

/* Behind a region: where the header of the datagram goes that fills the receive of a line, for they differ from run to run. */
#define HEADER(line) (REGION + (line) * ROUTE_SIZE)

/* As in scripts. */
enum type { TYPE_RC, TYPE_UC, TYPE_UD, TYPE_XRC };

extern struct endpoint endpoint;
extern struct ibv_pd *pds[SLOTS];
extern struct ibv_cq *cqs[SLOTS];
extern struct ibv_mr *mrs[SLOTS];
extern struct ibv_ah *ahs[SLOTS];
extern struct ibv_xrcd *xrcds[SLOTS];
extern struct ibv_srq *srqs[SLOTS];
extern struct ibv_qp *qps[QPS + HANDLES];
extern struct ibv_qp_cap caps[QPS];	/* as created */
extern struct ibv_comp_channel *channel;
extern char *memory[SLOTS];
extern uint64_t line_number;
extern const char *file;

/* Checks a slot's number. */
unsigned slot(uint64_t number, unsigned count);

#define PD(n) pds[slot(n, SLOTS)]
#define CQ(n) cqs[slot(n, SLOTS)]
#define MR(n) mrs[slot(n, SLOTS)]
#define AH(n) ahs[slot(n, SLOTS)]
#define XRCD(n) xrcds[slot(n, SLOTS)]
#define SRQ(n) srqs[slot(n, SLOTS)]
#define QP(n) qps[slot(n, QPS + HANDLES)]

/* Prints the outcome of a step: "ok" or the name of the error. */
void result(int err);
/* Likewise of a verb that returns a pointer. */
void made(const void *object);

/* The slot of the queue pair with that number; there must be one. */
unsigned qp_of(uint32_t qp_num);

/* objects.c; arguments as in the script. False: no such verb. */
bool object_step(const char *verb, const uint64_t *a);
/* requests.c; likewise */
bool request_step(const char *verb, const uint64_t *a);
/* events.c; likewise */
bool event_step(const char *verb, const uint64_t *a);
void events_open(void);

#endif
