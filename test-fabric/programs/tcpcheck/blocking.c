#include "blocking.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

#include "../common/die.h"
#include "../common/work_clock.h"
#include "end.h"
#include "run.h"

#define STACK (128 << 10)

static pthread_t start(void *(*work)(void *), struct end *end)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	error = pthread_create(&thread, &attributes, work, end);
	if (error)
		die(error, "pthread_create");
	pthread_attr_destroy(&attributes);
	return thread;
}

static void rest_until(uint64_t until)
{
	uint64_t now = now_ms();

	if (until > now)
		work_clock_rest((until - now) * 1000);
}

static void *reader(void *argument)
{
	struct end *end = argument;

	while (!end->in.over && !end->broken) {
		rest_until(end->in.pause_until);
		end_read(end, true);
	}
	return NULL;
}

static void *writer(void *argument)
{
	struct end *end = argument;
	pthread_t other;

	if (end->slot) {
		const struct place *place = &run.settings.places[end->target];

		if (connect(end->fd, (const struct sockaddr *)&place->address, place->length))
			end_error(end, errno, "connect");
		end->connecting = false;
	}
	other = start(reader, end);
	while (!end->out.over && !end->broken) {
		rest_until(end->out.pause_until);
		end_write(end, true);
	}
	pthread_join(other, NULL);
	end_close(end);
	return NULL;
}

void blocking_take(struct end *end)
{
	if (fcntl(end->fd, F_SETFL, fcntl(end->fd, F_GETFL) & ~O_NONBLOCK))
		die(errno, "fcntl");
	pthread_detach(start(writer, end));
}
