// SPDX-License-Identifier: Apache-2.0
/*
 * Connections that nobody has accepted yet go through shadowverbs-tcp-hold, and through shadowverbs-tcp-release as after a restart:
 * tcp_hold HOLD RELEASE. Clients and listeners are in this process. Root only: for others no connection is held.
 */
#define _GNU_SOURCE
#include "tcp_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_CONNECTIONS 8

static const char *program, *release;

/* ---- the program ---- */

struct holder {
	pid_t pid;
	FILE *commands, *answers;
};

static struct holder start_holder(void)
{
	struct holder holder;
	int in[2], out[2];

	CHECK(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	holder.pid = fork();
	CHECK(holder.pid >= 0);
	if (holder.pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	holder.commands = fdopen(in[1], "w");
	holder.answers = fdopen(out[0], "r");
	setvbuf(holder.commands, NULL, _IOLBF, 0);
	return holder;
}

__attribute__((format(printf, 2, 3))) static void tell(struct holder *holder, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vfprintf(holder->commands, format, values);
	va_end(values);
	fputc('\n', holder->commands);
	fflush(holder->commands);
}

/* The next line that it answers; the caller frees it. (Inlined, gcc 12 takes what getline() gives for what it is given.) */
static __attribute__((noinline)) char *answer(struct holder *holder)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t length = getline(&line, &size, holder->answers);

	CHECK(length > 0);
	line[length - 1] = 0;
	return line;
}

static void expect(struct holder *holder, const char *expected)
{
	char *line = answer(holder);

	if (strncmp(line, expected, strlen(expected))) {
		fprintf(stderr, "%s: \"%.200s\" instead of \"%s\"\n", test, line, expected);
		exit(1);
	}
	free(line);
}

static void end_holder(struct holder *holder, const char *last, int status)
{
	int ended;

	fclose(holder->commands);
	expect(holder, last);
	fclose(holder->answers);
	CHECK(waitpid(holder->pid, &ended, 0) == holder->pid && WIFEXITED(ended) && WEXITSTATUS(ended) == status);
}

static unsigned long inode(int fd)
{
	struct stat is;

	CHECK(!fstat(fd, &is));
	return is.st_ino;
}

/* ---- holding ---- */

struct waiting {
	unsigned long number, expected;
	int remote_port, finished;
	char *data;
};

/* Holds all; returns how many wait. */
static int hold(struct holder *holder, int listening, unsigned room, const struct connection *connections, int count,
		struct waiting *waiting)
{
	int found = 0;

	for (int i = 0; i < count; i++)
		if (connections[i].client >= 0)
			tell(holder, "take %d %d %lu", getpid(), connections[i].client, inode(connections[i].client));
	tell(holder, "listen %d %d %lu %u", getpid(), listening, inode(listening), room);
	tell(holder, "hold");
	expect(holder, "held ");
	tell(holder, "accept");
	for (;;) {
		char *line = answer(holder);
		struct waiting *one = &waiting[found];
		char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];
		int local_port;

		if (!strcmp(line, "accepted")) {
			free(line);
			return found;
		}
		CHECK(found < MOST_CONNECTIONS);
		CHECK(sscanf(line, "waits %lu %45s %d %45s %d %lu %d", &one->number, local, &local_port, remote, &one->remote_port,
			     &one->expected, &one->finished) == 7);
		CHECK(local_port == port_of(listening));
		one->data = strdup(strrchr(line, ' ') + 1);
		free(line);
		found++;
	}
}

static const struct waiting *of(const struct connection *connection, const struct waiting *waiting, int found)
{
	for (int i = 0; i < found; i++)
		if (waiting[i].remote_port == ntohs(((const struct sockaddr_in *)&connection->name)->sin_port))
			return &waiting[i];
	return NULL;
}

static void give_back(struct holder *holder, const struct connection *connection, const struct waiting *one)
{
	if (one)
		tell(holder, "again %d %d %lu %lu %s", getpid(), connection->client, inode(connection->client), one->expected, one->data);
	else
		tell(holder, "again %d %d %lu - -", getpid(), connection->client, inode(connection->client));
}

