/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boundary between the two halves of ib2tcp, the verbs device over TCP: the operations that a verbs program reaches
 * through its context (C, tcp_*.c: they write requests into rings and read completions out of them) and the protocol
 * engine (Java, module ib2tcp, one thread at a time). jextract turns this file into org.shadowverbs.bindings.tcp.
 *
 * Every structure here is made and freed by the engine, in memory that both see. Each field is written by one side only,
 * as its comment says: (P) by who posts or polls, under the lock that the library above holds for the queue; (E) by the
 * engine; (I) once, before the object is known to the other side. Indices run freely, modulo 2^32; an entry's place in its
 * ring is index & mask. The writer fills an entry, then stores the index with release order.
 */
#ifndef SHADOWVERBS_TCP_H
#define SHADOWVERBS_TCP_H

#include <stdint.h>
#include <infiniband/verbs.h>

/* Bits of the doorbell: one for each queue pair and each shared receive queue. */
#define SV_TCP_BELLS 65536
/* The lkey of the preload library's own buffers (landings): any memory of this process, local access only. */
#define SV_TCP_LANDING_KEY 0xffffff01

/*
 * A send request; its SGEs or its inline payload follow it. What the fields from `imm` on hold besides what their names
 * say:
 *
 *                   imm                 length      remote_addr     compare_add       swap       rkey
 *   datagram                                        GID's prefix    its interface id  sl, Q_Key  queue pair
 *   of XRC          (atomics) SRQ                                       (others) SRQ
 *   .._INV          rkey to invalidate
 *   BIND_MW         access flags                    first address   bytes             lkey       of the window
 */
struct sv_tcp_send {
	uint64_t wr_id;
	uint32_t opcode;		/* enum ibv_wr_opcode */
	uint32_t flags;			/* enum ibv_send_flags */
	uint32_t num_sge;		/* 0 with an inline payload */
	uint32_t imm;			/* in network order, as the application gave it */
	uint64_t length;		/* of the message */
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;			/* of a datagram: the Q_Key; the service level from bit 32 on */
	uint32_t rkey;
	uint32_t sequence;		/* (E) of the message, from when it is sent first */
};

/* A receive request; its SGEs follow it. */
struct sv_tcp_recv {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t reserved;
};

struct sv_tcp_ring {
	uint64_t entries;		/* (I) address of the first */
	uint32_t stride;		/* (I) bytes from one entry to the next */
	uint32_t mask;			/* (I) entries less one */
	uint32_t max;			/* (I) requests that it takes: max_send_wr, max_recv_wr */
	uint32_t max_sge;		/* (I) */
	uint32_t max_inline;		/* (I) bytes */
	uint32_t reserved;
};

struct sv_tcp_qp {
	struct ibv_qp v;		/* (I), state (E) */
	struct sv_tcp_ring send __attribute__((aligned(64)));
	struct sv_tcp_ring recv;
	uint32_t bell;			/* (I) this QP's bit in the doorbell */
	uint32_t opcodes;		/* (I) that it takes, a bit for each enum ibv_wr_opcode */
	uint32_t send_tail __attribute__((aligned(64)));	/* (P) requests posted */
	uint32_t recv_tail __attribute__((aligned(64)));	/* (P) */
	uint32_t fail_asked;		/* (P) the engine is to put the QP into the error state */
	uint32_t send_head __attribute__((aligned(64)));	/* (E) requests completed: their places are free */
	uint32_t recv_head;		/* (E) */
	uint32_t recv_wanted;		/* (E) the engine is to be told of the next receive */
};

struct sv_tcp_srq {
	struct ibv_srq v;		/* (I) */
	struct sv_tcp_ring recv __attribute__((aligned(64)));	/* (I) but for a move, under `lock` */
	uint32_t bell;			/* (I) this SRQ's bit in the doorbell */
	uint32_t tail __attribute__((aligned(64)));	/* (P) receives posted */
	uint32_t lock;			/* of who posts and of sv_tcp_srq_move; held for a few instructions */
	uint32_t head __attribute__((aligned(64)));	/* (E) receives taken: their places are free */
	uint32_t wanted;		/* (E) the engine is to be told of the next receive */
};

/* All (I). */
struct sv_tcp_ah {
	struct ibv_ah v;
	uint64_t gid_prefix;		/* in the order of this host */
	uint64_t gid_interface;
	uint32_t sl;
	uint32_t reserved;
};

/* Device memory, which is the process's own. All (I). */
struct sv_tcp_dm {
	struct ibv_dm v;
	uint64_t base;
	uint64_t length;
};

/* When a completion was put in: what an ibv_wc has no field for. */
struct sv_tcp_stamp {
	uint64_t monotonic_ns;
	uint64_t wallclock_ns;
};

