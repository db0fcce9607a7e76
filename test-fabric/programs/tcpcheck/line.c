#include "line.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/die.h"
#include "../common/work_clock.h"
#include "end.h"
#include "open.h"
#include "run.h"

#define RECORD_MAGIC 0x6c696e65U
#define RETRY_US 20000

enum word { WORD_LATE_PORT, WORD_STOP, WORD_OPENED };

struct record {
	uint32_t magic, word, value, sum;
};

struct line {
	_Atomic int fd; /* -1: not there yet */
	bool told_port, told_stop, told_opened;
	bool heard_opened;
	uint32_t opened; /* by the other */
	struct record record; /* that is coming */
	size_t filled;
};

static struct line lines[MAX_PROCESSES];

static void open_line(int process)
{
	const struct place *place = &run.settings.places[process];
	struct work_clock clock;
	int error;

	work_clock_start(&clock);
	do {
		int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			die(errno, "socket");
		if (!connect(fd, (const struct sockaddr *)&place->address, place->length)) {
			const struct greeting greeting = greeting_of(process, 0, KIND_LINE);

			if (send(fd, &greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting))
				die(errno, "the line to process %d", process);
			lines[process].fd = fd;
			return;
		}
		error = errno;
		close(fd);
		work_clock_rest(RETRY_US);
	} while (work_clock_read(&clock) < run.settings.deadline_s * NS_PER_S);
	die(error, "waited %d s for process %d at %s to listen", run.settings.deadline_s, process, place->name);
}

void lines_prepare(void)
{
	for (int process = 0; process < run.settings.processes; process++)
		lines[process].fd = -1;
}

void lines_open(void)
{
	for (int process = run.settings.me + 1; process < run.settings.processes; process++)
		open_line(process);
}

void line_accepted(struct end *end)
{
	int fd = dup(end->fd);

	if (fd < 0)
		die(errno, "dup");
	lines[end->opener].fd = fd;
	end_close(end);
}

static void tell(int process, enum word word, uint32_t value)
{
	const struct record record = { RECORD_MAGIC, word, value, RECORD_MAGIC + 3 * word + 5 * value };

	/* A few bytes in all find room in any buffer. */
	if (send(lines[process].fd, &record, sizeof(record), MSG_NOSIGNAL) != sizeof(record))
		die(errno, "the line to process %d", process);
}

static void hear(int process, const struct record *record)
{
	if (record->magic != RECORD_MAGIC || record->sum != RECORD_MAGIC + 3 * record->word + 5 * record->value)
		die(0, "the line to process %d: damaged", process);
	switch (record->word) {
	case WORD_LATE_PORT:
		open_set_late_port(process, (uint16_t)record->value);
		break;
	case WORD_STOP:
		run.stopping = true;
		break;
	default:
		lines[process].opened = record->value;
		lines[process].heard_opened = true;
	}
}

static void receive(int process)
{
	struct line *line = &lines[process];
	ssize_t count = recv(line->fd, (uint8_t *)&line->record + line->filled, sizeof(line->record) - line->filled,
			     MSG_DONTWAIT);

	if (count < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (count <= 0) {
		if (count == 0 && line->heard_opened && line->filled == 0) {
			close(line->fd); /* It has ended, and may do so. */
			line->fd = -1;
			return;
		}
		die(count ? errno : 0, "the line to process %d has ended", process);
	}
	line->filled += count;
	if (line->filled == sizeof(line->record)) {
		hear(process, &line->record);
		line->filled = 0;
	}
}

void lines_tell_late_port(int port)
{
	for (int process = 0; process < run.settings.processes; process++) {
		if (lines[process].fd >= 0 && !lines[process].told_port) {
			tell(process, WORD_LATE_PORT, port);
			lines[process].told_port = true;
		}
	}
}

void lines_listen(int milliseconds)
{
	struct pollfd polled[MAX_PROCESSES];

	for (int process = 0; process < run.settings.processes; process++)
		polled[process] = (struct pollfd){ .fd = lines[process].fd, .events = POLLIN };
	if (poll(polled, run.settings.processes, milliseconds) < 0) {
		if (errno == EINTR)
			return;
		die(errno, "poll");
	}
	for (int process = 0; process < run.settings.processes; process++)
		if (polled[process].revents)
			receive(process);
}

void lines_stop(void)
{
	for (int process = 0; process < run.settings.processes; process++) {
		struct line *line = &lines[process];

		if (process == run.settings.me || line->fd < 0)
			continue;
		if (!line->told_stop)
			tell(process, WORD_STOP, 0);
		line->told_stop = true;
		if (!line->told_opened && open_is_over(process)) {
			tell(process, WORD_OPENED, open_count(process));
			line->told_opened = true;
		}
	}
}

bool lines_are_over(void)
{
	for (int process = 0; process < run.settings.processes; process++) {
		const struct line *line = &lines[process];

		if (process != run.settings.me && (!line->told_opened || !line->heard_opened ||
						   run.accepted_from[process] != line->opened))
			return false;
	}
	return true;
}
