#include "end.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/die.h"
#include "open.h"
#include "run.h"

#define GREETING_MAGIC 0x74637063U
#define READ_BYTES 16384
#define SLOW_READ_BYTES 4096
/* Messages after which a sender that sends all the time rests for a moment, so that hundreds can do so. */
#define BURST 8
#define FAULTY_MESSAGE 20
#define MOST_FAULTS 20

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct end *all;

static uint32_t random_below(uint32_t bound)
{
	static _Thread_local uint64_t state;

	if (!state)
		state = (uintptr_t)&state | 1;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16) % bound;
}

static const char *state_name(int fd)
{
	static const char *const names[] = { "no state", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2",
		"TIME_WAIT", "CLOSE", "CLOSE_WAIT", "LAST_ACK", "LISTEN", "CLOSING" };
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) || info.tcpi_state >= sizeof(names) / sizeof(names[0]))
		return names[0];
	return names[info.tcpi_state];
}

static void describe(const struct end *end, char *text, size_t size)
{
	if (!end->role)
		snprintf(text, size, "a connection that has not said which it is, %s", state_name(end->fd));
	else
		snprintf(text, size, "connection %u of %u to %u (%s), %s here, %s, out %llu, in %llu", end->number, end->opener,
			 end->target, behaviours[end->kind].name, end->slot ? "opened" : "accepted", state_name(end->fd),
			 (unsigned long long)end->out.position, (unsigned long long)end->in.position);
}

