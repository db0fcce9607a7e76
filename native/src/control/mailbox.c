/* SPDX-License-Identifier: Apache-2.0 */
#include "base/futex.h"
#include "base/say.h"
#include "control/control.h"
#include "control/thread.h"

#include <pthread.h>
#include <sys/mman.h>

#define SECOND 1000000000LL
/* A control verb waits for ever, as it may on a device; this often it says so. */
#define REPORT_AFTER (30 * SECOND)

static struct sv_request *mailbox;
static pthread_once_t mailbox_once = PTHREAD_ONCE_INIT;
static uint32_t submitted;		/* counts submissions; a futex word for the driver's threads */
static uint32_t freed;			/* counts slots given back; a futex word for callers that found none */
static uint32_t take_from;

static void make_mailbox(void)
{
	size_t size = SV_MAILBOX_SLOTS * sizeof(struct sv_request);
	void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED) {
		sv_say("out of memory for the mailbox");
		return;
	}
	/* A forked child must not find its parent's requests in it. */
	madvise(base, size, MADV_WIPEONFORK);
	mailbox = base;
}

struct sv_request *sv_mailbox(void)
{
	_Static_assert(sizeof(struct sv_request) == 128, "two cache lines");
	pthread_once(&mailbox_once, make_mailbox);
	return mailbox;
}

void sv_mailbox_forked(void)
{
	if (mailbox)
		memset(mailbox, 0, SV_MAILBOX_SLOTS * sizeof(*mailbox));
	submitted = freed = take_from = 0;
}

static bool change(struct sv_request *request, uint32_t from, uint32_t to)
{
	return sv_cas(&request->state, &from, to);
}

static struct sv_request *claim(uint32_t hint, const char *verb)
{
	struct sv_request *slots = sv_mailbox();
	int64_t reported = sv_now();

	if (!slots)
		return NULL;
	for (;;) {
		uint32_t seen = sv_load_acquire(&freed);

		for (uint32_t i = 0; i < SV_MAILBOX_SLOTS; i++) {
			struct sv_request *request = &slots[(hint + i) % SV_MAILBOX_SLOTS];

			if (sv_load(&request->state) == SV_REQUEST_FREE &&
			    change(request, SV_REQUEST_FREE, SV_REQUEST_CLAIMED))
				return request;
		}
		sv_futex_wait(&freed, seen, REPORT_AFTER);
		if (sv_now() - reported >= REPORT_AFTER) {
			sv_sayf("%s still waits for one of the driver's %d request slots", verb, SV_MAILBOX_SLOTS);
			reported = sv_now();
		}
	}
}

int sv_mailbox_call(enum sv_op op, const char *verb, uint64_t *result, unsigned count, const uint64_t *args,
		    int64_t timeout_ns)
{
	struct sv_thread *self = sv_thread_self();
	struct sv_request *request = claim(self->id, verb);
	int64_t start = sv_now(), reported = start;
	uint32_t state;
	int err;

	if (!request)
		return ENOMEM;
	request->op = op;
	request->err = 0;
	request->tid = self->tid;
	request->result = 0;
	memset(request->arg, 0, sizeof(request->arg));
	memcpy(request->arg, args, count * sizeof(*args));
	__atomic_store_n(&request->state, SV_REQUEST_SUBMITTED, __ATOMIC_RELEASE);
	sv_add(&submitted, 1);
	sv_futex_wake(&submitted, 1);
	while ((state = sv_load_acquire(&request->state)) != SV_REQUEST_ANSWERED) {
		int64_t now = sv_now();

		/* The slot is lost to us then: the driver may still write to it. */
		if (timeout_ns >= 0 && now - start >= timeout_ns)
			return ETIMEDOUT;
		if (now - reported >= REPORT_AFTER) {
			sv_sayf("%s still waits for the driver, after %lld s", verb, (long long)((now - start) / SECOND));
			reported = now;
		}
		sv_futex_wait(&request->state, state, timeout_ns >= 0 ? timeout_ns - (now - start) : REPORT_AFTER);
	}
	err = request->err;
	if (result)
		*result = request->result;
	sv_store_release(&request->state, SV_REQUEST_FREE);
	sv_add(&freed, 1);
	sv_futex_wake(&freed, 1);
	return err;
}

int sv_control(enum sv_op op, const char *verb, uint64_t *result, unsigned count, const uint64_t *args)
{
	int err = sv_driver_start(verb);
	struct sv_thread *self;

	if (err)
		return err;
	self = sv_gate_enter(verb);
	sv_thread_holds_nothing(self);
	err = sv_mailbox_call(op, verb, result, count, args, -1);
	sv_gate_leave(self);
	return err;
}

int sv_mailbox_take(int timeout_ms)
{
	struct sv_request *slots = sv_mailbox();
	int64_t deadline = timeout_ms < 0 ? 0 : sv_now() + timeout_ms * 1000000LL;

	if (!slots)
		return -1;
	for (;;) {
		uint32_t seen = sv_load_acquire(&submitted);
		uint32_t from = sv_add(&take_from, 1);
		int64_t left = -1;

		for (uint32_t i = 0; i < SV_MAILBOX_SLOTS; i++) {
			uint32_t slot = (from + i) % SV_MAILBOX_SLOTS;

			if (sv_load(&slots[slot].state) == SV_REQUEST_SUBMITTED &&
			    change(&slots[slot], SV_REQUEST_SUBMITTED, SV_REQUEST_TAKEN))
				return slot;
		}
		if (timeout_ms >= 0) {
			left = deadline - sv_now();
			if (left <= 0)
				return -1;
		}
		sv_futex_wait(&submitted, seen, left);
	}
}

void sv_mailbox_answer(int slot)
{
	struct sv_request *request = &sv_mailbox()[slot];

	sv_store_release(&request->state, SV_REQUEST_ANSWERED);
	sv_futex_wake(&request->state, 1);
}
