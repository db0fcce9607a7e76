/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs of the tree have as their line to the launcher (PMI_FD): a socket whose other end is in the tree, too, and so
 * in the image. While the launcher is there each request goes on to it, by the keeper, and each answer back; what was asked,
 * put and answered is kept. After a restart nobody is there: requests are answered from what was kept, and barriers by the
 * coordinator, which counts the ranks of all hosts.
 */
#ifndef PMI_H
#define PMI_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#define PMI_NAME 256

/* What comes first through a line, from the child of the top that becomes the program, with the two ends of a socket. */
struct pmi_hello {
	int32_t rank, size;
	char space[PMI_NAME];	/* the launcher's name for the ranks that belong together; empty: not known yet */
	char job[PMI_NAME];	/* SHADOWVERBS_JOB */
};

/*
 * For the child: its program's descriptor `launcher` is replaced by `line`, if PMI_FD names it. What leads to the launcher
 * goes to the keeper at `tasks`.
 */
void pmi_hand_over(const char *tasks, char **environment, int line, int *fds, const int32_t *numbers, int nfds);

/*
 * In the top. `place` says where this process is, a text that changes with each restart; `agent` is the path of the
 * agent's socket at the launch. Returns a descriptor that is readable when pmi_serve() has something to do; so it has after
 * pmi_timeout() milliseconds (-1: not).
 */
int pmi_open(const char *(*place)(void), const char *agent);
void pmi_serve(void);
int pmi_timeout(void);

/* The top's end of a line that a child was born with. */
void pmi_expect(int end);

/* Where this process is, as pmi_open() wants it. */
const char *pmi_place(void);

#endif