struct sv_tcp_cq {
	union {				/* (I) but for wr_id and status (P) */
		struct ibv_cq v;
		struct ibv_cq_ex ex;
	};
	uint32_t lock __attribute__((aligned(64)));	/* of who polls and who resizes */
	uint32_t mask;			/* of the ring; changes under the lock */
	uint64_t entries;		/* address of struct ibv_wc[mask + 1]; changes under the lock */
	uint64_t stamps;		/* address of struct sv_tcp_stamp[mask + 1], or 0; likewise */
	uint32_t head;			/* (P) completions taken */
	uint32_t idle;			/* (P) polls in a row that found nothing */
	uint32_t tail __attribute__((aligned(64)));	/* (E) completions put in */
	uint32_t armed;			/* enum sv_tcp_armed: set by (P), taken by (E) */
	struct ibv_wc current;		/* (P) of an extended queue: what the functions of a poll read */
	struct sv_tcp_stamp stamp;
};

enum sv_tcp_armed {
	SV_TCP_ARMED_NOT,
	SV_TCP_ARMED_SOLICITED,
	SV_TCP_ARMED_ANY
};

/* What is read from the pipe that is a channel's fd (a CQ) or a context's async_fd (an event and what it concerns). */
struct sv_tcp_event {
	uint64_t object;		/* address of the real struct ibv_cq, ibv_qp or ibv_srq, or a port number */
	uint32_t type;			/* enum ibv_event_type; 0 on a channel */
	uint32_t reserved;
};

/*
 * One for the process. A bit is set by who posts and taken by the engine.
 *
 * The engine belongs to the thread that holds `holder`: its own, or, while it is `polled`, for one turn at a time, a thread
 * of the application that polls or posts. (H) is written by who holds it.
 */
struct sv_tcp_doorbell {
	uint32_t sleeping;		/* set by (H), taken by (P) who then writes to wake_fd, after a bit was set */
	int32_t wake_fd;		/* (E) an eventfd */
	uint32_t waiting;		/* (P) threads that sleep in a poll until something completes */
	uint32_t completions;		/* (H) a futex: counts up when something has and one is waiting */
	uint64_t turn;			/* (E) address of a function: int (enum sv_tcp_turn), not 0: call the engine's thread */
	uint32_t holder;		/* enum sv_tcp_holder; a futex of the engine's thread */
	uint32_t polled;		/* (E), as holder: who polls drives, the engine's thread stands by */
	uint32_t offered;		/* a thread polls that would drive; taken back by who is about to sleep */
	uint32_t turns;			/* (H) of the application's threads, counted */
	uint32_t called;		/* a futex: the engine's thread is to come; taken by it */
	uint32_t pending;		/* a bit is set below; taken by (H) before it looks for them */
	uint64_t due[SV_TCP_BELLS / 64];
};

enum sv_tcp_holder {
	SV_TCP_HOLDER_NONE,
	SV_TCP_HOLDER_ONE,
	SV_TCP_HOLDER_AND_WAITER	/* and the engine's thread waits for it */
};

/* How far a turn goes: it sends what is due; it receives, too; it sleeps for a moment when there is nothing. */
enum sv_tcp_turn {
	SV_TCP_TURN_POST,
	SV_TCP_TURN_POLL,
	SV_TCP_TURN_REST
};

struct sv_tcp_doorbell *sv_tcp_doorbell(void);
/* The engine's thread has something to do that is no turn's: it takes the engine as soon as it is free. By any thread. */
void sv_tcp_call_engine(void);
/* The device of this process; its node_guid is the host's. */
struct ibv_device *sv_tcp_device(void);
/* Installs the operations in a context that the engine has made. */
void sv_tcp_context_init(struct ibv_context *context);
/* Installs the operations of device memory. */
void sv_tcp_dm_init(struct sv_tcp_dm *dm);
/* Gives a CQ another ring, with what is in the old one; called by the engine alone. */
void sv_tcp_cq_move(struct sv_tcp_cq *cq, struct ibv_wc *entries, struct sv_tcp_stamp *stamps, uint32_t mask);
/*
 * Gives an SRQ another ring, of mask + 1 entries for max requests, with what is in the old one; called by the engine alone.
 * Returns 0, or EINVAL: it holds more.
 */
int sv_tcp_srq_move(struct sv_tcp_srq *srq, void *entries, uint32_t mask, uint32_t max);
/* Installs the functions of an extended CQ; fields: enum ibv_create_cq_wc_flags. */
void sv_tcp_cq_ex_init(struct sv_tcp_cq *cq, uint64_t fields);
/* Takes the events of an object that is about to end out of a pipe. */
void sv_tcp_forget_events(int read_fd, int write_fd, const void *object);

/*
 * From here on the library behind the preload is libibverbs (0), ib2tcp (1), or ib2tcp whose ports have lids (2); gate closed,
 * or no device yet open.
 */
void sv_tcp_select(int on);
/* Is it ib2tcp? As it was selected. */
int sv_tcp_selected(void);

#endif