static void forget(struct waiting *waiting, int found)
{
	for (int i = 0; i < found; i++)
		free(waiting[i].data);
}

/* All of it, with client and server on one host. */
static void through(int listening, unsigned room, struct connection *connections, int count, int expected)
{
	struct waiting waiting[MOST_CONNECTIONS];
	struct holder holder = start_holder();
	int found = hold(&holder, listening, room, connections, count, waiting);

	CHECK(found == expected);
	for (int i = 0; i < count; i++)
		give_back(&holder, &connections[i], of(&connections[i], waiting, found));
	for (int i = 0; i < found; i++)
		tell(&holder, "passed %lu", waiting[i].number);
	tell(&holder, "check");
	expect(&holder, "ready");
	end_holder(&holder, "released", 0);
	forget(waiting, found);
}

/* ---- the tests ---- */

static void goes_through(const char *address, const char *client, size_t size, bool finish)
{
	int listening = listener(address, 4);
	struct connection connection = opened(client, port_of(listening), size);

	if (finish)
		shutdown(connection.client, SHUT_WR);
	settle(&connection);
	through(listening, 1, &connection, 1, 1);
	is_as_before(listening, &connection, finish);
	close(listening);
}

static void options_stay(void)
{
	int listening = listener("127.0.0.1", 4), on = 1, buffer = 32768, value;
	struct connection connection = opened("127.0.0.1", port_of(listening), 0);
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET };
	int watch = epoll_create1(EPOLL_CLOEXEC);
	socklen_t size = sizeof(value);

	test = "options";
	CHECK(!setsockopt(connection.client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	CHECK(!setsockopt(connection.client, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	CHECK(!setsockopt(connection.client, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)));
	CHECK(!fcntl(connection.client, F_SETFL, O_NONBLOCK));
	CHECK(!epoll_ctl(watch, EPOLL_CTL_ADD, connection.client, &event));
	send_some(&connection, MUCH);
	settle(&connection);
	through(listening, 1, &connection, 1, 1);
	CHECK(epoll_wait(watch, &event, 1, 0) == 0);
	CHECK(!getsockopt(connection.client, IPPROTO_TCP, TCP_NODELAY, &value, &size) && value);
	CHECK(!getsockopt(connection.client, SOL_SOCKET, SO_REUSEADDR, &value, &size) && value);
	CHECK(!getsockopt(connection.client, SOL_SOCKET, SO_SNDBUF, &value, &size) && value == 2 * buffer);
	CHECK(!getsockopt(connection.client, SOL_SOCKET, SO_ERROR, &value, &size) && !value);
	CHECK(fcntl(connection.client, F_GETFL) & O_NONBLOCK);
	is_as_before(listening, &connection, false);
	close(watch);
	close(listening);
}

static void bound_port_stays(const char *address)
{
	int listening = listener("127.0.0.1", 4);
	struct connection connection = { .client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	struct sockaddr_storage name;
	socklen_t length = parse(address, 0, &name);

	test = "bound port";
	CHECK(!bind(connection.client, (struct sockaddr *)&name, length));
	length = parse("127.0.0.1", port_of(listening), &name);
	CHECK(!connect(connection.client, (struct sockaddr *)&name, length));
	length = sizeof(connection.name);
	CHECK(!getsockname(connection.client, (struct sockaddr *)&connection.name, &length));
	send_some(&connection, 1000);
	settle(&connection);
	through(listening, 1, &connection, 1, 1);
	is_as_before(listening, &connection, false);
	close(listening);
}

/* A queue of one has room for two. That two more are on their way is what the caller says. */
static void full_queue(void)
{
	int listening = listener("127.0.0.1", 1);
	struct connection connections[2];
	bool seen[2] = { false };
	struct tcp_info info;
	socklen_t size = sizeof(info);

	test = "full queue";
	for (int i = 0; i < 2; i++) {
		connections[i] = opened("127.0.0.1", port_of(listening), 100 + i);
		settle(&connections[i]);
	}
	through(listening, 2, connections, 2, 2);
	CHECK(!getsockopt(listening, IPPROTO_TCP, TCP_INFO, &info, &size) && info.tcpi_unacked == 2 && info.tcpi_sacked == 1);
	through(listening, 4, connections, 2, 2);
	CHECK(!getsockopt(listening, IPPROTO_TCP, TCP_INFO, &info, &size) && info.tcpi_unacked == 2 && info.tcpi_sacked == 4);
	for (int i = 0; i < 2; i++) {
		struct sockaddr_storage peer;
		int server = accepted(listening, &peer);

		for (int j = 0; j < 2; j++)
			if (((struct sockaddr_in *)&connections[j].name)->sin_port == ((struct sockaddr_in *)&peer)->sin_port) {
				receives(server, connections[j].sent);
				seen[j] = true;
			}
		close(server);
	}
	CHECK(seen[0] && seen[1]);
	for (int i = 0; i < 2; i++)
		close(connections[i].client);
	close(listening);
}

/* ---- after a restart ---- */

/* What its other end has had, and that it expects next; then that end is gone, and nobody has heard of it. */
static uint32_t lose_other_end(int listening, FILE *had)
{
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC), on = 1, queue = TCP_RECV_QUEUE, size;
	uint32_t expected;
	socklen_t length = sizeof(expected);

	CHECK(fd >= 0 && !ioctl(fd, FIONREAD, &size));
	for (char byte; size > 0 && recv(fd, &byte, 1, MSG_DONTWAIT) == 1; size--)
		fputc(byte, had);
	CHECK(!fflush(had) && !setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)));
	CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue)));
	CHECK(!getsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &expected, &length));
	close(fd);
	return expected;
}

