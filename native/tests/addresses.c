/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose hosts have other addresses since a restart: 10.9.0.x are those that it knows, addresses of the
 * loopback network those that are there. The table comes, changes and goes while it runs, as an agent writes it.
 */
#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define A "10.9.0.1"
#define B "10.9.0.2"
#define A_NOW "127.0.0.11"
#define B_NOW "127.0.0.12"
#define MOVED "* " A " 0 " A_NOW " 0\n* " B " 0 " B_NOW " 0\n"
/* Both on one, at the address from which the kernel connects within the loopback network. */
#define ONE "127.0.0.1"
#define SHARED "origin a " A "\norigin b " B "\n* " A " 0 " ONE " 0\n* " B " 0 " ONE " 0\n"
#define THREADS 4

static char place[64], elsewhere[80];
static char program[PATH_MAX];

/* ---- The agent -------------------------------------------------------------------------------------------------- */

static void write_file(const char *folder, const char *name, const char *text)
{
	char part[256], path[256];
	FILE *file;

	snprintf(part, sizeof(part), "%s/%s.part", folder, name);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(part, "w");
	CHECK(file && fputs(text, file) >= 0 && !fclose(file) && !rename(part, path));
}

/* Nothing has changed there for long, so that a look may rely on that. */
static void age(const char *folder)
{
	const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };

	CHECK(!utimensat(AT_FDCWD, folder, old, 0));
}

static void restart(const char *table)
{
	write_file(place, "addresses", table);
}

static void forget(void)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/addresses", place);
	unlink(path);
}

/* ---- Sockets ---------------------------------------------------------------------------------------------------- */

static struct sockaddr_in at(const char *address, unsigned port)
{
	struct sockaddr_in result = { .sin_family = AF_INET, .sin_port = htons(port) };

	CHECK_EQUAL(inet_pton(AF_INET, address, &result.sin_addr), 1);
	return result;
}

static struct sockaddr_in6 at6(const char *address, unsigned port)
{
	struct sockaddr_in6 result = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	CHECK_EQUAL(inet_pton(AF_INET6, address, &result.sin6_addr), 1);
	return result;
}