static void fault(struct end *end, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void fault(struct end *end, const char *fmt, ...)
{
	static atomic_int faults;
	char what[200], which[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	describe(end, which, sizeof(which));
	fprintf(stderr, "%s: %s: %s\n", die_prefix(), which, what);
	end->broken = true;
	shutdown(end->fd, SHUT_RDWR); /* another thread may wait for it */
	if (atomic_fetch_add(&faults, 1) + 1 == MOST_FAULTS)
		die(0, "that is enough");
}

void end_error(struct end *end, int err, const char *call)
{
	run.errors++;
	fault(end, "%s: %s", call, strerror(err));
}

static struct end *end_new(int fd)
{
	struct end *end = calloc(1, sizeof(*end));

	if (!end)
		die(0, "out of memory");
	end->fd = fd;
	pthread_mutex_lock(&lock);
	end->next = all;
	if (all)
		all->before = end;
	all = end;
	pthread_mutex_unlock(&lock);
	return end;
}

static uint32_t sum(const struct greeting *greeting)
{
	return greeting->opener * 3 + greeting->target * 5 + greeting->number * 7 + greeting->kind * 11 + 1;
}

struct greeting greeting_of(uint32_t target, uint32_t number, enum kind kind)
{
	struct greeting greeting = { .magic = GREETING_MAGIC, .opener = run.settings.me, .target = target, .number = number,
		.kind = kind };

	greeting.sum = sum(&greeting);
	return greeting;
}

static void begin(struct end *end)
{
	bool opened = end->slot;

	end->role = opened ? &behaviours[end->kind].opener : &behaviours[end->kind].acceptor;
	end->out.seed = content_seed(end->opener, end->target, end->number, opened);
	end->in.seed = content_seed(end->opener, end->target, end->number, !opened);
	end->out.over = end->role->messages == 0;
	end->in.pause_until = now_ms() + end->role->first_read_ms + (end->role->first_read_ms ? random_below(1000) : 0);
}

struct end *end_accepted(int fd)
{
	return end_new(fd);
}

struct end *end_opened(int fd, uint32_t target, uint32_t number, enum kind kind, struct slot *slot)
{
	const struct greeting greeting = greeting_of(target, number, kind);
	struct end *end = end_new(fd);

	end->opener = run.settings.me;
	end->target = target;
	end->number = number;
	end->kind = kind;
	end->slot = slot;
	end->connecting = true;
	memcpy(end->out.bytes, &greeting, sizeof(greeting));
	end->out.length = sizeof(greeting);
	begin(end);
	end_set_options(end);
	return end;
}

static void set(struct end *end, int level, int option, int value)
{
	if (setsockopt(end->fd, level, option, &value, sizeof(value)))
		die(errno, "setsockopt(%d, %d)", level, option);
}

/* Large buffers of hundreds of connections would be large images: only those that never fill them keep the kernel's. */
void end_set_options(struct end *end)
{
	bool fills = behaviours[end->kind].opener.slow || behaviours[end->kind].acceptor.slow;

	if (fills) {
		set(end, SOL_SOCKET, SO_SNDBUF, end->number % 2 ? 16384 : 65536);
		set(end, SOL_SOCKET, SO_RCVBUF, end->number % 3 ? 8192 : 131072);
	}
	if (end->number % 4 == 0)
		set(end, IPPROTO_TCP, TCP_NODELAY, 1);
	if (end->kind == KIND_IDLE || end->number % 5 == 0) {
		set(end, SOL_SOCKET, SO_KEEPALIVE, 1);
		set(end, IPPROTO_TCP, TCP_KEEPIDLE, 1);
		set(end, IPPROTO_TCP, TCP_KEEPINTVL, 1);
	}
	if (end->kind == KIND_BLOCKING) {
		const struct linger linger = { .l_onoff = 1, .l_linger = 5 };

		if (setsockopt(end->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)))
			die(errno, "SO_LINGER");
	}
}

enum greeted end_greet(struct end *end)
{
	struct greeting *greeting = &end->greeting;
	ssize_t count = recv(end->fd, (uint8_t *)greeting + end->greeted, sizeof(*greeting) - end->greeted, MSG_DONTWAIT);

	if (count < 0 && (errno == EAGAIN || errno == EINTR))
		return GREETING_INCOMPLETE;
	if (count <= 0) {
		end_error(end, count ? errno : ENODATA, "the greeting");
		return GREETING_WRONG;
	}
	end->greeted += count;
	if (end->greeted < sizeof(*greeting))
		return GREETING_INCOMPLETE;
	if (greeting->magic != GREETING_MAGIC || greeting->sum != sum(greeting) || greeting->kind > KIND_LINE ||
	    greeting->target != (uint32_t)run.settings.me || greeting->opener >= (uint32_t)run.settings.processes) {
		run.damaged++;
		fault(end, "the greeting is damaged, or was for another process");
		return GREETING_WRONG;
	}
	end->opener = greeting->opener;
	end->target = greeting->target;
	end->number = greeting->number;
	end->kind = greeting->kind;
	if (end->kind != KIND_LINE) {
		begin(end);
		end_set_options(end);
		run.accepted_from[end->opener]++;
	}
	return GREETING_COMPLETE;
}

/* Does to a message what the other end has to find. Returns its new length. */
static size_t inject(struct end *end, size_t length)
{
	struct outgoing *out = &end->out;
	int kind = FAULT_NONE;

	if (end->kind != KIND_BUSY || out->message < FAULTY_MESSAGE || length < 2 * CONTENT_KNOWN)
		return length;
	kind = atomic_exchange(&run.fault, FAULT_NONE);
	switch (kind) {
	case FAULT_DROP:
		memmove(out->bytes + 5, out->bytes + 12, length - 12);
		return length - 7;
	case FAULT_DOUBLE:
		memcpy(out->bytes + length, out->bytes, length);
		return 2 * length;
	case FAULT_FLIP:
		out->bytes[length / 2] ^= 4;
		return length;
	case FAULT_RESET: {
		const struct linger linger = { .l_onoff = 1 };

		setsockopt(end->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		end->broken = true;
		return length;
	}
	default:
		return length;
	}
}

/* False: not now. */
static bool next_message(struct end *end)
{
	struct outgoing *out = &end->out;
	bool stop = run.stopping;
	size_t length;

	if (end->role->rests && out->message > 0 && !stop) {
		out->pause_until = now_ms() + 50;
		return false;
	}
	length = content_message_length(out->seed, out->message);
	content_fill(out->seed, out->position, out->bytes, length);
	out->message++;
	out->last = end->role->messages == UNTIL_STOP ? stop : out->message == end->role->messages;
	if (out->last)
		content_mark_last(out->bytes);
	out->position += length;
	out->length = inject(end, length);
	out->sent = 0;
	if (end->role->messages == UNTIL_STOP && out->message % BURST == 0)
		out->pause_until = now_ms() + random_below(80);
	return true;
}

bool end_write(struct end *end, bool blocking)
{
	struct outgoing *out = &end->out;

	while (!out->over && !end->broken) {
		ssize_t count;

		if (out->sent == out->length) {
			if (out->last) {
				out->over = true;
				if (!end->role->leaves && shutdown(end->fd, SHUT_WR))
					end_error(end, errno, "shutdown");
				break;
			}
			if (out->pause_until > now_ms() || !next_message(end))
				break;
		}
		count = send(end->fd, out->bytes + out->sent, out->length - out->sent,
			     MSG_NOSIGNAL | (blocking ? 0 : MSG_DONTWAIT));
		if (count >= 0)
			out->sent += count;
		else if (errno == EAGAIN)
			return false;
		else if (errno != EINTR)
			end_error(end, errno, "send");
	}
	return true;
}

/* Says what is wrong with bytes of which the first is not what it is to be, and how many of them are. */
static void judge(struct end *end, const uint8_t *bytes, size_t count, size_t wrong)
{
	int64_t ahead;

	if (count >= CONTENT_KNOWN && content_find(end->in.seed, end->in.position, bytes, &ahead)) {
		if (ahead > 0)
			run.lost += ahead;
		else
			run.doubled -= ahead;
		fault(end, "%lld bytes %s", (long long)llabs(ahead), ahead > 0 ? "lost" : "doubled");
	} else {
		run.damaged += wrong;
		fault(end, "%zu bytes damaged", wrong);
	}
}

/* Checks what has come, message by message. */
static void check(struct end *end, uint8_t *bytes, size_t count)
{
	struct incoming *in = &end->in;

	while (count && !end->broken) {
		size_t part, first, wrong;

		if (in->position == in->next_message) {
			uint8_t marked = bytes[0];

			if (in->last) {
				run.doubled += count;
				fault(end, "%zu bytes behind the last message", count);
				return;
			}
			content_mark_last(&marked);
			if (content_differ(in->seed, in->position, &marked, 1, &first) == 0) {
				in->last = true;
				bytes[0] = marked;
			}
			in->next_message += content_message_length(in->seed, in->message++);
		}
		part = in->next_message - in->position < count ? in->next_message - in->position : count;
		wrong = content_differ(in->seed, in->position, bytes, part, &first);
		if (wrong) {
			in->position += first;
			judge(end, bytes + first, count - first, wrong);
			return;
		}
		in->position += part;
		bytes += part;
		count -= part;
	}
}

static void end_of_stream(struct end *end)
{
	struct incoming *in = &end->in;
	bool silent = (end->slot ? behaviours[end->kind].acceptor : behaviours[end->kind].opener).messages == 0;

	in->over = true;
	if (!silent && (!in->last || in->position != in->next_message)) {
		run.lost++;
		fault(end, "it ends before its last message: 1 or more bytes lost");
	}
}

bool end_read(struct end *end, bool blocking)
{
	struct incoming *in = &end->in;
	uint8_t bytes[READ_BYTES];

	while (!in->over && !end->broken && in->pause_until <= now_ms()) {
		ssize_t count = recv(end->fd, bytes, end->role->slow ? SLOW_READ_BYTES : sizeof(bytes),
				     blocking ? 0 : MSG_DONTWAIT);

		if (count > 0) {
			run.received += count;
			check(end, bytes, count);
			if (end->role->slow && !run.stopping)
				in->pause_until = now_ms() + (random_below(100) ? random_below(20) : 500 + random_below(1500));
		} else if (count == 0) {
			end_of_stream(end);
		} else if (errno == EAGAIN) {
			return false;
		} else if (errno != EINTR) {
			end_error(end, errno, "recv");
		}
	}
	return true;
}

bool end_is_over(const struct end *end)
{
	return end->broken || (end->out.over && (end->in.over || end->role->leaves));
}

void end_close(struct end *end)
{
	close(end->fd);
	pthread_mutex_lock(&lock);
	if (end->next)
		end->next->before = end->before;
	if (end->before)
		end->before->next = end->next;
	else
		all = end->next;
	pthread_mutex_unlock(&lock);
	if (end->slot)
		slot_ended(end->slot);
	free(end);
}

bool ends_are_over(void)
{
	bool over;

	pthread_mutex_lock(&lock);
	over = !all;
	pthread_mutex_unlock(&lock);
	return over;
}

void ends_describe(const char *what)
{
	char which[200];

	pthread_mutex_lock(&lock);
	for (struct end *end = all; end; end = end->next) {
		describe(end, which, sizeof(which));
		fprintf(stderr, "%s: %s: %s\n", die_prefix(), which, what);
	}
	pthread_mutex_unlock(&lock);
}
