/*
 * A program that takes part in its checkpoints, step by step as its arguments say. Each step says what it has come to.
 */
#include "shadowverbs_program.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/die.h"

static bool is_there(const char *file)
{
	return access(file, F_OK) == 0;
}

static void wait_for(const char *file)
{
	while (!is_there(file))
		usleep(2000);
}

static void say(const char *what, int result)
{
	if (result < 0)
		printf("%s %d: %s\n", what, result, shadowverbs_problem());
	else
		printf("%s %d\n", what, result);
}

/* ---- callbacks ---- */

static int refusal;

static int before(void *name)
{
	printf("before %s\n", (const char *)name);
	return refusal;
}

static void after(void *name, int outcome)
{
	printf("after %s %d\n", (const char *)name, outcome);
}

static void callbacks(void)
{
	static const struct shadowverbs_callbacks both = { before, after };

	if (shadowverbs_register(&both, "a") < 0 || shadowverbs_register(&both, "b") < 0)
		die(errno, "shadowverbs_register: %s", shadowverbs_problem());
}

/* ---- the others ---- */

static void section(const char *file)
{
	shadowverbs_delay_begin();
	printf("section\n");
	wait_for(file);
	printf("section ends\n");
	shadowverbs_delay_end();
}

/* A process that has used verbs, and goes on with what it has made. */
static void verbs(void)
{
	static struct ibv_pd *pd;
	static char buffer[4096];
	static struct ibv_context *context;
	struct ibv_mr *mr;

	if (!context) {
		struct ibv_device **devices = ibv_get_device_list(NULL);

		context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
		pd = context ? ibv_alloc_pd(context) : NULL;
		ibv_free_device_list(devices);
	}
	mr = pd ? ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!mr || ibv_dereg_mr(mr))
		die(errno, "a region of a device");
	printf("verbs\n");
}

/* Two processes, each of which can end its section only when the other has come into one, too. */
static void in_step(const char *file)
{
	unsigned long rounds = 0;
	char byte = 0;
	int ends[2], end;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		die(errno, "socketpair");
	child = fork();
	if (child < 0)
		die(errno, "fork");
	end = ends[child ? 0 : 1];
	close(ends[child ? 1 : 0]);
	/* Both end in the same round: the one that has seen the file says so. */
	while (byte == 0) {
		byte = is_there(file);
		shadowverbs_delay_begin();
		if (write(end, &byte, 1) != 1)
			die(errno, "write");
		if (read(end, &byte, 1) != 1)
			die(0, "the other process has ended");
		shadowverbs_delay_end();
		if (++rounds == 100)
			printf("in step\n");
	}
	printf("in step to the end\n");
	/* With what the other has not read yet. */
	if (write(end, &byte, 1) == 1)
		shutdown(end, SHUT_WR);
	while (read(end, &byte, 1) > 0)
		;
	if (!child)
		exit(0);
}

static int number(const char *text)
{
	return text ? atoi(text) : 0;
}

int main(int count, char **words)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < count; i++) {
		const char *step = words[i], *next = i + 1 < count ? words[i + 1] : NULL;

		if (!strcmp(step, "available")) {
			say(step, shadowverbs_available());
		} else if (!strcmp(step, "verbs")) {
			verbs();
		} else if (!strcmp(step, "callbacks")) {
			callbacks();
		} else if (!strcmp(step, "checkpoint")) {
			say(step, shadowverbs_checkpoint());
		} else if (next && !strcmp(step, "together")) {
			say(step, shadowverbs_checkpoint_together(number(next)));
			i++;
		} else if (next && !strcmp(step, "refuse")) {
			refusal = number(next);
			printf("refuse %d\n", refusal);
			i++;
		} else if (next && !strcmp(step, "section")) {
			section(next);
			i++;
		} else if (next && !strcmp(step, "in-step")) {
			in_step(next);
			i++;
		} else if (next && !strcmp(step, "wait")) {
			wait_for(next);
			i++;
		} else {
			die(0, "usage: takes-part {available|verbs|callbacks|checkpoint|together N|refuse N|section FILE|in-step FILE|wait FILE}...");
		}
	}
	printf("done\n");
	return 0;
}