static void run_release(FILE *wanted, int status)
{
	char pid[16], file[32];
	int ended;
	pid_t child;

	fflush(wanted);
	snprintf(pid, sizeof(pid), "%d", getpid());
	snprintf(file, sizeof(file), "/proc/self/fd/%d", fileno(wanted));
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		execl(release, release, pid, file, (char *)NULL);
		_exit(127);
	}
	CHECK(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == status);
}

/* One whose client is there, beside another connection of the process's, and one whose client has been closed. */
static void restored(const char *address)
{
	int listening = listener(address, 4);
	FILE *had = tmpfile(), *closed_had = tmpfile(), *wanted = tmpfile();
	struct connection connection = opened(address, port_of(listening), 5000), closed = opened(address, port_of(listening), 70);
	struct connection other;
	struct linger at_once = { .l_onoff = 1 };
	struct sockaddr_storage peer;
	uint32_t expected;
	int server;

	test = "restored";
	settle(&connection);
	shutdown(closed.client, SHUT_WR);
	settle(&closed);
	expected = lose_other_end(listening, had);
	lose_other_end(listening, closed_had);
	other = opened(address, port_of(listening), 0);
	server = accepted(listening, &peer);
	setsockopt(closed.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(closed.client);
	closed.client = -1;
	fprintf(wanted, "again %s %d %s %d %u /proc/%d/fd/%d\n", address, ntohs(((struct sockaddr_in *)&connection.name)->sin_port), address,
		port_of(listening), expected, getpid(), fileno(had));
	fprintf(wanted, "closed %s %d %s %d - /proc/%d/fd/%d\n", address, ntohs(((struct sockaddr_in *)&closed.name)->sin_port), address,
		port_of(listening), getpid(), fileno(closed_had));
	run_release(wanted, 0);
	fclose(had);
	fclose(closed_had);
	is_as_before(listening, &closed, true);
	is_as_before(listening, &connection, false);
	CHECK(send(server, "s", 1, 0) == 1);
	wait_for(other.client, POLLIN);
	close(other.client);
	close(server);
	fclose(wanted);
	close(listening);
}

static void not_restored(void)
{
	FILE *wanted = tmpfile();

	test = "not restored";
	fputs("again 127.0.0.1 1 127.0.0.1 2 - -\n", wanted);
	run_release(wanted, 1);
	fclose(wanted);
}

/* Its client has closed it and is gone; only what it has sent is there. */
static void closed_client(void)
{
	int listening = listener("127.0.0.1", 4);
	struct connection connection = opened("127.0.0.1", port_of(listening), 5000);
	struct linger at_once = { .l_onoff = 1 };
	struct waiting waiting[MOST_CONNECTIONS];
	struct holder holder;

	test = "closed client";
	settle(&connection);
	shutdown(connection.client, SHUT_WR);
	settle(&connection);
	holder = start_holder();
	CHECK(hold(&holder, listening, 1, NULL, 0, waiting) == 1 && waiting[0].finished);
	/* So that nothing of it is left in the way; what this sends is not taken in. */
	setsockopt(connection.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(connection.client);
	connection.client = -1;
	tell(&holder, "closed 127.0.0.1 %d 127.0.0.1 %d %s", waiting[0].remote_port, port_of(listening), waiting[0].data);
	tell(&holder, "passed 0");
	tell(&holder, "check");
	expect(&holder, "ready");
	end_holder(&holder, "released", 0);
	is_as_before(listening, &connection, true);
	forget(waiting, 1);
	close(listening);
}

/* Client and server on two hosts: the client's is the first to make the connection, and meets what is there of the old one. */
static void old_end_in_the_way(void)
{
	int listening = listener("127.0.0.1", 4);
	struct connection connection = opened("127.0.0.1", port_of(listening), 3000);
	struct holder server = start_holder(), client = start_holder();
	struct waiting waiting[MOST_CONNECTIONS];

	test = "old end in the way";
	settle(&connection);
	CHECK(hold(&server, listening, 1, NULL, 0, waiting) == 1);
	tell(&client, "take %d %d %lu", getpid(), connection.client, inode(connection.client));
	tell(&client, "hold");
	expect(&client, "held 1");
	give_back(&client, &connection, &waiting[0]);
	tell(&client, "check");
	expect(&client, "ready");
	fclose(client.commands);
	usleep(300000); /* for its first segment to be lost; when it is not, there is less to see */
	tell(&server, "passed 0");
	end_holder(&server, "released", 0);
	expect(&client, "released");
	fclose(client.answers);
	CHECK(waitpid(client.pid, NULL, 0) == client.pid);
	is_as_before(listening, &connection, false);
	forget(waiting, 1);
	close(listening);
}

/* Nobody makes it again: its client is told. */
static void not_passed(bool killed)
{
	int listening = listener("127.0.0.1", 4);
	struct connection connection = opened("127.0.0.1", port_of(listening), killed ? 0 : 100);
	struct holder server = start_holder();
	struct waiting waiting[MOST_CONNECTIONS];
	char byte;

	test = killed ? "killed" : "not passed on";
	settle(&connection);
	CHECK(hold(&server, listening, 1, NULL, 0, waiting) == 1);
	if (killed) {
		kill(server.pid, SIGKILL);
		fclose(server.commands);
		fclose(server.answers);
		CHECK(waitpid(server.pid, NULL, 0) == server.pid);
	} else {
		end_holder(&server, "released", 0);
	}
	wait_for(connection.client, POLLIN);
	CHECK(recv(connection.client, &byte, 1, 0) <= 0);
	CHECK(killed || errno == ECONNRESET);
	close(connection.client);
	forget(waiting, 1);
	close(listening);
}

/* After a kill nobody makes anything again, and nobody hears of it. */
static void dropped(void)
{
	int listening = listener("127.0.0.1", 4);
	struct connection connection = opened("127.0.0.1", port_of(listening), 100);
	struct holder holder = start_holder();
	struct waiting waiting[MOST_CONNECTIONS];
	struct pollfd ready = { .fd = connection.client, .events = POLLIN };

	test = "dropped";
	settle(&connection);
	CHECK(hold(&holder, listening, 1, &connection, 1, waiting) == 1);
	give_back(&holder, &connection, &waiting[0]);
	tell(&holder, "drop");
	expect(&holder, "dropped");
	end_holder(&holder, "released", 0);
	ready.fd = listening;
	CHECK(poll(&ready, 1, 0) == 0);
	close(connection.client);
	forget(waiting, 1);
	close(listening);
}

static void refused(void)
{
	int listening = listener("127.0.0.1", 4);
	struct connection connection = opened("127.0.0.1", port_of(listening), 10);
	struct waiting waiting[MOST_CONNECTIONS];
	struct holder holder = start_holder();

	test = "listener gone";
	settle(&connection);
	CHECK(hold(&holder, listening, 1, &connection, 1, waiting) == 1);
	give_back(&holder, &connection, &waiting[0]);
	tell(&holder, "passed 0");
	tell(&holder, "check");
	expect(&holder, "ready");
	forget(waiting, 1);
	/* The other program has it, too: closing it here would be no end of it. */
	shutdown(listening, SHUT_RDWR);
	fclose(holder.commands);
	expect(&holder, "error the connection from port");
	expect(&holder, "released");
	fclose(holder.answers);
	CHECK(waitpid(holder.pid, NULL, 0) == holder.pid);
	close(connection.client);
	close(listening);
}

/* What a closed end still has to send comes to the other end, although nobody reads there. */
static void makes_room(const char *address)
{
	int listening = listener(address, 4), small = 8192, before, after, unread = 0;
	socklen_t length = sizeof(before);
	struct sockaddr_storage peer;
	struct connection connection;
	struct holder holder;
	char byte;
	int server;

	test = "room for what was closed";
	CHECK(!setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)));
	connection = opened(address, port_of(listening), MUCH);
	server = accepted(listening, &peer);
	close(connection.client);
	CHECK(!getsockopt(server, SOL_SOCKET, SO_RCVBUF, &before, &length));
	holder = start_holder();
	tell(&holder, "open %d %d %lu", getpid(), server, inode(server));
	for (int looks = 0; unread < (int)connection.sent; looks++) {
		CHECK(looks < DEADLINE_MS);
		tell(&holder, "tell");
		expect(&holder, "told");
		usleep(1000);
		CHECK(!ioctl(server, SIOCINQ, &unread));
	}
	tell(&holder, "take %d %d %lu", getpid(), server, inode(server));
	tell(&holder, "hold");
	expect(&holder, "held 1");
	CHECK(!getsockopt(server, SOL_SOCKET, SO_RCVBUF, &after, &length) && after == before);
	end_holder(&holder, "released", 0);
	receives(server, connection.sent);
	wait_for(server, POLLIN);
	CHECK(recv(server, &byte, 1, 0) == 0);
	close(server);
	close(listening);
}

