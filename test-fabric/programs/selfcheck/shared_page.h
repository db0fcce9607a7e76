/* --shared-memory: a page that all ranks map and count in; it must stay one page whatever happens to the processes. */
#ifndef SELFCHECK_SHARED_PAGE_H
#define SELFCHECK_SHARED_PAGE_H

#include "job.h"

/* Maps the page; all ranks must call it. The file has no name any more when it returns. */
void shared_page_map(struct job *job);

void shared_page_count(struct job *job, uint64_t count);
uint64_t shared_page_own_count(struct job *job);

/* `all` is what the ranks counted by their own account. */
void shared_page_check(struct job *job, uint64_t all);

#endif
