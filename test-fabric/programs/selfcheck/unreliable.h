/*
 * Messages that may be lost, beside the reliable ones: over UC to each peer, datagrams to each peer, datagrams to a
 * multicast group of all ranks. Each is numbered. What arrives must be whole, and none may arrive twice; how many did is
 * only counted. In the end, though, each stream must get through: a rank sends on until all peers have told, reliably,
 * that something arrived which was sent after the stop.
 *
 * All of it is done by the thread that reads completions.
 */
#ifndef SELFCHECK_UNRELIABLE_H
#define SELFCHECK_UNRELIABLE_H

#include "job.h"

/* What a rank publishes for one peer. */
struct unreliable_card {
	struct qp_address uc, datagram;
	union ibv_gid gid;
	uint32_t group;			/* rank 0 chooses it */
};

/* Nothing, if the settings ask for none; so all that follows. */
void unreliable_create(struct job *job);
void unreliable_card_fill(struct job *job, int peer, struct unreliable_card *card);
void unreliable_connect(struct job *job, int peer, const struct unreliable_card *card);
void unreliable_destroy(struct job *job);

/* Receives and sends what there is to. Returns how many completions and requests there were. */
int unreliable_step(struct job *job, bool ending);

/* Leaves the group and joins it again. */
void unreliable_churn(struct job *job);

/* The peer tells that it has heard the last of all streams. */
void unreliable_heard(struct connection *connection);

/* The peer has heard the last of all streams, and was heard. */
bool unreliable_is_over(const struct connection *connection);

/* `sent` counts a message to the group once for each peer. */
void unreliable_totals(const struct job *job, struct totals *totals);

#endif
