/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's start, its failures, forks and exits: each in a child process of this one. */
#include "test.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static const struct shape shape = { .send_wr = 4, .recv_wr = 4, .sge = 1 };
static char said[8192];

/* Runs a function in a child; its stdout and stderr are in `said` afterwards. Returns its exit status. */
static int in_child(void (*function)(void))
{
	size_t length = 0;
	ssize_t got;
	int fds[2], status;
	pid_t pid;

	CHECK_EQUAL(pipe(fds), 0);
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		alarm(60);
		function();
		exit(0);
	}
	close(fds[1]);
	while ((got = read(fds[0], said + length, sizeof(said) - 1 - length)) > 0)
		length += got;
	said[length] = 0;
	close(fds[0]);
	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status))
		fprintf(stderr, "the child ended with status 0x%x and said: %s\n", status, said);
	CHECK(WIFEXITED(status));
	if (strstr(said, "Sanitizer"))
		fprintf(stderr, "%s", said);
	return WEXITSTATUS(status);
}

static void check_said(const char *text)
{
	if (!strstr(said, text))
		fprintf(stderr, "said: %s\n", said);
	CHECK(strstr(said, text));
}

static struct ibv_context *try_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	CHECK(list && list[0]);
	errno = 0;
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	return context;
}

static void cannot_start(void)
{
	CHECK(!try_open());
	CHECK_EQUAL(errno, EIO);
	CHECK(!try_open());
	CHECK_EQUAL(errno, EIO);
}

static void no_environment(void)
{
	unsetenv("SHADOWVERBS_JVM");
	cannot_start();
}

static void no_options_file(void)
{
	setenv("SHADOWVERBS_HOME", "/nonexistent", 1);
	cannot_start();
}

static void no_library(void)
{
	setenv("SHADOWVERBS_JVM", "/nonexistent/libjvm.so", 1);
	cannot_start();
}

static void no_main(void)
{
	setenv("DRIVER_HAS_NO_MAIN", "1", 1);
	cannot_start();
}

static void has_its_own_jvm(void)
{
	CHECK(dlopen(getenv("SHADOWVERBS_JVM"), RTLD_NOW));
	cannot_start();
}

static unsigned lines(void)
{
	unsigned count = 0;

	for (const char *at = said; (at = strchr(at, '\n')); at++)
		count++;
	return count;
}

static void failures_have_one_line(void)
{
	CHECK_EQUAL(in_child(no_environment), 0);
	check_said("SHADOWVERBS_HOME and SHADOWVERBS_JVM are not set");
	CHECK_EQUAL(lines(), 1);
	CHECK_EQUAL(in_child(no_options_file), 0);
	check_said("/nonexistent/lib/rank.options: No such file");
	CHECK_EQUAL(lines(), 1);
	CHECK_EQUAL(in_child(no_library), 0);
	check_said("/nonexistent/libjvm.so: cannot open");
	CHECK_EQUAL(lines(), 1);
	CHECK_EQUAL(in_child(no_main), 0);
	check_said("an exception in org/shadowverbs/driver/Rank");
	CHECK_EQUAL(lines(), 1);
	CHECK_EQUAL(in_child(has_its_own_jvm), 0);
	check_said("Java virtual machine of its own");
	CHECK_EQUAL(lines(), 1);
}

static void open_and_exit(void)
{
	struct fixture *f;

	setenv("DRIVER_SHOWS_OPTIONS", "1", 1);
	setenv("DRIVER_SAYS_EXIT", "1", 1);
	f = open_fixture(shape);
	close_fixture(f);
	exit(42);
}

static void options_and_goodbye(void)
{
	char home[4096];

	CHECK_EQUAL(in_child(open_and_exit), 42);
	check_said("option -Dfirst=1\n");
	snprintf(home, sizeof(home), "option -Dhome=%s/x\n", getenv("SHADOWVERBS_HOME"));
	check_said(home);
	CHECK(!strstr(said, "comment"));
	check_said("exit 42\n");
}

static void look_only(void)
{
	setenv("DRIVER_SHOWS_OPTIONS", "1", 1);
	setenv("DRIVER_SAYS_EXIT", "1", 1);
	ibv_fork_init();
	ibv_free_device_list(ibv_get_device_list(NULL));
}

/* A program that only lists devices starts no driver and says no goodbye. */
static void looking_costs_nothing(void)
{
	CHECK_EQUAL(in_child(look_only), 0);
	CHECK(!strstr(said, "option"));
	CHECK(!strstr(said, "exit"));
}

static struct fixture *parents;