static const void *bytes_of(const struct sockaddr *address)
{
	return address->sa_family == AF_INET ? (const void *)&((const struct sockaddr_in *)address)->sin_addr :
					       (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;
}

static void check_is(const struct sockaddr *actual, const char *address, unsigned port, int line)
{
	char text[INET6_ADDRSTRLEN];
	unsigned actual_port = ntohs(((struct sockaddr_in *)actual)->sin_port);

	inet_ntop(actual->sa_family, bytes_of(actual), text, sizeof(text));
	if (strcmp(text, address) || (port && actual_port != port)) {
		fprintf(stderr, "line %d: %s %u, not %s %u\n", line, text, actual_port, address, port);
		abort();
	}
}

#define IS(actual, address, port) check_is((struct sockaddr *)&(actual), address, port, __LINE__)

static struct sockaddr_storage end_of(int fd, bool peers)
{
	struct sockaddr_storage result;
	socklen_t length = sizeof(result);

	CHECK_EQUAL((peers ? getpeername : getsockname)(fd, (struct sockaddr *)&result, &length), 0);
	CHECK_EQUAL(length, result.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	return result;
}

#define ENDS(fd, own, own_port, peer, peer_port)                \
	do {                                                    \
		struct sockaddr_storage sv_end = end_of(fd, false); \
								\
		IS(sv_end, own, own_port);                      \
		sv_end = end_of(fd, true);                      \
		IS(sv_end, peer, peer_port);                    \
	} while (0)

static unsigned port_of(int fd)
{
	struct sockaddr_storage own = end_of(fd, false);

	return ntohs(((struct sockaddr_in *)&own)->sin_port);
}

static int open_socket(int family, int type)
{
	int fd = socket(family, type, 0);
	const int on = 1;

	CHECK(fd >= 0);
	CHECK_EQUAL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	return fd;
}

static void bind_to(int fd, const char *address, unsigned port)
{
	struct sockaddr_in own = at(address, port);

	CHECK_EQUAL(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
}

/* Listens at an address; port 0: at any, which port_of tells. */
static int listen_at(const char *address, unsigned port)
{
	int fd = open_socket(AF_INET, SOCK_STREAM);

	bind_to(fd, address, port);
	CHECK_EQUAL(listen(fd, 50), 0);
	return fd;
}

static int try_connect(int fd, const char *address, unsigned port)
{
	struct sockaddr_in there = at(address, port);
	int result = connect(fd, (struct sockaddr *)&there, sizeof(there));

	/* It is the program's, and stays as it is. */
	IS(there, address, port);
	return result;
}

static int connect_to(const char *address, unsigned port)
{
	int fd = open_socket(AF_INET, SOCK_STREAM);

	if (try_connect(fd, address, port)) {
		perror(address);
		abort();
	}
	return fd;
}

static int accepted(int fd)
{
	int result = accept(fd, NULL, NULL);

	CHECK(result >= 0);
	return result;
}

/* A port at which nobody listens. */
static unsigned free_port(const char *address)
{
	int fd = listen_at(address, 0);
	unsigned port = port_of(fd);

	close(fd);
	return port;
}

static void close_both(int one, int other)
{
	close(one);
	close(other);
}

/* ---- Connections ------------------------------------------------------------------------------------------------ */

static void before_a_restart_addresses_are_real(void)
{
	int listener = listen_at(A_NOW, 0), here, there;
	unsigned port = port_of(listener);

	here = connect_to(A_NOW, port);
	there = accepted(listener);
	ENDS(here, "127.0.0.1", 0, A_NOW, port);
	ENDS(there, A_NOW, port, "127.0.0.1", port_of(here));
	close_both(here, there);
	close(listener);
}

static void a_connection_reaches_the_host_where_it_is_now(void)
{
	int listener, here, there;
	struct sockaddr_storage peer;
	socklen_t length = sizeof(peer);
	unsigned port;

	restart(MOVED);
	listener = listen_at(B, 0);
	port = port_of(listener);
	here = open_socket(AF_INET, SOCK_STREAM);
	bind_to(here, A, 0);
	CHECK_EQUAL(try_connect(here, B, port), 0);
	there = accept(listener, (struct sockaddr *)&peer, &length);
	CHECK(there >= 0);
	CHECK_EQUAL(length, sizeof(struct sockaddr_in));
	IS(peer, A, port_of(here));
	ENDS(here, A, 0, B, port);
	ENDS(there, B, port, A, port_of(here));
	close_both(here, there);
	/* It is where the table says, and nowhere else. */
	forget();
	here = connect_to(B_NOW, port);
	length = sizeof(peer);
	there = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
	CHECK(fcntl(there, F_GETFD) & FD_CLOEXEC && fcntl(there, F_GETFL) & O_NONBLOCK);
	IS(peer, "127.0.0.1", 0);
	close_both(here, there);
	restart(MOVED);
	here = open_socket(AF_INET, SOCK_STREAM);
	bind_to(here, A, 0);
	CHECK_EQUAL(try_connect(here, B, port), 0);
	length = sizeof(peer);
	there = accept4(listener, (struct sockaddr *)&peer, &length, 0);
	IS(peer, A, 0);
	close_both(here, there);
	close(listener);
	forget();
}

static void errors_are_those_of_the_kernel(void)
{
	int fd = open_socket(AF_INET, SOCK_STREAM), status = 0;
	unsigned port = free_port(B_NOW);
	struct sockaddr_in here = at(A, 0), cut;
	struct pollfd ready;
	socklen_t length = sizeof(status);

	restart(MOVED);
	errno = 0;
	CHECK_EQUAL(try_connect(fd, B, port), -1);
	CHECK_EQUAL(errno, ECONNREFUSED);
	close(fd);

	fd = open_socket(AF_INET, SOCK_STREAM);
	CHECK_EQUAL(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	CHECK_EQUAL(try_connect(fd, B, port), -1);
	CHECK_EQUAL(errno, EINPROGRESS);
	ready = (struct pollfd){ .fd = fd, .events = POLLOUT };
	CHECK_EQUAL(poll(&ready, 1, 10000), 1);
	CHECK_EQUAL(getsockopt(fd, SOL_SOCKET, SO_ERROR, &status, &length), 0);
	CHECK_EQUAL(status, ECONNREFUSED);
	close(fd);

	fd = open_socket(AF_INET, SOCK_STREAM);
	errno = 0;
	CHECK_EQUAL(connect(-1, (struct sockaddr *)&here, sizeof(here)), -1);
	CHECK_EQUAL(errno, EBADF);
	CHECK_EQUAL(connect(fd, (struct sockaddr *)&here, 3), -1);
	CHECK_EQUAL(errno, EINVAL);
	length = sizeof(cut);
	CHECK_EQUAL(getpeername(fd, (struct sockaddr *)&cut, &length), -1);
	CHECK_EQUAL(errno, ENOTCONN);
	CHECK_EQUAL(accept(fd, (struct sockaddr *)&cut, &length), -1);
	CHECK_EQUAL(errno, EINVAL);
	/* Looking for the table leaves errno alone. */
	errno = ENOMSG;
	CHECK_EQUAL(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
	CHECK_EQUAL(errno, ENOMSG);
	/* An address that does not fit is cut, as the kernel does. */
	memset(&cut, 0x55, sizeof(cut));
	length = 4;
	CHECK_EQUAL(getsockname(fd, (struct sockaddr *)&cut, &length), 0);
	CHECK_EQUAL(length, sizeof(cut));
	CHECK_EQUAL(cut.sin_family, AF_INET);
	CHECK_EQUAL(cut.sin_addr.s_addr, 0x55555555);
	close(fd);
	forget();
}

static void a_nonblocking_connection_comes(void)
{
	int listener, fd = open_socket(AF_INET, SOCK_STREAM), there;
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	unsigned port;

	restart(SHARED);
	listener = listen_at(A, 0);
	port = port_of(listener);
	CHECK_EQUAL(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	CHECK(!try_connect(fd, A, port) || errno == EINPROGRESS);
	CHECK_EQUAL(poll(&ready, 1, 10000), 1);
	/* As programs do that ask by a second connect how the first has gone. */
	CHECK(!try_connect(fd, A, port) || errno == EISCONN);
	there = accepted(listener);
	ENDS(fd, A, 0, A, port);
	close_both(fd, there);
	close(listener);
	forget();
}

static void ipv6_too(void)
{
	struct sockaddr_in6 own = at6("fd09::2", 0), mapped = at6("::ffff:" A, 0), there;
	int listener = open_socket(AF_INET6, SOCK_STREAM), fd, other, v4;
	unsigned port;

	restart(MOVED "* fd09::2 0 ::1 0\n");
	CHECK_EQUAL(bind(listener, (struct sockaddr *)&own, sizeof(own)), 0);
	CHECK_EQUAL(listen(listener, 5), 0);
	port = port_of(listener);
	fd = open_socket(AF_INET6, SOCK_STREAM);
	there = at6("fd09::2", port);
	CHECK_EQUAL(connect(fd, (struct sockaddr *)&there, sizeof(there)), 0);
	other = accepted(listener);
	ENDS(fd, "fd09::2", 0, "fd09::2", port);
	close_both(fd, other);

	v4 = listen_at(A, 0);
	port = port_of(v4);
	fd = open_socket(AF_INET6, SOCK_STREAM);
	CHECK_EQUAL(bind(fd, (struct sockaddr *)&mapped, sizeof(mapped)), 0);
	there = at6("::ffff:" A, port);
	CHECK_EQUAL(connect(fd, (struct sockaddr *)&there, sizeof(there)), 0);
	other = accepted(v4);
	ENDS(fd, "::ffff:" A, 0, "::ffff:" A, port);
	ENDS(other, A, port, A, 0);
	close_both(fd, other);
	close_both(v4, listener);
	forget();
}

static void connected_datagrams(void)
{
	int one, other = open_socket(AF_INET, SOCK_DGRAM);
	char text[8] = "";

	restart(MOVED);
	bind_to(other, B, 0);
	one = open_socket(AF_INET, SOCK_DGRAM);
	CHECK_EQUAL(try_connect(one, B, port_of(other)), 0);
	CHECK_EQUAL(send(one, "hello", 5, 0), 5);
	CHECK_EQUAL(recv(other, text, sizeof(text), 0), 5);
	CHECK(!strcmp(text, "hello"));
	ENDS(one, "127.0.0.1", 0, B, port_of(other));
	close_both(one, other);
	forget();
}

static void datagrams_with_an_address(void)
{
	int one = open_socket(AF_INET, SOCK_DGRAM), other = open_socket(AF_INET, SOCK_DGRAM);
	struct sockaddr_storage from;
	struct sockaddr_in there;
	char text[8] = "";
	struct iovec data = { .iov_base = text, .iov_len = 5 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_name = &there, .msg_namelen = sizeof(there) };
	socklen_t length = sizeof(from);

	restart(MOVED);
	/* What is sent in the first moment may be lost. */
	usleep(50000);
	bind_to(one, A, 0);
	bind_to(other, B, 0);
	there = at(B, port_of(other));
	CHECK_EQUAL(sendto(one, "hello", 5, 0, (struct sockaddr *)&there, sizeof(there)), 5);
	CHECK_EQUAL(recvfrom(other, text, sizeof(text), 0, (struct sockaddr *)&from, &length), 5);
	CHECK(!strcmp(text, "hello") && length == sizeof(there));
	IS(from, A, port_of(one));
	CHECK_EQUAL(sendmsg(one, &message, 0), 5);
	IS(there, B, port_of(other));
	message.msg_name = &from;
	message.msg_namelen = sizeof(from);
	memset(&from, 0, sizeof(from));
	CHECK_EQUAL(recvmsg(other, &message, 0), 5);
	CHECK_EQUAL(message.msg_namelen, sizeof(there));
	IS(from, A, port_of(one));
	/* Without an address, as most are. */
	CHECK_EQUAL(connect(one, (struct sockaddr *)&there, sizeof(there)), 0);
	CHECK_EQUAL(sendto(one, "again", 5, 0, NULL, 0), 5);
	CHECK_EQUAL(recvfrom(other, text, sizeof(text), 0, NULL, NULL), 5);
	message.msg_name = NULL;
	CHECK_EQUAL(sendmsg(one, &message, 0), 5);
	CHECK_EQUAL(recvmsg(other, &message, 0), 5);
	CHECK(!strcmp(text, "again"));
	errno = 0;
	CHECK_EQUAL(recvfrom(other, text, sizeof(text), MSG_DONTWAIT, (struct sockaddr *)&from, &length), -1);
	CHECK_EQUAL(errno, EAGAIN);
	close_both(one, other);
	forget();
}

/* A program that listens again at the port that it knows listens at the one that it was given. */
static void a_port_that_moved(void)
{
	int listener, fd, there;
	unsigned port = free_port("0.0.0.0"), known = port == 7000 ? 7001 : 7000;
	char table[512];

	snprintf(table, sizeof(table), MOVED "* " A " %u " A_NOW " %u\na 0.0.0.0 %u 0.0.0.0 %u\n", known, port, known,
		 port);
	restart(table);
	listener = listen_at("0.0.0.0", known);
	CHECK_EQUAL(port_of(listener), known);
	fd = connect_to(A, known);
	there = accepted(listener);
	ENDS(fd, "127.0.0.1", 0, A, known);
	ENDS(there, A, known, "127.0.0.1", 0);
	close_both(fd, there);
	forget();
	fd = connect_to(A_NOW, port);
	close_both(fd, listener);
}

/* ---- Two hosts on one ------------------------------------------------------------------------------------------- */

static void who_connects_is_known_on_a_shared_host(void)
{
	int listener, fd, there, bound;
	unsigned port, chosen;

	restart(SHARED);
	listener = listen_at("0.0.0.0", 0);
	port = port_of(listener);
	fd = connect_to(A, port);
	there = accepted(listener);
	ENDS(fd, A, 0, A, port);
	ENDS(there, A, port, A, port_of(fd));
	close_both(fd, there);

	/* As Open MPI does: from an address of its own. */
	bound = open_socket(AF_INET, SOCK_STREAM);
	bind_to(bound, A, 0);
	CHECK_EQUAL(try_connect(bound, A, port), 0);
	there = accepted(listener);
	ENDS(bound, A, 0, A, port);
	ENDS(there, A, port, A, port_of(bound));
	close_both(bound, there);
	/* An address that is no host's is left alone, and so is a port. */
	bound = open_socket(AF_INET, SOCK_STREAM);
	chosen = free_port("127.0.0.5");
	bind_to(bound, "127.0.0.5", chosen);
	CHECK_EQUAL(try_connect(bound, A, port), 0);
	there = accepted(listener);
	ENDS(there, A, port, "127.0.0.5", chosen);
	close_both(bound, there);
	close(listener);
	forget();
}

/* The same socket may go elsewhere then. */
static void a_refused_connection_can_go_elsewhere(void)
{
	int listener, fd = open_socket(AF_INET, SOCK_STREAM), there;

	restart(SHARED "* 10.9.0.3 0 127.0.0.13 0\n");
	listener = listen_at("10.9.0.3", 0);
	CHECK_EQUAL(try_connect(fd, B, free_port(ONE)), -1);
	CHECK_EQUAL(errno, ECONNREFUSED);
	CHECK_EQUAL(try_connect(fd, "10.9.0.3", port_of(listener)), 0);
	there = accepted(listener);
	ENDS(there, "10.9.0.3", port_of(listener), A, port_of(fd));
	close_both(fd, there);
	close(listener);
	forget();
}

/* When none is left that would tell whose it is, another one does. */
static void every_port_is_taken(void)
{
	enum { HOSTS = 4000 };
	char *table = malloc(HOSTS * 80);
	size_t length = sprintf(table, "origin a " A "\n* " A " 0 " A_NOW " 0\n");
	int taken[16], count = 0, fd;
	struct sockaddr_storage own;

	for (int i = 0; i < HOSTS; i++)
		length += sprintf(table + length, "origin h%d 10.8.%d.%d\n* 10.8.%d.%d 0 " A_NOW " 0\n", i, i / 250,
				  i % 250, i / 250, i % 250);
	restart(table);
	free(table);
	/* It has eight ports of its own. */
	do {
		CHECK(count < (int)(sizeof(taken) / sizeof(*taken)));
		taken[count] = socket(AF_INET, SOCK_STREAM, 0);
		bind_to(taken[count], A, 0);
		own = end_of(taken[count], false);
		IS(own, A, 0);
		CHECK_EQUAL(listen(taken[count], 1), 0);
	} while (port_of(taken[count++]) % (HOSTS + 1) == 0);
	CHECK(count > 3);
	fd = connect_to(A, port_of(taken[0]));
	close(fd);
	while (count > 0)
		close(taken[--count]);
	forget();
}

/* A process of host b, started with what this one has: connects to its port, and says what it sees of the two ends. */
static void from_host_b(const char *port)
{
	int fd = connect_to(A, atoi(port));
	char c;

	ENDS(fd, B, 0, A, atoi(port));
	CHECK_EQUAL(read(fd, &c, 1), 0);
	exit(0);
}

/* Runs this program anew, as another process of the job. */
static pid_t start(const char *what, const char *port, const char *variable, const char *value)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		setenv(variable, value, 1);
		execl(program, program, what, port, NULL);
		_exit(127);
	}
	return pid;
}

static void check_succeeds(pid_t pid)
{
	int status;

	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	CHECK_EQUAL(status, 0);
}

static void two_hosts_that_came_back_on_one(void)
{
	struct sockaddr_storage peer;
	socklen_t length = sizeof(peer);
	int listener, there;
	char port[8];
	pid_t pid;

	restart(SHARED);
	listener = listen_at(A, 0);
	snprintf(port, sizeof(port), "%u", port_of(listener));
	pid = start("of host b", port, "SHADOWVERBS_ORIGIN", "b");
	there = accept(listener, (struct sockaddr *)&peer, &length);
	CHECK(there >= 0);
	IS(peer, B, 0);
	ENDS(there, A, atoi(port), B, 0);
	close_both(there, listener);
	check_succeeds(pid);
	forget();
}

/* Its own connections are to real addresses, which ib2tcp exchanges; here the whole program passes for its library. */
static void from_virtual_machine(const char *port)
{
	int fd = connect_to(B_NOW, atoi(port));

	ENDS(fd, "127.0.0.1", 0, B_NOW, atoi(port));
	exit(0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void the_virtual_machine_knows_real_addresses(void)
{
	int listener = listen_at(B_NOW, 0);
	char port[8], machine[PATH_MAX + 32];

	snprintf(port, sizeof(port), "%u", port_of(listener));
	snprintf(machine, sizeof(machine), "%.*s/server/libjvm.so", (int)(strrchr(program, '/') - program), program);
	restart("* " B_NOW " 0 127.0.0.99 0\n* " B " 0 " B_NOW " 0\n");
	check_succeeds(start("of the virtual machine", port, "SHADOWVERBS_JVM", machine));
	close(listener);
	forget();
}
#endif

/* What a program finds that looks for its host's addresses only now. */
static void addresses_of_interfaces(void)
{
	struct ifreq requests[32], request = { .ifr_name = "lo" };
	struct ifconf all = { .ifc_len = sizeof(requests), .ifc_req = requests }, length = { .ifc_len = 0 };
	struct ifaddrs *list;
	int found = 0, pipes[2], fd = open_socket(AF_INET, SOCK_DGRAM), unread = 0;

	restart(SHARED "* fd09::1 0 ::1 0\n");
	CHECK_EQUAL(getifaddrs(&list), 0);
	for (struct ifaddrs *at_if = list; at_if; at_if = at_if->ifa_next)
		if (at_if->ifa_addr && !strcmp(at_if->ifa_name, "lo") && at_if->ifa_addr->sa_family == AF_INET) {
			IS(*at_if->ifa_addr, A, 0);
			found++;
		} else if (at_if->ifa_addr && !strcmp(at_if->ifa_name, "lo") && at_if->ifa_addr->sa_family == AF_INET6) {
			IS(*at_if->ifa_addr, "fd09::1", 0);
		}
	freeifaddrs(list);
	CHECK_EQUAL(found, 1);
	CHECK_EQUAL(ioctl(fd, SIOCGIFADDR, &request), 0);
	IS(request.ifr_addr, A, 0);
	CHECK_EQUAL(ioctl(fd, SIOCGIFCONF, &all), 0);
	for (size_t i = 0; i < all.ifc_len / sizeof(*requests); i++)
		if (!strcmp(requests[i].ifr_name, "lo")) {
			IS(requests[i].ifr_addr, A, 0);
			found++;
		}
	CHECK_EQUAL(found, 2);
	/* How long the list would be. */
	CHECK_EQUAL(ioctl(fd, SIOCGIFCONF, &length), 0);
	CHECK(length.ifc_len >= all.ifc_len);
	/* Errors and other requests are as they were. */
	strcpy(request.ifr_name, "none");
	CHECK_EQUAL(ioctl(fd, SIOCGIFADDR, &request), -1);
	CHECK_EQUAL(errno, ENODEV);
	CHECK(!pipe(pipes) && write(pipes[1], "123", 3) == 3);
	CHECK_EQUAL(ioctl(pipes[0], FIONREAD, &unread), 0);
	CHECK_EQUAL(unread, 3);
	close_both(pipes[0], pipes[1]);
	close(fd);
	forget();
}

/* ---- The file --------------------------------------------------------------------------------------------------- */

static void check_reaches(const char *now)
{
	int listener = listen_at(now, 0), fd;

	fd = connect_to(A, port_of(listener));
	close_both(fd, listener);
}

static void a_change_is_seen(void)
{
	restart("* " A " 0 127.0.0.21 0\n");
	check_reaches("127.0.0.21");
	restart("* " A " 0 127.0.0.22 0\n");
	check_reaches("127.0.0.22");
	/* Also when nothing has changed for long and the last look was relied on. */
	age(place);
	check_reaches("127.0.0.22");
	check_reaches("127.0.0.22");
	restart("* " A " 0 127.0.0.23 0\n");
	check_reaches("127.0.0.23");
	forget();
	age(place);
	before_a_restart_addresses_are_real();
	restart("* " A " 0 127.0.0.24 0\n");
	check_reaches("127.0.0.24");
	forget();
}

/* The agent is elsewhere since a restart; the job's name has a slash. */
static void an_agent_that_moved(void)
{
	char socket[128], sign[128];

	snprintf(socket, sizeof(socket), "%s/agent.sock", elsewhere);
	write_file(elsewhere, "addresses", "* " A " 0 127.0.0.31 0\n");
	restart("* " A " 0 127.0.0.30 0\n");
	check_reaches("127.0.0.30");
	write_file(place, "moved-the_job", socket);
	check_reaches("127.0.0.31");
	age(place);
	age(elsewhere);
	check_reaches("127.0.0.31");
	write_file(elsewhere, "addresses", "* " A " 0 127.0.0.32 0\n");
	check_reaches("127.0.0.32");
	snprintf(sign, sizeof(sign), "%s/moved-the_job", place);
	unlink(sign);
	check_reaches("127.0.0.30");
	forget();
}

static void a_damaged_line_is_said(void)
{
	char said[512] = "", saved[256];
	int fd = open(place, O_TMPFILE | O_RDWR, 0600), before = dup(STDERR_FILENO);

	CHECK(fd >= 0 && before >= 0);
	restart("nonsense\n* " A " 0 127.0.0.41 0\n");
	fflush(stderr);
	dup2(fd, STDERR_FILENO);
	check_reaches("127.0.0.41");
	check_reaches("127.0.0.41");
	dup2(before, STDERR_FILENO);
	CHECK(pread(fd, said, sizeof(said) - 1, 0) > 0);
	snprintf(saved, sizeof(saved), "shadowverbs: line 1 of %s/addresses can't be read and is left out\n", place);
	CHECK(!strcmp(said, saved));
	close_both(fd, before);
	forget();
}

static void a_forked_child_has_it_too(void)
{
	int status;
	pid_t pid;

	restart("* " A " 0 127.0.0.51 0\n");
	check_reaches("127.0.0.51");
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		check_reaches("127.0.0.51");
		restart("* " A " 0 127.0.0.52 0\n");
		check_reaches("127.0.0.52");
		exit(0);
	}
	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	CHECK_EQUAL(status, 0);
	check_reaches("127.0.0.52");
	forget();
}

static unsigned listening[2];
static bool over;

static void *connects(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		int fd = connect_to(A, 7777);
		struct sockaddr_storage peer = end_of(fd, true);

		/* The table may have changed since; it is never half of one and half of another. */
		CHECK(((struct sockaddr_in *)&peer)->sin_port == htons(7777) ||
		      ((struct sockaddr_in *)&peer)->sin_port == htons(listening[0]) ||
		      ((struct sockaddr_in *)&peer)->sin_port == htons(listening[1]));
		close(fd);
	}
	return NULL;
}

static void *accepts(void *fd)
{
	int there;

	while ((there = accept(*(int *)fd, NULL, NULL)) >= 0)
		close(there);
	return NULL;
}

static void threads_while_the_table_changes(void)
{
	pthread_t threads[THREADS], accepting[2];
	int listeners[2] = { listen_at("127.0.0.61", 0), listen_at("127.0.0.62", 0) };
	char tables[2][128];

	for (int i = 0; i < 2; i++) {
		listening[i] = port_of(listeners[i]);
		snprintf(tables[i], sizeof(tables[i]), "* " A " 7777 127.0.0.6%d %u\n", i + 1, listening[i]);
		CHECK_EQUAL(pthread_create(&accepting[i], NULL, accepts, &listeners[i]), 0);
	}
	restart(tables[0]);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, connects, NULL), 0);
	for (int i = 0; i < 50; i++) {
		restart(tables[i % 2]);
		usleep(2000);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 2; i++) {
		shutdown(listeners[i], SHUT_RDWR);
		pthread_join(accepting[i], NULL);
		close(listeners[i]);
	}
	forget();
}

/* ---- Names ------------------------------------------------------------------------------------------------------ */

/* Which of the first three it is depends on the C library's version. */
static const char *problem_of(int result)
{
	if (result == EAI_NONAME || result == EAI_NODATA || result == EAI_ADDRFAMILY)
		return "no address";
	return result == EAI_SERVICE ? "no service" : gai_strerror(result);
}

static void named(const char *name, const char *service, struct addrinfo hints, const char *expected, int line)
{
	char found[512] = "", text[INET6_ADDRSTRLEN];
	struct addrinfo *list = NULL;
	int result = getaddrinfo(name, service, &hints, &list);

	if (result)
		snprintf(found, sizeof(found), "%s", problem_of(result));
	for (struct addrinfo *a = list; a; a = a->ai_next) {
		size_t length = strlen(found);

		snprintf(found + length, sizeof(found) - length, "%s%s:%u%s%s", a == list ? "" : " ",
			 inet_ntop(a->ai_family, bytes_of(a->ai_addr), text, sizeof(text)),
			 ntohs(((struct sockaddr_in *)a->ai_addr)->sin_port), a->ai_canonname ? "=" : "",
			 a->ai_canonname ? a->ai_canonname : "");
	}
	if (list)
		freeaddrinfo(list);
	if (strcmp(found, expected)) {
		fprintf(stderr, "line %d: %s is %s, not %s\n", line, name, found, expected);
		abort();
	}
}

#define NAMED(name, service, expected, ...) \
	named(name, service, (struct addrinfo){ .ai_socktype = SOCK_STREAM, __VA_ARGS__ }, expected, __LINE__)

static void names_of_the_jobs_hosts(void)
{
	struct addrinfo *list;

	NAMED("node2.of.the.job", "80", "no address", .ai_flags = AI_NUMERICHOST);
	restart("name node2.of.the.job " B "\nname node3 10.9.0.3\nname node3 fd09::3\n"
		"name localhost " A "\nname 127.0.0.1 " A "\n");
	NAMED("node2.of.the.job", "80", B ":80");
	NAMED("NODE2.of.the.job.", "80", B ":80");
	NAMED("node2.of.the.job", NULL, B ":0");
	if (getservbyname("ssh", "tcp"))
		NAMED("node2.of.the.job", "ssh", B ":22");
	NAMED("node2.of.the.job", "no such service", "no service");
	NAMED("node2.of.the.job", "ssh", "no address", .ai_flags = AI_NUMERICSERV);
	NAMED("node2.of.the.job", "80", "no address", .ai_flags = AI_NUMERICHOST);
	NAMED("node2.of.the.job", "80", B ":80=node2.of.the.job", .ai_flags = AI_CANONNAME);
	NAMED("node2.of.the.job", "80", "no address", .ai_family = AF_INET6);
	NAMED("node2.of.the.job", "80", "::ffff:" B ":80", .ai_family = AF_INET6, .ai_flags = AI_V4MAPPED);
	NAMED("node3", "80", "10.9.0.3:80 fd09::3:80");
	NAMED("node3", "80", "10.9.0.3:80=node3 fd09::3:80", .ai_flags = AI_CANONNAME);
	NAMED("node3", "80", "10.9.0.3:80", .ai_family = AF_INET);
	NAMED("node3", "80", "fd09::3:80", .ai_family = AF_INET6);
	NAMED("node3", "80", "fd09::3:80", .ai_family = AF_INET6, .ai_flags = AI_V4MAPPED);
	NAMED("node3", "80", "::ffff:10.9.0.3:80 fd09::3:80", .ai_family = AF_INET6, .ai_flags = AI_V4MAPPED | AI_ALL);
	NAMED("localhost", "80", A ":80");
	NAMED("127.0.0.1", "80", "127.0.0.1:80");
	NAMED(NULL, "80", "127.0.0.1:80", .ai_family = AF_INET);
	CHECK_EQUAL(getaddrinfo("node2.of.the.job", "80", NULL, &list), 0);
	freeaddrinfo(list);
	CHECK_EQUAL(getaddrinfo(NULL, NULL, NULL, &list), EAI_NONAME);
	forget();
	NAMED("localhost", "80", "127.0.0.1:80", .ai_family = AF_INET);
}

static void check_host(const struct hostent *host, const char *name, const char *address, int family)
{
	char text[INET6_ADDRSTRLEN];

	CHECK(host && !strcmp(host->h_name, name) && !host->h_aliases[0] && !host->h_addr_list[1]);
	CHECK_EQUAL(host->h_addrtype, family);
	CHECK_EQUAL(host->h_length, family == AF_INET ? 4 : 16);
	CHECK(!strcmp(inet_ntop(family, host->h_addr_list[0], text, sizeof(text)), address));
}

static void older_functions_for_names(void)
{
	struct hostent host, *result;
	char buffer[200];
	int problem;

	restart("name node3 10.9.0.3\nname node3 fd09::3\nname node2 " B "\n");
	check_host(gethostbyname("node3"), "node3", "10.9.0.3", AF_INET);
	check_host(gethostbyname2("node3", AF_INET), "node3", "10.9.0.3", AF_INET);
	check_host(gethostbyname2("node3", AF_INET6), "node3", "fd09::3", AF_INET6);
	CHECK(!gethostbyname2("node2", AF_INET6));
	CHECK_EQUAL(h_errno, NO_DATA);
	check_host(gethostbyname("127.0.0.1"), "127.0.0.1", "127.0.0.1", AF_INET);
	/* At an address that is not aligned, and one byte too short. */
	for (size_t size = 0; size < sizeof(buffer) - 1; size++) {
		int status = gethostbyname_r("node3", &host, buffer + 1, size, &result, &problem);

		CHECK(status ? status == ERANGE && !result && problem == NETDB_INTERNAL : result == &host && size > 30);
		if (!status)
			check_host(result, "node3", "10.9.0.3", AF_INET);
	}
	CHECK_EQUAL(gethostbyname2_r("node3", AF_INET6, &host, buffer, sizeof(buffer), &result, &problem), 0);
	check_host(result, "node3", "fd09::3", AF_INET6);
	CHECK_EQUAL(gethostbyname2_r("node2", AF_INET6, &host, buffer, sizeof(buffer), &result, &problem), 0);
	CHECK(!result && problem == NO_DATA);
	forget();
}

int main(int argc, char **argv)
{
	char socket[128];

	CHECK(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
	if (argc > 2)
		(strcmp(argv[1], "of host b") ? from_virtual_machine : from_host_b)(argv[2]);
	if (!getenv("ADDRESSES_PLACE")) {
		char folder[] = "/tmp/addresses-XXXXXX";

		/* The library looks at the environment once. */
		CHECK(mkdtemp(folder));
		snprintf(socket, sizeof(socket), "%s/agent.sock", folder);
		setenv("ADDRESSES_PLACE", folder, 1);
		setenv("SHADOWVERBS_AGENT", socket, 1);
		setenv("SHADOWVERBS_JOB", "the/job", 1);
		setenv("SHADOWVERBS_ORIGIN", "a", 1);
		execv(program, argv);
		abort();
	}
	snprintf(place, sizeof(place), "%s", getenv("ADDRESSES_PLACE"));
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", place);
	CHECK_EQUAL(mkdir(elsewhere, 0700), 0);
	alarm(120);
	RUN(before_a_restart_addresses_are_real);
	RUN(a_connection_reaches_the_host_where_it_is_now);
	RUN(errors_are_those_of_the_kernel);
	RUN(a_nonblocking_connection_comes);
	RUN(ipv6_too);
	RUN(connected_datagrams);
	RUN(datagrams_with_an_address);
	RUN(a_port_that_moved);
	RUN(who_connects_is_known_on_a_shared_host);
	RUN(a_refused_connection_can_go_elsewhere);
	RUN(every_port_is_taken);
	RUN(two_hosts_that_came_back_on_one);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	/* Their functions would be the callers. */
	RUN(the_virtual_machine_knows_real_addresses);
#endif
	RUN(addresses_of_interfaces);
	RUN(a_change_is_seen);
	RUN(an_agent_that_moved);
	RUN(a_damaged_line_is_said);
	RUN(a_forked_child_has_it_too);
	RUN(threads_while_the_table_changes);
	RUN(names_of_the_jobs_hosts);
	RUN(older_functions_for_names);
	snprintf(socket, sizeof(socket), "rm -r %s", place);
	return system(socket);
}
