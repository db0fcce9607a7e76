/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a program that takes part in its checkpoints: it asks for one, keeps them out of a
 * section, or is called before and after each. No program has to. docs/PROGRAMS.md of
 * ShadowVerbs has examples.
 *
 * Link with -lshadowverbs-program (libshadowverbs-program.a needs nothing else). A program that
 * is not started by `shadowverbs launch` runs all the same: then every function returns
 * SHADOWVERBS_ABSENT, and has done nothing.
 *
 * Returns. SHADOWVERBS_ABSENT (0): there is no ShadowVerbs. Above 0: done. -1: not done; errno
 * says why, and shadowverbs_problem() in words.
 *
 * Threads. Every function may be called by any thread, but by none in a signal handler. A child
 * that was forked and has not executed a program takes no part: what it calls returns -1 with
 * EOPNOTSUPP.
 *
 * What it costs. The first call of any function but shadowverbs_available and
 * shadowverbs_problem makes the process a rank of the job, as its first verb does. The data path
 * is not concerned.
 */
#ifndef SHADOWVERBS_PROGRAM_H
#define SHADOWVERBS_PROGRAM_H

#ifdef __cplusplus
extern "C" {
#endif

#define SHADOWVERBS_ABSENT 0
#define SHADOWVERBS_DONE 1

/* What has become of the process: what shadowverbs_checkpoint returns, and what `after` is told. */
#define SHADOWVERBS_RESUMED 1		/* it has gone on; of `after`: its image may not be safe yet */
#define SHADOWVERBS_RESTARTED 2		/* the process has come back from that checkpoint */
#define SHADOWVERBS_GIVEN_UP 3		/* only `after`: there is no image, and the process has gone on */

#define SHADOWVERBS_MAX_CALLBACKS 64

/* 1: the program runs under ShadowVerbs, so that what it asks for can be done. */
int shadowverbs_available(void);

/*
 * Takes a checkpoint of the whole job, and returns when it is safe: SHADOWVERBS_RESUMED. In a
 * process that was restarted from it the same call returns SHADOWVERBS_RESTARTED, once for each
 * restart. The callbacks have been called then.
 *
 * One process of a job calls it for all. Those that call it before a checkpoint has begun, and
 * any that is in it when another one is made for whatever reason, have the same. Calls of
 * several threads of a process follow each other.
 *
 * Errors: EIO: the checkpoint failed, and the job has gone on. ETIMEDOUT: the job's coordinator
 * has not answered for a minute. ENOTCONN: no agent serves this process. EDEADLK: called in a
 * section that is kept free of checkpoints, or in a callback.
 */
int shadowverbs_checkpoint(void);

/*
 * The same, together: the checkpoint is made when as many processes of the job have called this
 * with the same number, which is at least 1. So all of them are in the call in the image, and
 * all return the same. No other checkpoint ends the call.
 *
 * Further errors: EINVAL: the number. ETIMEDOUT: also, not all have called it within the
 * deadline of the job's phases (60 s unless told otherwise) after the first.
 */
int shadowverbs_checkpoint_together(int processes);

/*
 * No checkpoint is made from here to the matching end: one that is asked for waits for it,
 * within the deadline of its phases. When that is over the checkpoint fails, and names the rank.
 * Sections nest. One belongs to the thread that has begun it, and ends with that at the latest.
 *
 * While a checkpoint waits for other threads or ranks, a thread that begins a section waits,
 * too, but not for ever: where a section of another process can't end without it, it is let in.
 *
 * Errors: of shadowverbs_delay_end, EPERM: the thread is in none.
 */
int shadowverbs_delay_begin(void);
int shadowverbs_delay_end(void);

/*
 * `before` is called before each checkpoint, when the program still runs and may use verbs.
 * Unless it returns 0 there is no checkpoint: the number is told to whoever has asked for one.
 * `after` is called when the program runs again and may use verbs, once for each `before` that
 * has returned 0, with SHADOWVERBS_RESUMED, _RESTARTED or _GIVEN_UP. Either may be NULL.
 *
 * Both are called on a thread that is there for nothing else ("shadowverbs-call"), with all
 * signals blocked; the program's threads run meanwhile. A checkpoint waits for `before` for the
 * deadline of its phases.
 */
struct shadowverbs_callbacks {
	int (*before)(void *argument);
	void (*after)(void *argument, int outcome);
};

/*
 * Registers them, and returns their number, above 0. `before` is called in reverse order of
 * registration, `after` in its order. Errors: EINVAL: both are NULL. ENOSPC: there are
 * SHADOWVERBS_MAX_CALLBACKS.
 */
int shadowverbs_register(const struct shadowverbs_callbacks *callbacks, void *argument);

/*
 * Takes them back. When it returns none of them runs, unless it was called by one of them.
 * Errors: ENOENT: no such number.
 */
int shadowverbs_unregister(int number);

/* Why the last call of this thread that returned -1 has failed: one line, or an empty one. Good until the next call. */
const char *shadowverbs_problem(void);

#ifdef __cplusplus
}
#endif
#endif
