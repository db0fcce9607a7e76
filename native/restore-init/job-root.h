/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes of a job root tell each other (messages.c), and what each does. */
#ifndef JOB_ROOT_H
#define JOB_ROOT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>

#define SIG_BIRTH SIGRTMIN		/* from the keeper to the top: have a child that asks for a program */
#define SIG_END (SIGRTMIN + 1)		/* and: end */
#define MAX_FDS 250			/* that one message can carry (SCM_MAX_FD is 253) */
#define ANSWER_SECONDS 60		/* that a process of the job root may take to answer, on a host with much to do */
#define CANNOT_RUN 126
#define NOT_FOUND 127
#define AFFINITY_BYTES 1024		/* 8,192 processors */
#define IOPRIO_WHO_PROCESS 1

enum kind {
	RESERVE = 1,	/* start to keeper: a launch will come; value is 1 when it is the first. Answered by the same */
	LAUNCH,		/* run to keeper: a program, with descriptors; the first is its description */
	ASK,		/* a child of the top to the keeper. Answered with the program */
	SIGNAL,		/* run to keeper: for the program; value is the signal */
	GROUP_SIGNAL,	/* the same for its process group */
	ENDED,		/* keeper to run: value is what wait(2) says. Top to keeper: the same, of pid */
	STOPPED,	/* value is the signal */
	NONE_LEFT,	/* top to keeper: it has no child */
	LINE,		/* a child of the top to the keeper: a line to the launcher, with what is to be copied from and to it */
};

struct message {
	int32_t kind;
	int32_t pid;
	int32_t value;
};

/* What a program has from the process that starts it. Strings follow, each with its end: folder, groups, program, argv, environment. */
struct description {
	uint32_t argc, envc;
	uint32_t nfds;
	int32_t fd[MAX_FDS];		/* its numbers in the program */
	uint32_t mask;			/* umask */
	int32_t niceness, policy, priority, io_priority, no_new_privileges;
	uint64_t ignored, blocked;	/* bit n-1 for signal n */
	uint64_t affinity_bytes;
	unsigned char affinity[AFFINITY_BYTES];
	struct rlimit limits[RLIM_NLIMITS];
};

/* Seconds of a clock that nobody sets. */
time_t now(void);

struct sockaddr_un address_of(const char *path);

/* -1 when nobody listens there. Neither connect(2) nor sending takes longer than ANSWER_SECONDS. */
int connect_to(const char *path);

/* The same for what is received: not for a connection on which long nothing comes. */
void expect_answer(int socket);

int bound(const char *path, int type);
pid_t peer_pid(int fd);
bool tell(int fd, const struct message *message, const int *fds, int nfds);

/* Returns false at the other side's end, and for what is no message. */
bool hear(int fd, struct message *message, int *fds, int *nfds);

void close_all(const int *fds, int nfds);

/* The text of a file, for free(3); NULL without memory, empty when it can't be read. */
char *read_all(const char *path);

/* start.c: the command; says the pid of the top. */
int start(const char *self, const char *socket, bool user);

/* keeper.c: process 1 of the namespaces, which writes "ready" when the top is there: that lives as long as it does. */
void keeper(const char *self, const char *socket, bool user, int ready) __attribute__((noreturn));

/* top.c: the topmost process of the tree, with the paths of the keeper's sockets for programs and for reports. */
void top(const char *tasks, const char *reports) __attribute__((noreturn));

/* program.c: a child of the top, which becomes the program that the keeper has for it, with this line to its launcher (pmi.h). */
void program(const char *tasks, int line) __attribute__((noreturn));

/* What a stand-in does beside: it has a line to the agent (attend.h). */
struct stand_in_duties {
	const char *agent;		/* the agent's socket; NULL: none of them */
	bool stays;			/* until the job ends */
	bool checkpoint_signals;	/* SIGUSR1 and SIGUSR2 are for the agent, not for the program */
};

/* stand-in.c: what `launch` becomes. */
int stand_in(const struct stand_in_duties *duties, const char *socket, const char *path, char **argv);

/* enter.c: the commands "enter" and "try". */
int enter(const char *pid, char **argv);
int attempt(char **argv);

#endif