static void use_in_grandchild(void)
{
	struct ibv_wc wc;

	errno = 0;
	CHECK(!ibv_reg_mr(parents->pd, parents->buffer, 1, 0));
	CHECK_EQUAL(errno, EOPNOTSUPP);
	CHECK(!try_open());
	/* What needs no driver does not hang either. */
	CHECK_EQUAL(ibv_poll_cq(parents->cq, 1, &wc), 0);
}

static void fork_after_start(void)
{
	parents = open_fixture(shape);
	/* Forked while the gate is closed: the child's is open. */
	close_gate();
	CHECK_EQUAL(in_child(use_in_grandchild), 0);
	check_said("ibv_reg_mr in a child forked from a rank");
	CHECK(!strstr(said, "exit"));
	sv_gate_open();
	CHECK_EQUAL(post_send(parents, 1, IBV_WR_SEND, 0), 0);
	close_fixture(parents);
}

static void child_of_a_rank(void)
{
	CHECK_EQUAL(in_child(fork_after_start), 0);
}

static void open_in_grandchild(void)
{
	close_fixture(open_fixture(shape));
}

static void fork_before_start(void)
{
	ibv_free_device_list(ibv_get_device_list(NULL));
	CHECK_EQUAL(in_child(open_in_grandchild), 0);
	open_in_grandchild();
}

/* Forked before the start: parent and child each have a driver of their own. */
static void child_of_none(void)
{
	CHECK_EQUAL(in_child(fork_before_start), 0);
}

static void *exit_soon(void *unused)
{
	(void)unused;
	exit(7);
}

static void exit_while_closed(void)
{
	pthread_t thread;

	setenv("DRIVER_SAYS_EXIT", "1", 1);
	parents = open_fixture(shape);
	close_gate();
	CHECK_EQUAL(pthread_create(&thread, NULL, exit_soon, NULL), 0);
	usleep(50000);
	printf("still here\n");
	fflush(stdout);
	sv_gate_open();
	pthread_join(thread, NULL);
}

/* A process does not vanish in the middle of a checkpoint. */
static void exit_passes_the_gate(void)
{
	CHECK_EQUAL(in_child(exit_while_closed), 7);
	check_said("still here\nexit 7\n");
}

static volatile sig_atomic_t alarms;

/* The two may come so close that the second interrupts the first, which a ++ in two instructions would not survive. */
static void count_alarm(int number)
{
	(void)number;
	__atomic_fetch_add(&alarms, 1, __ATOMIC_RELAXED);
}

static void use_timers(void)
{
	struct itimerspec in_a_while = { .it_value.tv_nsec = 30000000 }, left;
	struct itimerval alarm_in_a_while = { .it_value.tv_usec = 30000 }, alarm_left;
	timer_t one, idle;

	signal(SIGALRM, count_alarm);
	signal(SIGUSR1, count_alarm);
	CHECK_EQUAL(timer_create(CLOCK_MONOTONIC, &(struct sigevent){ .sigev_notify = SIGEV_SIGNAL,
								      .sigev_signo = SIGUSR1 }, &one), 0);
	CHECK_EQUAL(timer_create(CLOCK_REALTIME, &(struct sigevent){ .sigev_notify = SIGEV_SIGNAL,
								     .sigev_signo = SIGUSR1 }, &idle), 0);
	CHECK_EQUAL(timer_settime(one, 0, &in_a_while, NULL), 0);
	CHECK_EQUAL(setitimer(ITIMER_REAL, &alarm_in_a_while, NULL), 0);
	sv_timers_stop();
	CHECK_EQUAL(getitimer(ITIMER_REAL, &alarm_left), 0);
	CHECK_EQUAL(alarm_left.it_value.tv_usec, 0);
	CHECK_EQUAL(timer_gettime(one, &left), 0);
	CHECK_EQUAL(left.it_value.tv_nsec, 0);
	usleep(60000);
	CHECK_EQUAL(alarms, 0);
	sv_timers_start();
	for (int i = 0; i < 1000 && alarms < 2; i++)
		usleep(10000);
	CHECK_EQUAL(alarms, 2);
	CHECK_EQUAL(timer_gettime(idle, &left), 0);
	CHECK_EQUAL(left.it_value.tv_sec + left.it_value.tv_nsec, 0);

	/* What a thread outside of verbs has set meanwhile stays. */
	alarm(100);
	sv_timers_stop();
	alarm(200);
	sv_timers_start();
	CHECK(alarm(0) > 150);
	timer_delete(one);
	timer_delete(idle);
}

static void timers_stand_still(void)
{
	CHECK_EQUAL(in_child(use_timers), 0);
}

int main(void)
{
	RUN(failures_have_one_line);
	RUN(options_and_goodbye);
	RUN(looking_costs_nothing);
	RUN(child_of_a_rank);
	RUN(child_of_none);
	RUN(exit_passes_the_gate);
	RUN(timers_stand_still);
	return 0;
}
