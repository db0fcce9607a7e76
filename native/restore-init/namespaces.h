/* SPDX-License-Identifier: Apache-2.0 */
/* The namespaces that the processes of a job live in, at launch (job-root.c) and after a restart (restore-init.c). */
#ifndef NAMESPACES_H
#define NAMESPACES_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Moves this process, which has no other thread, to a user namespace in which its user has the id that he has outside, and
 * all capabilities. On failure *what names the step, errno says why.
 */
bool user_namespace(const char **what);

/*
 * Hands the capabilities of this process on to the program that it becomes, all but CAP_SETUID: with that CRIU would become
 * user 0, who does not exist in a namespace of user_namespace().
 */
bool hand_on_capabilities(void);

/* In a new mount namespace and as the first process of a pid namespace: what is mounted later stays here, /proc is its own. */
bool own_proc(void);

/*
 * Opens the regular file, directory or device that fd is once more, by the mounts of this namespace. -1 with errno ESTALE when another
 * file has its name, EINVAL when it is none of these, else open(2)'s.
 */
int open_again(int fd, int flags);

#endif
