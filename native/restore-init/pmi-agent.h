/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a tree learn after a restart what those of others have done: PMI_STATE and PMI_NEWS of docs/MESSAGES.md. */
#ifndef PMI_AGENT_H
#define PMI_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pmi_rank {
	int32_t rank;
	int64_t entered, passed;	/* barriers */
};

struct pmi_pair {
	const char *key, *value;
};

struct pmi_state {
	const char *space;
	int32_t size;			/* how many ranks it has in all */
	int64_t number;			/* grows */
	const struct pmi_rank *ranks;	/* this tree's; the first names it */
	size_t nranks;
	const struct pmi_pair *put;
	size_t nput;
	const char **wanted;		/* keys */
	size_t nwanted;
	const char *abort;		/* why the job is to end; empty: it is not */
};

struct pmi_news {
	int64_t number;			/* of the state that the coordinator has answered last; 0: of none */
	int64_t passed;			/* barriers that are over */
	bool all;			/* all ranks have been heard of: what is not found was not put */
	struct pmi_pair *found;
	size_t nfound;
	char *text;			/* that they are in */
};

/*
 * Says it to the agent, which is where the file beside `agent` says, and has its answer. The connection ends with the
 * answer, which comes at once: while it is there no image can be made of this process. False when there is no agent now.
 */
bool pmi_tell(const char *agent, const char *job, const struct pmi_state *state, struct pmi_news *news);

void pmi_free(struct pmi_news *news);

#endif
