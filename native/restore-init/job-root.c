// SPDX-License-Identifier: Apache-2.0
/*
 * The job root: the one tree of a job on a host, in namespaces of its own, however many launches started its programs.
 *
 *   outside                      in the namespaces
 *   launch, now the stand-in <-> keeper, process 1 <-- top, process 2 --> program, program, ...
 *
 * The top is the parent of all programs and the top of the tree that is saved. So it holds nothing that leads out of the tree:
 * the keeper asks it by a signal for a child, and it tells the keeper by a datagram what became of one. After a restart another
 * process 1 is there (restore-init.c), the datagrams arrive nowhere, and the top ends by itself with its last child.
 *
 * The keeper is not saved. It listens at a socket, takes programs from launches (descriptors and all that a process has
 * from the one that started it), hands them to the top's children, and passes on signals one way and statuses the other.
 *
 * usage: shadowverbs-job-root start SOCKET [user]        makes the job root that listens there, unless there is one, and makes
 *                                                         it wait for a launch. Says the top's pid on this host. With "user",
 *                                                         who has no privilege, a user namespace is around the others.
 *        shadowverbs-job-root run SOCKET PROGRAM ARG0...  hands PROGRAM over with all that this process has, and is its stand-in
 *        shadowverbs-job-root attend AGENT DUTIES SOCKET PROGRAM ARG0...
 *                                                         the same with a line to the agent that listens at AGENT. DUTIES are
 *                                                         letters: s, it stays until the job ends; c, SIGUSR1 and SIGUSR2 ask
 *                                                         the agent for a checkpoint.
 *        shadowverbs-job-root enter PID PROGRAM ARG...    runs PROGRAM with all capabilities in the namespaces of PID
 *        shadowverbs-job-root try PROGRAM ARG...          runs PROGRAM as "enter" does, in new namespaces of an ordinary user
 *        shadowverbs-job-root top TASKS REPORTS           the top itself
 *
 * Exit status of run and attend: the program's, or its death by the same signal; 126 and 127 as a shell has them. With the duty to
 * stay: the job's.
 */
#define _GNU_SOURCE
#include "job-root.h"
#include "say.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		die(CANNOT_RUN, "read", "/proc/self/exe");
	self[n] = 0;
	if (argc >= 3 && argc <= 4 && !strcmp(argv[1], "start"))
		return start(self, argv[2], argc == 4 && !strcmp(argv[3], "user"));
	if (argc >= 5 && !strcmp(argv[1], "run"))
		return stand_in(&(struct stand_in_duties){ 0 }, argv[2], argv[3], argv + 4);
	if (argc >= 7 && !strcmp(argv[1], "attend"))
		return stand_in(&(struct stand_in_duties){ .agent = argv[2], .stays = strchr(argv[3], 's'),
							   .checkpoint_signals = strchr(argv[3], 'c') },
				argv[4], argv[5], argv + 6);
	if (argc >= 3 && !strcmp(argv[1], "try"))
		return attempt(argv + 2);
	if (argc >= 4 && !strcmp(argv[1], "enter"))
		return enter(argv[2], argv + 3);
	if (argc == 4 && !strcmp(argv[1], "top"))
		top(argv[2], argv[3]);
	say("usage: see job-root.c");
	return CANNOT_RUN;
}
