/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To block signals and to let them come again takes two system calls, nearly a tenth of the time that a small message of
 * ib2tcp takes in all, and most programs have no handler that could run. So the C library's functions that install one are
 * seen here. The first one that is installed is so when no thread is where it must not run; from then on signals are blocked
 * there. A handler that is installed by a system call of the program's own is seen if it comes before the device is opened.
 */
#include "control/handlers.h"
#include "base/futex.h"
#include "base/next.h"
#include "base/say.h"

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
typedef int (*siginterrupt_function)(int, int);

/* Signals whose handlers interrupt system calls for good, by siginterrupt(3). */
static uint64_t interrupting;

__attribute__((visibility("default"))) UNWATCHED
int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
	if (action)
		comes(number, (void *)action->sa_handler);
	return NEXT(sigaction_function, sigaction)(number, action, before);
}

__attribute__((visibility("default"))) UNWATCHED
int siginterrupt(int number, int interrupts)
{
	int result = NEXT(siginterrupt_function, siginterrupt)(number, interrupts);

	if (!result && interrupts)
		__atomic_fetch_or(&interrupting, SIGNAL(number), __ATOMIC_RELAXED);
	else if (!result)
		__atomic_fetch_and(&interrupting, ~SIGNAL(number), __ATOMIC_RELAXED);
	return result;
}

/*
 * signal(3) and its like are sigaction(2) with some flags. They are not passed on by their own names, because libjsig, which
 * stands behind us, then writes to the program's output that its use is deprecated.
 */
static UNWATCHED sighandler_t install(int number, sighandler_t handler, int flags)
{
	struct sigaction action = { .sa_flags = flags }, before;

	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	action.sa_handler = handler;
	if (!(flags & SA_NODEFER) && sigaddset(&action.sa_mask, number))
		return SIG_ERR;
	return sigaction(number, &action, &before) ? SIG_ERR : before.sa_handler;
}

static UNWATCHED sighandler_t bsd(int number, sighandler_t handler)
{
	bool restarts = number < 1 || number > SIGNALS || !(sv_load(&interrupting) & SIGNAL(number));

	return install(number, handler, restarts ? SA_RESTART : 0);
}

static UNWATCHED sighandler_t sysv(int number, sighandler_t handler)
{
	return install(number, handler, SA_RESETHAND | SA_NODEFER);
}

/* Says whether the signal was blocked before, too: see sigset(3). */
static UNWATCHED sighandler_t set(int number, sighandler_t handler)
{
	sighandler_t before = SIG_ERR;
	struct sigaction action;
	sigset_t one, old;

	sigemptyset(&one);
	if (handler == SIG_HOLD) {
		if (sigaddset(&one, number) || sigprocmask(SIG_BLOCK, &one, &old) || sigaction(number, NULL, &action))
			return SIG_ERR;
		before = action.sa_handler;
	} else {
		before = install(number, handler, 0);
		if (before == SIG_ERR || sigaddset(&one, number) || sigprocmask(SIG_UNBLOCK, &one, &old))
			return SIG_ERR;
	}
	return sigismember(&old, number) == 1 ? SIG_HOLD : before;
}

#define INSTALLS(name, how)                                                                     \
	__attribute__((visibility("default"))) sighandler_t name(int number, sighandler_t handler); \
	UNWATCHED sighandler_t name(int number, sighandler_t handler)                           \
	{                                                                                       \
		return how(number, handler);                                                    \
	}

INSTALLS(signal, bsd)
INSTALLS(bsd_signal, bsd)
INSTALLS(ssignal, bsd)
INSTALLS(__sysv_signal, sysv)
INSTALLS(sysv_signal, sysv)
INSTALLS(sigset, set)
