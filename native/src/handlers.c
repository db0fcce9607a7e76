/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To block signals and to let them come again takes two system calls, nearly a tenth of the time that a small message of
 * ib2tcp takes in all, and most programs have no handler that could run. So the C library's functions that install one are
 * seen here. The first one that is installed is so when no thread is where it must not run; from then on signals are blocked
 * there. A handler that is installed by a system call of the program's own is seen if it comes before the device is opened.
 */
#include "futex.h"
#include "handlers.h"
#include "next.h"
#include "say.h"

#include <signal.h>
#include <stdlib.h>

/* In the kernel's set of signals, an eighth of glibc's to copy. */
#define SIGNAL(number) (1ull << ((number) - 1))
#define SIGNALS 64
#define FAULTS (SIGNAL(SIGSEGV) | SIGNAL(SIGBUS) | SIGNAL(SIGFPE) | SIGNAL(SIGILL) | SIGNAL(SIGTRAP))
#define LONGEST_TURN 10000000000LL
#define MOMENT 20000

/* Has the application had a handler? It stays so. */
static uint32_t any;
/* Is a thread where none may run, and relies on there being none? */
static uint32_t relied_on;

UNWATCHED bool sv_is_fault(int number)
{
	return number >= 1 && number <= SIGNALS && (FAULTS & SIGNAL(number));
}

UNWATCHED bool sv_is_the_jvms(const void *handler)
{
	const char *home = getenv("SHADOWVERBS_JVM"), *end = home ? strstr(home, "/server/") : NULL;
	Dl_info object;

	return end && dladdr(handler, &object) && object.dli_fname &&
	       !strncmp(object.dli_fname, home, end + 1 - home);
}

static UNWATCHED bool is_handler(const void *handler)
{
	return handler != (void *)SIG_DFL && handler != (void *)SIG_IGN && handler != (void *)SIG_ERR &&
	       handler != (void *)SIG_HOLD;
}

/* Before it is installed. Is safe in a handler, too: there is one then, and no thread that is to be waited for. */
static UNWATCHED void comes(int number, const void *handler)
{
	int64_t deadline;

	if (!is_handler(handler) || sv_is_fault(number) || (!sv_load(&any) && sv_is_the_jvms(handler)))
		return;
	__atomic_store_n(&any, 1, __ATOMIC_SEQ_CST);
	if (likely(!__atomic_load_n(&relied_on, __ATOMIC_SEQ_CST)))
		return;
	deadline = sv_now() + LONGEST_TURN;
	while (__atomic_load_n(&relied_on, __ATOMIC_SEQ_CST)) {
		sv_futex_wait(&relied_on, 1, MOMENT);
		if (sv_now() > deadline) {
			sv_sayf("a handler of signal %d is installed while a turn of ib2tcp has not ended in 10 s", number);
			return;
		}
	}
}

void sv_handlers_look(void)
{
	for (int number = 1; number < NSIG; number++) {
		struct sigaction action;

		if (!sigaction(number, NULL, &action))
			comes(number, (void *)action.sa_handler);
	}
}

bool sv_handlers_out(uint64_t *mask)
{
	static const uint64_t blocked = ~FAULTS;

	if (likely(!sv_load(&any))) {
		__atomic_store_n(&relied_on, 1, __ATOMIC_SEQ_CST);
		if (likely(!__atomic_load_n(&any, __ATOMIC_SEQ_CST)))
			return false;
		sv_store_release(&relied_on, 0);
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, mask, sizeof(*mask));
	return true;
}

void sv_handlers_in(bool out, const uint64_t *mask)
{
	if (unlikely(out))
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, NULL, sizeof(*mask));
	else
		sv_store_release(&relied_on, 0);
}

void sv_handlers_forked(void)
{
	relied_on = 0;
}

typedef int (*sigaction_function)(int, const struct sigaction *, struct sigaction *);
typedef sighandler_t (*signal_function)(int, sighandler_t);

__attribute__((visibility("default"))) UNWATCHED
int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
	if (action)
		comes(number, (void *)action->sa_handler);
	return NEXT(sigaction_function, sigaction)(number, action, before);
}

#define INSTALLS(name)                                                                          \
	__attribute__((visibility("default"))) sighandler_t name(int number, sighandler_t handler); \
	UNWATCHED sighandler_t name(int number, sighandler_t handler)                           \
	{                                                                                       \
		comes(number, (void *)handler);                                                 \
		return NEXT(signal_function, name)(number, handler);                            \
	}

INSTALLS(signal)
INSTALLS(__sysv_signal)
INSTALLS(sysv_signal)
INSTALLS(bsd_signal)
INSTALLS(ssignal)
INSTALLS(sigset)
