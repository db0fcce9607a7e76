/* Runs all ranks of a job as children of this process, which itself never calls a verb. */
#ifndef PROGRAMS_FORK_RANKS_H
#define PROGRAMS_FORK_RANKS_H

/*
 * Forks `ranks` children. Returns the rank in each child, with `dir` set to the folder where they meet. In the parent
 * it does not return: the parent passes SIGTERM and SIGINT on, waits for all, removes the folder and exits with 0 if
 * all ranks did, with 1 otherwise.
 */
int fork_ranks(int ranks, const char **dir);

#endif