static void wrong(const char *command)
{
	struct holder holder = start_holder();

	test = command;
	tell(&holder, "%s", command);
	end_holder(&holder, "error", 1);
}

int main(int argc, char **argv)
{
	char stale[64];

	if (argc != 3)
		return 2;
	if (geteuid()) {
		puts("  skipped: only root can hold connections");
		return 0;
	}
	program = argv[1];
	release = argv[2];
	signal(SIGPIPE, SIG_IGN);
	make_content();

	test = "IPv4";
	goes_through("127.0.0.1", "127.0.0.1", 0, false);
	goes_through("127.0.0.1", "127.0.0.1", 1, false);
	goes_through("127.0.0.1", "127.0.0.1", 5000, true);
	test = "finished without data";
	goes_through("127.0.0.1", "127.0.0.1", 0, true);
	test = "more than the window";
	goes_through("127.0.0.1", "127.0.0.1", MUCH, false);
	goes_through("127.0.0.1", "127.0.0.1", MUCH, true);
	test = "IPv6";
	goes_through("::1", "::1", 5000, true);
	test = "IPv4 within IPv6";
	goes_through("::", "127.0.0.1", 5000, false);
	goes_through("::", "::ffff:127.0.0.1", 5000, true);
	options_stay();
	bound_port_stays("127.0.0.1");
	bound_port_stays("0.0.0.0");
	full_queue();
	closed_client();
	old_end_in_the_way();
	restored("127.0.0.1");
	restored("::1");
	not_restored();
	not_passed(false);
	not_passed(true);
	dropped();
	refused();
	makes_room("127.0.0.1");
	makes_room("::1");
	wrong("nonsense");
	wrong("take 1");
	wrong("open 1");
	wrong("again 1 2 3 - 0");
	wrong("closed nowhere 1 127.0.0.1 2 -");
	wrong("passed 0");
	snprintf(stale, sizeof(stale), "take %d 0 1", getpid());
	wrong(stale);
	puts("  ok");
	return 0;
}
