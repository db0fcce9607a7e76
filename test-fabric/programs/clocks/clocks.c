/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clocks DEADLINE_MS STOP_FILE: holds a device open and looks at its clocks until the file is there. CLOCK_MONOTONIC and
 * CLOCK_BOOTTIME may never go back. A timerfd, a POSIX timer, an absolute sleep and a condition variable, all set to DEADLINE_MS
 * after the start, may not wake anybody before that; all must have when it ends. The last line says how much longer it has been
 * by the time of day than by each of the two clocks, in milliseconds: "gone MONOTONIC BOOTTIME". The time of day is never set back.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "../common/die.h"

#define NS 1000000000LL
#define MS 1000000LL

const char *const program_name = "clocks";

static int64_t start, length, deadline;
static struct timespec deadline_at;

static int64_t now(clockid_t clock)
{
	struct timespec at;

	if (clock_gettime(clock, &at))
		die(errno, "clock_gettime %d", clock);
	return at.tv_sec * NS + at.tv_nsec;
}

static void woken(const char *by)
{
	if (now(CLOCK_MONOTONIC) < deadline)
		die(0, "%s woke a sleeper before its time", by);
	printf("woken by %s\n", by);
}

static void *by_timerfd(void *unused)
{
	/* Not with TFD_TIMER_ABSTIME: of the time that it is then CRIU adds the whole seconds only, and it runs out too early. */
	struct itimerspec left = { .it_value = { length / NS, length % NS } };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	uint64_t times;

	if (fd < 0 || timerfd_settime(fd, 0, &left, NULL))
		die(errno, "timerfd");
	while (read(fd, &times, sizeof(times)) != sizeof(times))
		if (errno != EINTR)
			die(errno, "read of a timerfd");
	woken("a timerfd");
	return unused;
}

static void *by_timer(void *unused)
{
	struct itimerspec at = { .it_value = deadline_at };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	sigset_t set;
	timer_t timer;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, TIMER_ABSTIME, &at, NULL))
		die(errno, "timer");
	if (sigwait(&set, &number))
		die(0, "sigwait");
	woken("a timer");
	return unused;
}

static void *by_sleep(void *unused)
{
	int err;

	while ((err = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline_at, NULL)))
		if (err != EINTR)
			die(err, "clock_nanosleep");
	woken("clock_nanosleep");
	return unused;
}

static void *by_condition(void *unused)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&mutex);
	while (pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &deadline_at) != ETIMEDOUT)
		continue;
	pthread_mutex_unlock(&mutex);
	woken("a condition variable");
	return unused;
}

static void open_device(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;

	if (!context || !ibv_alloc_pd(context))
		die(errno, "no device that works");
}

int main(int argc, char **argv)
{
	static void *(*const sleepers[])(void *) = { by_timerfd, by_timer, by_sleep, by_condition };
	const int n = sizeof(sleepers) / sizeof(sleepers[0]);
	int64_t before, before_boot, start_boot, ahead, ahead_boot;
	struct timespec pause = { .tv_nsec = 2 * MS };
	pthread_t threads[n];
	sigset_t set;

	die_name("clocks");
	if (argc != 3)
		die_usage("usage: clocks DEADLINE_MS STOP_FILE");
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	open_device();

	before = start = now(CLOCK_MONOTONIC);
	before_boot = start_boot = now(CLOCK_BOOTTIME);
	ahead = now(CLOCK_REALTIME) - start;
	ahead_boot = now(CLOCK_REALTIME) - start_boot;
	length = parse_number("DEADLINE_MS", argv[1], 1, 1000000) * MS;
	deadline = start + length;
	deadline_at = (struct timespec){ deadline / NS, deadline % NS };
	for (int i = 0; i < n; i++)
		if ((errno = pthread_create(&threads[i], NULL, sleepers[i], NULL)))
			die(errno, "pthread_create");
	printf("ready\n");
	while (access(argv[2], F_OK)) {
		int64_t monotonic = now(CLOCK_MONOTONIC), boot = now(CLOCK_BOOTTIME);

		if (monotonic < before || boot < before_boot)
			die(0, "a clock went back by %lld ns", (long long)(monotonic < before ? before - monotonic : before_boot - boot));
		before = monotonic;
		before_boot = boot;
		nanosleep(&pause, NULL);
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	ahead = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC) - ahead;
	ahead_boot = now(CLOCK_REALTIME) - now(CLOCK_BOOTTIME) - ahead_boot;
	printf("gone %lld %lld\n", (long long)(ahead / MS), (long long)(ahead_boot / MS));
	return 0;
}
