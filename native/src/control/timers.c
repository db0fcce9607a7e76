/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The application's timers stand still while its image is taken. CRIU reads the signals that wait for a process first and
 * its timers later: one that ran out in between would be in neither, and a program that lives on alarm(2) would never
 * hear of it again. CPU-time timers stand still by themselves, since the process does.
 */
#include "base/base.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MOST_TIMERS 256

static struct itimerval interval_timer;
static struct {
	int id;
	struct itimerspec left;
} timers[MOST_TIMERS];
static unsigned int timer_count;

static bool is_armed(const struct itimerspec *spec)
{
	return spec->it_value.tv_sec || spec->it_value.tv_nsec;
}

static void stop_posix_timer(int id)
{
	static const struct itimerspec stopped;
	struct itimerspec *left = &timers[timer_count].left;

	if (timer_count == MOST_TIMERS || syscall(SYS_timer_settime, id, 0, &stopped, left) || !is_armed(left))
		return;
	timers[timer_count++].id = id;
}

/* proc(5): for each timer a line "ID: n" and one "ClockID: n", which is negative for CPU time. */
static void stop_posix_timers(void)
{
	static char text[MOST_TIMERS * 80];
	int fd = open("/proc/self/timers", O_RDONLY | O_CLOEXEC), id = -1, clock;
	ssize_t length = 0, got;

	if (fd < 0)
		return;		/* a kernel without this file has no CRIU either */
	while ((got = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += got;
	close(fd);
	text[length] = '\0';
	for (char *line = text; *line; line += *line == '\n') {
		if (sscanf(line, "ClockID: %d", &clock) == 1) {
			if (id >= 0 && clock >= 0 && clock != CLOCK_PROCESS_CPUTIME_ID &&
			    clock != CLOCK_THREAD_CPUTIME_ID)
				stop_posix_timer(id);
			id = -1;
		} else if (*line == 'I') {
			sscanf(line, "ID: %d", &id);
		}
		line += strcspn(line, "\n");
	}
}

void sv_timers_stop(void)
{
	static const struct itimerval stopped;

	timer_count = 0;
	if (setitimer(ITIMER_REAL, &stopped, &interval_timer))
		interval_timer = stopped;
	stop_posix_timers();
}

/* One that was set meanwhile, by a thread that needs no verbs, is left as it is. */
void sv_timers_start(void)
{
	struct itimerval now;

	if ((interval_timer.it_value.tv_sec || interval_timer.it_value.tv_usec) && !getitimer(ITIMER_REAL, &now) &&
	    !now.it_value.tv_sec && !now.it_value.tv_usec)
		setitimer(ITIMER_REAL, &interval_timer, NULL);
	for (unsigned int i = 0; i < timer_count; i++) {
		struct itimerspec left;

		if (!syscall(SYS_timer_gettime, timers[i].id, &left) && !is_armed(&left))
			syscall(SYS_timer_settime, timers[i].id, 0, &timers[i].left, NULL);
	}
	memset(&interval_timer, 0, sizeof(interval_timer));
	timer_count = 0;
}
