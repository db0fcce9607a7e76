/* TCP connections between processes, in every state, that check every byte themselves: ../README.md. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/die.h"
#include "../common/work_clock.h"
#include "end.h"
#include "line.h"
#include "open.h"
#include "poller.h"
#include "run.h"

#define PAUSE_MS 10

struct run run;

static volatile sig_atomic_t signalled;

static void on_signal(int number)
{
	(void)number;
	signalled = 1;
}

static void catch_signals(void)
{
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

/* Every second process listens at all addresses of both families: IPv4 comes mapped into IPv6 then. */
static int listener(int process)
{
	struct place *place = &run.settings.places[process];
	struct sockaddr_in *address = (struct sockaddr_in *)&place->address;
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = address->sin_port };
	int fd;

	if (process % 2 == 0)
		return open_listener(&place->address, place->length);
	fd = open_listener((struct sockaddr_storage *)&any, sizeof(any));
	address->sin_port = any.sin6_port;
	return fd;
}

static void stop_when_due(struct work_clock *clock)
{
	const struct settings *settings = &run.settings;

	if (signalled || (settings->seconds && work_clock_read(clock) >= settings->seconds * NS_PER_S) ||
	    (settings->stop_file && !access(settings->stop_file, F_OK)))
		run.stopping = true;
}

static void check_deadline(struct work_clock *clock, uint64_t since, const char *what)
{
	if (work_clock_read(clock) - since < run.settings.deadline_s * NS_PER_S)
		return;
	ends_describe(what);
	die(0, "waited %d s: %s", run.settings.deadline_s, what);
}

static int result(void)
{
	printf("process %d: %llu connections, %llu bytes, %llu lost, %llu doubled, %llu damaged, %llu errors\n", run.settings.me,
	       run.opened, run.received, run.lost, run.doubled, run.damaged, run.errors);
	fflush(stdout);
	return run.lost || run.doubled || run.damaged || run.errors;
}

static int run_process(int me, int prompt)
{
	struct sockaddr_storage late = run.settings.places[me].address;
	struct work_clock clock;
	uint64_t stopped = 0;
	bool ready = false;
	int late_fd;

	die_name("tcpcheck: process %d", me);
	run.settings.me = me;
	run.fault = me == 0 ? (int)run.settings.fault : FAULT_NONE;
	catch_signals();
	((struct sockaddr_in *)&late)->sin_port = 0;
	late_fd = open_listener(&late, run.settings.places[me].length);
	lines_prepare();
	pollers_start();
	open_acceptors(prompt, late_fd);
	lines_open();
	work_clock_start(&clock);
	for (;;) {
		lines_tell_late_port(ntohs(((struct sockaddr_in *)&late)->sin_port));
		lines_listen(PAUSE_MS);
		stop_when_due(&clock);
		open_due();
		if (!ready && open_is_complete()) {
			printf("READY process %d\n", me);
			fflush(stdout);
			ready = true;
		}
		if (!ready && !run.stopping)
			check_deadline(&clock, 0, "not all processes have come");
		if (!run.stopping)
			continue;
		if (!stopped)
			stopped = work_clock_read(&clock);
		lines_stop();
		if (lines_are_over() && ends_are_over())
			return result();
		check_deadline(&clock, stopped, "not at its end");
	}
}

/* Listens for all before it forks, so that no port need be known. */
static int run_all(void)
{
	int fds[MAX_PROCESSES], failed = 0, status;
	pid_t pids[MAX_PROCESSES];

	for (int process = 0; process < run.settings.processes; process++) {
		struct place *place = &run.settings.places[process];

		if (run.settings.ipv6) {
			*(struct sockaddr_in6 *)&place->address = (struct sockaddr_in6){ .sin6_family = AF_INET6,
				.sin6_addr = IN6ADDR_LOOPBACK_INIT };
			place->length = sizeof(struct sockaddr_in6);
			place->name = "::1";
		} else {
			*(struct sockaddr_in *)&place->address = (struct sockaddr_in){ .sin_family = AF_INET,
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
			place->length = sizeof(struct sockaddr_in);
			place->name = "127.0.0.1";
		}
		fds[process] = listener(process);
	}
	for (int process = 0; process < run.settings.processes; process++) {
		pids[process] = fork();
		if (pids[process] < 0)
			die(errno, "fork");
		if (pids[process] == 0) {
			for (int other = 0; other < run.settings.processes; other++)
				if (other != process)
					close(fds[other]);
			exit(run_process(process, fds[process]));
		}
	}
	for (int process = 0; process < run.settings.processes; process++)
		close(fds[process]);
	/* A signal to this process alone is meant for all; one of them is enough. */
	catch_signals();
	for (int left = run.settings.processes; left;) {
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid < 0)
			die(errno, "waitpid");
		if (pid == 0) {
			if (signalled)
				kill(pids[0], SIGTERM);
			signalled = 0;
			work_clock_rest(PAUSE_MS * 1000);
			continue;
		}
		left--;
		failed |= status;
	}
	return failed != 0;
}

int main(int argc, char **argv)
{
	die_name("tcpcheck");
	settings_parse(&run.settings, argc, argv);
	return run.settings.me < 0 ? run_all() : run_process(run.settings.me, listener(run.settings.me));
}
