/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts established TCP connections of other processes, one at a time, at random: half of them in good order
 * (shutdown(2), what was sent still arrives), half by a reset (what is under way in both directions is lost). The
 * descriptor is taken out of the process with pidfd_getfd(2), so that it is the very connection that the process uses.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../common/die.h"

#define MOST_CONNECTIONS 4096
/* While connections are made anew there may be none to be found. */
#define TRIES_PER_CUT 100

/* Of tcpi_state; <netinet/tcp.h> has it, but not the counts of bytes that the kernel's header has. */
enum { STATE_ESTABLISHED = 1 };

static const char usage[] =
"usage: cut-tcp [options] PID...\n"
"Cuts IPv4 TCP connections of these processes, one at a time and chosen at random.\n"
"  --cuts N       how many (100)          --pause US     longest pause between two (20000)\n"
"  --seed N       of the choices (1)      --moved BYTES  that a connection has moved each way before it is cut (0)\n"
"Prints how many it cut, and ends with status 0 when it was all; a process that has ended has no connections.\n";

static int established(int fd, unsigned long long moved)
{
	struct sockaddr_in peer;
	socklen_t size = sizeof(peer);
	struct tcp_info info;
	socklen_t info_size = sizeof(info);

	return !getpeername(fd, (struct sockaddr *)&peer, &size) && peer.sin_family == AF_INET &&
	       !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_size) && info.tcpi_state == STATE_ESTABLISHED &&
	       info.tcpi_bytes_acked >= moved && info.tcpi_bytes_received >= moved;
}

/* Adds copies of the process's connections to fds; returns how many there are then. */
static int collect(pid_t pid, unsigned long long moved, int *fds, int count)
{
	char path[64];
	int pidfd = syscall(SYS_pidfd_open, pid, 0);
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = pidfd < 0 ? NULL : opendir(path);
	while (dir && (entry = readdir(dir)) && count < MOST_CONNECTIONS) {
		int fd = entry->d_name[0] == '.' ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, atoi(entry->d_name), 0);

		if (fd >= 0 && established(fd, moved))
			fds[count++] = fd;
		else if (fd >= 0)
			close(fd);
	}
	if (dir)
		closedir(dir);
	if (pidfd >= 0)
		close(pidfd);
	return count;
}

static void cut(int fd)
{
	static const struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (random() & 1)
		shutdown(fd, SHUT_RDWR);
	else
		connect(fd, &none, sizeof(none));	/* tcp_disconnect: a reset, and both queues are thrown away */
}

static void pause_for(unsigned long long longest_us)
{
	unsigned long long us = random() % (longest_us + 1);
	struct timespec time = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "cuts", required_argument, NULL, 'c' }, { "pause", required_argument, NULL, 'p' },
		{ "seed", required_argument, NULL, 's' }, { "moved", required_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' }, { 0 },
	};
	unsigned long long cuts = 100, pause_us = 20000, moved = 0, seed = 1, done = 0, tries = 0;
	int fds[MOST_CONNECTIONS], option;

	die_name("cut-tcp");
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option) {
		case 'c': cuts = parse_number("--cuts", optarg, 1, 1000000); break;
		case 'p': pause_us = parse_number("--pause", optarg, 0, 60000000); break;
		case 's': seed = parse_number("--seed", optarg, 0, UINT32_MAX); break;
		case 'm': moved = parse_number("--moved", optarg, 0, UINT32_MAX); break;
		case 'h': fputs(usage, stdout); return 0;
		default: fputs(usage, stderr); return 2;
		}
	if (optind == argc)
		die_usage("of which processes? --help says more");
	srandom(seed);
	for (; done < cuts && tries < cuts * TRIES_PER_CUT; tries++) {
		int count = 0, chosen;

		for (int i = optind; i < argc; i++)
			count = collect(parse_number("PID", argv[i], 1, INT32_MAX), moved, fds, count);
		if (count) {
			chosen = random() % count;
			cut(fds[chosen]);
			done++;
		}
		for (int i = 0; i < count; i++)
			close(fds[i]);
		pause_for(pause_us);
	}
	printf("%llu connections cut\n", done);
	return done == cuts ? 0 : 1;
}
