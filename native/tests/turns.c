/* SPDX-License-Identifier: Apache-2.0 */
/* ib2tcp's engine driven by the application's threads: who takes a turn, when nobody may, and that no bell is lost. */
#include "test.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shadowverbs_tcp.h"

#define ENTRIES 64
#define STRIDE 128
#define IDLE_POLLS 64
#define PROMPT_POSTS 16
#define POSTS 20000
#define POSTERS 2

/* A completion queue and queue pairs of ib2tcp, and a virtual queue whose polls run what is to be run inside the gate. */
struct world {
	struct fixture *f;
	struct ibv_cq *mock;
	struct ibv_context context;
	struct sv_tcp_cq cq;
	struct sv_tcp_qp qps[POSTERS];
	char send[POSTERS][ENTRIES * STRIDE];
	struct ibv_wc completions[ENTRIES];
	struct ibv_context inside;
	struct ibv_cq gate;
};

static struct world *world;
static struct sv_tcp_doorbell *bell;

/* What the turns of a test do and have seen. */
static int answer;
static unsigned turns[3];
static bool completes;
static sigset_t mask_of_turn;
static int cancellation_of_turn;
static pthread_t driver;
/* A turn that lasts until it is told to end. */
static bool lasts, lasting;
static __thread bool in_turn;
static unsigned ran_in_turn, ran;

static void take_bells(void)
{
	__atomic_store_n(&bell->pending, 0, __ATOMIC_SEQ_CST);
	for (int i = 0; i < POSTERS; i++) {
		struct sv_tcp_qp *qp = &world->qps[i];

		if (__atomic_fetch_and(&bell->due[qp->bell / 64], ~(1ull << qp->bell % 64), __ATOMIC_SEQ_CST) &
		    1ull << qp->bell % 64)
			__atomic_store_n(&qp->send_head, __atomic_load_n(&qp->send_tail, __ATOMIC_ACQUIRE),
					 __ATOMIC_RELEASE);
	}
}

static int turn(int how)
{
	CHECK(__atomic_load_n(&bell->holder, __ATOMIC_RELAXED) != SV_TCP_HOLDER_NONE);
	turns[how]++;
	driver = pthread_self();
	pthread_sigmask(SIG_SETMASK, NULL, &mask_of_turn);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation_of_turn);
	in_turn = true;
	if (__atomic_load_n(&lasts, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&lasting, true, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&lasts, __ATOMIC_SEQ_CST))
			usleep(1000);
	}
	in_turn = false;
	take_bells();
	if (completes)
		__atomic_store_n(&world->cq.tail, world->cq.tail + 1, __ATOMIC_SEQ_CST);
	completes = false;
	errno = EDOM;
	return answer;
}

static void (*run)(struct world *w);

/* "Polls" the queue that lets a test's own code run inside the gate. */
static int call(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	(void)cq;
	(void)count;
	(void)wc;
	run(world);
	return 0;
}

static struct world *open_world(void)
{
	struct world *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);

	memset(w, 0, sizeof(*w));
	w->f = open_fixture((struct shape){ 4, 4, 1, 0, true });
	w->mock = &mock_cq(w->f->cq)->v;
	sv_tcp_context_init(&w->context);
	w->cq.v.context = &w->context;
	w->cq.mask = ENTRIES - 1;
	w->cq.entries = (uintptr_t)w->completions;
	for (int i = 0; i < POSTERS; i++) {
		w->qps[i].v.context = &w->context;
		w->qps[i].send = (struct sv_tcp_ring){ (uintptr_t)w->send[i], STRIDE, ENTRIES - 1, ENTRIES - 1, 2, 32, 0 };
		w->qps[i].bell = 70 + i;
		w->qps[i].opcodes = ~0u;
	}
	w->inside.ops.poll_cq = call;
	w->gate.context = &w->inside;
	CHECK_EQUAL(sv_cq_bind(w->f->cq, &w->gate), 0);
	bell = sv_tcp_doorbell();
	memset(bell, 0, sizeof(*bell));
	bell->turn = (uintptr_t)turn;
	bell->polled = 1;
	memset(turns, 0, sizeof(turns));
	answer = 0;
	return world = w;
}

static void close_world(struct world *w)
{
	memset(bell, 0, sizeof(*bell));
	CHECK_EQUAL(sv_cq_bind(w->f->cq, w->mock), 0);
	close_fixture(w->f);
	free(w);
}

/* Runs it inside the gate, where posts and polls are. */
static void inside(struct world *w, void (*function)(struct world *w))
{
	run = function;
	CHECK_EQUAL(ibv_poll_cq(w->f->cq, 1, &(struct ibv_wc){ 0 }), 0);
}

static int polled;

static void poll(struct world *w)
{
	polled = w->context.ops.poll_cq(&w->cq.v, 1, &(struct ibv_wc){ 0 });
}

static int poll_one(struct world *w)
{
	inside(w, poll);
	return polled;
}

static void post_to(struct world *w, int number)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	CHECK_EQUAL(w->context.ops.post_send(&w->qps[number].v, &wr, &bad), 0);
}

static void post(struct world *w)
{
	post_to(w, 0);
}

static void test_a_poll_that_finds_nothing_takes_a_turn_and_looks_again(void)
{
	struct world *w = open_world();

	errno = 0;
	CHECK_EQUAL(poll_one(w), 0);
	CHECK_EQUAL(turns[SV_TCP_TURN_POLL], 1);
	completes = true;
	CHECK_EQUAL(poll_one(w), 1);
	CHECK_EQUAL(turns[SV_TCP_TURN_POLL], 2);
	CHECK_EQUAL(errno, 0);
	CHECK_EQUAL(bell->holder, SV_TCP_HOLDER_NONE);
	CHECK_EQUAL(bell->turns, 2);
	/* What is there needs no turn. */
	w->cq.tail++;
	CHECK_EQUAL(poll_one(w), 1);
	CHECK_EQUAL(turns[SV_TCP_TURN_POLL], 2);
	close_world(w);
}

static void test_who_polls_long_in_vain_sleeps_in_a_turn(void)
{
	struct world *w = open_world();

	for (int i = 0; i < IDLE_POLLS; i++)
		CHECK_EQUAL(poll_one(w), 0);
	CHECK_EQUAL(turns[SV_TCP_TURN_POLL], IDLE_POLLS - 1);
	CHECK_EQUAL(turns[SV_TCP_TURN_REST], 1);
	completes = true;
	CHECK_EQUAL(poll_one(w), 1);
	CHECK_EQUAL(turns[SV_TCP_TURN_REST], 2);
	CHECK_EQUAL(poll_one(w), 0);
	CHECK_EQUAL(turns[SV_TCP_TURN_REST], 2);
	close_world(w);
}

static void test_nobody_drives_what_the_engine_s_thread_drives(void)
{
	struct world *w = open_world();

	bell->polled = 0;
	for (int i = 0; i < IDLE_POLLS - 1; i++)
		CHECK_EQUAL(poll_one(w), 0);
	CHECK_EQUAL(bell->offered, 0);
	CHECK_EQUAL(poll_one(w), 0);
	CHECK_EQUAL(bell->offered, 1);
	inside(w, post);
	bell->polled = 1;
	bell->holder = SV_TCP_HOLDER_ONE;
	CHECK_EQUAL(poll_one(w), 0);
	inside(w, post);
	CHECK_EQUAL(bell->holder, SV_TCP_HOLDER_ONE);
	bell->holder = SV_TCP_HOLDER_NONE;
	bell->called = 1;
	CHECK_EQUAL(poll_one(w), 0);
	CHECK_EQUAL(bell->holder, SV_TCP_HOLDER_NONE);
	bell->called = 0;
	CHECK_EQUAL(turns[0] + turns[1] + turns[2], 0);
	CHECK_EQUAL(bell->due[1], 1ull << 6);
	close_world(w);
}

static void test_a_post_is_sent_at_once_and_many_together(void)
{
	struct world *w = open_world();

	inside(w, post);
	CHECK_EQUAL(turns[SV_TCP_TURN_POST], 1);
	CHECK_EQUAL(bell->due[1], 0);
	w->qps[0].send_head = 0;	/* it is under way */
	for (int i = 0; i < PROMPT_POSTS - 2; i++)
		inside(w, post);
	CHECK_EQUAL(turns[SV_TCP_TURN_POST], 1);
	CHECK_EQUAL(bell->due[1], 1ull << 6);
	inside(w, post);
	CHECK_EQUAL(turns[SV_TCP_TURN_POST], 2);
	CHECK_EQUAL(bell->due[1], 0);
	close_world(w);
}

static void test_a_post_wakes_who_sleeps_in_a_turn(void)
{
	struct world *w = open_world();
	uint64_t count;

	bell->wake_fd = eventfd(0, EFD_NONBLOCK);
	bell->sleeping = 1;
	bell->holder = SV_TCP_HOLDER_ONE;
	inside(w, post);
	CHECK_EQUAL(read(bell->wake_fd, &count, sizeof(count)), sizeof(count));
	CHECK_EQUAL(bell->sleeping, 0);
	bell->holder = SV_TCP_HOLDER_NONE;
	close(bell->wake_fd);
	close_world(w);
}

static void test_the_engine_s_thread_is_called_for_what_is_no_turn_s(void)
{
	struct world *w = open_world();

	answer = 1;
	CHECK_EQUAL(poll_one(w), 0);
	CHECK_EQUAL(bell->called, 1);
	bell->called = 0;
	/* Posts outside of the gate are the driver's own. */
	post(w);
	CHECK_EQUAL(bell->called, 1);
	CHECK_EQUAL(turns[SV_TCP_TURN_POST], 0);
	bell->called = 0;
	/* Who arms a queue is about to sleep. */
	bell->offered = 1;
	CHECK_EQUAL(w->context.ops.req_notify_cq(&w->cq.v, 0), 0);
	CHECK_EQUAL(bell->called, 1);
	CHECK_EQUAL(bell->offered, 0);
	close_world(w);
}

static void on_signal(int number)
{
	(void)number;
	ran++;
	ran_in_turn += in_turn;
}

static void *poll_once(void *of)
{
	poll_one(of);
	return NULL;
}

static uint32_t installed;

static void *install(void *unused)
{
	struct sigaction action = { .sa_handler = on_signal };

	(void)unused;
	CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
	__atomic_store_n(&installed, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Begins a turn of another thread, which lasts. */
static pthread_t begin_turn(struct world *w)
{
	pthread_t thread;

	lasting = false;
	lasts = true;
	CHECK_EQUAL(pthread_create(&thread, NULL, poll_once, w), 0);
	while (!__atomic_load_n(&lasting, __ATOMIC_SEQ_CST))
		usleep(1000);
	return thread;
}

static void end_turn(pthread_t thread)
{
	__atomic_store_n(&lasts, false, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
}

/* Must be the first that installs one: what comes before goes without system calls. */
static void test_the_first_handler_is_installed_when_no_turn_relies_on_there_being_none(void)
{
	struct world *w = open_world();
	pthread_t turning, installing;

	signal(SIGUSR2, SIG_IGN);
	signal(SIGSEGV, SIG_DFL);
	poll_one(w);
	CHECK(!sigismember(&mask_of_turn, SIGUSR1));
	turning = begin_turn(w);
	CHECK_EQUAL(pthread_create(&installing, NULL, install, NULL), 0);
	/* It has time to do what it must not. */
	usleep(50000);
	CHECK_EQUAL(__atomic_load_n(&installed, __ATOMIC_SEQ_CST), 0);
	end_turn(turning);
	pthread_join(installing, NULL);
	CHECK_EQUAL(installed, 1);
	/* The next ones are not waited for: signals are blocked. */
	turning = begin_turn(w);
	signal(SIGUSR2, on_signal);
	pthread_kill(turning, SIGUSR1);
	pthread_kill(turning, SIGUSR2);
	usleep(20000);
	CHECK_EQUAL(ran, 0);
	end_turn(turning);
	CHECK_EQUAL(ran, 2);
	CHECK_EQUAL(ran_in_turn, 0);
	close_world(w);
}

#ifndef __SANITIZE_THREAD__	/* whose signal(3) and like are its own */
static unsigned flags_of(int number, sighandler_t handler)
{
	struct sigaction action;

	CHECK_EQUAL(sigaction(number, NULL, &action), 0);
	CHECK(action.sa_handler == handler);
	return (unsigned)action.sa_flags & (unsigned)(SA_RESTART | (unsigned)SA_NODEFER | SA_RESETHAND);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/* As the C library has them: they are not handed on by their names. */
static void test_handlers_are_installed_with_the_flags_of_the_function(void)
{
	sigset_t now;

	CHECK(signal(SIGWINCH, on_signal) == SIG_DFL);
	CHECK_EQUAL(flags_of(SIGWINCH, on_signal), SA_RESTART);
	CHECK_EQUAL(siginterrupt(SIGWINCH, 1), 0);
	CHECK_EQUAL(flags_of(SIGWINCH, on_signal), 0);
	CHECK(signal(SIGWINCH, on_signal) == on_signal);
	CHECK_EQUAL(flags_of(SIGWINCH, on_signal), 0);
	CHECK_EQUAL(siginterrupt(SIGWINCH, 0), 0);
	CHECK(signal(SIGWINCH, on_signal) == on_signal);
	CHECK_EQUAL(flags_of(SIGWINCH, on_signal), SA_RESTART);
	CHECK(sysv_signal(SIGWINCH, on_signal) == on_signal);
	CHECK_EQUAL(flags_of(SIGWINCH, on_signal), (unsigned)SA_NODEFER | SA_RESETHAND);
	CHECK(sigset(SIGWINCH, SIG_HOLD) == on_signal);
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	CHECK_EQUAL(sigismember(&now, SIGWINCH), 1);
	CHECK_EQUAL(flags_of(SIGWINCH, on_signal), (unsigned)SA_NODEFER | SA_RESETHAND);
	CHECK(sigset(SIGWINCH, SIG_DFL) == SIG_HOLD);
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	CHECK_EQUAL(sigismember(&now, SIGWINCH), 0);
	CHECK_EQUAL(flags_of(SIGWINCH, SIG_DFL), 0);
	CHECK(signal(SIGKILL, on_signal) == SIG_ERR && errno == EINVAL);
	CHECK(signal(0, on_signal) == SIG_ERR && errno == EINVAL);
	CHECK(signal(SIGWINCH, SIG_ERR) == SIG_ERR && errno == EINVAL);
	CHECK(sigset(NSIG, SIG_HOLD) == SIG_ERR && errno == EINVAL);
}
#pragma GCC diagnostic pop
#endif

static void test_no_handler_runs_in_a_turn(void)
{
	struct world *w = open_world();
	sigset_t before, after;

	sigemptyset(&before);
	sigaddset(&before, SIGSEGV);
	sigaddset(&before, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	poll_one(w);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	CHECK(sigismember(&mask_of_turn, SIGINT) && sigismember(&mask_of_turn, SIGALRM));
	CHECK(!sigismember(&mask_of_turn, SIGSEGV) && !sigismember(&mask_of_turn, SIGFPE));
	CHECK(sigismember(&after, SIGSEGV) && sigismember(&after, SIGUSR2) && !sigismember(&after, SIGINT));
	CHECK_EQUAL(cancellation_of_turn, PTHREAD_CANCEL_DISABLE);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancellation_of_turn);
	CHECK_EQUAL(cancellation_of_turn, PTHREAD_CANCEL_ENABLE);
	sigemptyset(&before);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close_world(w);
}

static unsigned turns_with_stack(struct world *w, size_t bytes)
{
	unsigned before = turns[SV_TCP_TURN_POLL];
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	CHECK_EQUAL(pthread_attr_setstacksize(&attributes, bytes), 0);
	CHECK_EQUAL(pthread_create(&thread, &attributes, poll_once, w), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
	return turns[SV_TCP_TURN_POLL] - before;
}

static void test_only_threads_with_enough_stack_drive(void)
{
	struct world *w = open_world();

	CHECK_EQUAL(turns_with_stack(w, 256 << 10), 0);
	CHECK_EQUAL(turns_with_stack(w, 8 << 20), 1);
	close_world(w);
}

static void test_a_forked_child_does_not_drive(void)
{
	struct world *w = open_world();
	int status;
	pid_t child = fork();

	if (!child) {
		inside(w, post);
		_exit(turns[SV_TCP_TURN_POST]);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQUAL(WEXITSTATUS(status), 0);
	CHECK_EQUAL(bell->polled, 1);
	close_world(w);
}

/* ---- Hand-over ------------------------------------------------------------------------------------------------ */

static bool over;

static void post_all(struct world *w)
{
	static int posters;
	int number = __atomic_fetch_add(&posters, 1, __ATOMIC_SEQ_CST) % POSTERS;
	struct sv_tcp_qp *qp = &w->qps[number];

	for (int i = 0; i < POSTS; i++) {
		post_to(w, number);
		/* Prompt ones alone: nobody else would take care of what it leaves. */
		while (__atomic_load_n(&qp->send_head, __ATOMIC_ACQUIRE) != qp->send_tail)
			sched_yield();
	}
}

static void *poster(void *of)
{
	struct world *w = of;

	CHECK_EQUAL(ibv_poll_cq(w->f->cq, 1, &(struct ibv_wc){ 0 }), 0);
	return NULL;
}

/* The engine's thread, as Turns.java has it: it takes the engine now and then, and gives it back. */
static void *engine(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		while (__atomic_exchange_n(&bell->holder, SV_TCP_HOLDER_AND_WAITER, __ATOMIC_SEQ_CST))
			syscall(SYS_futex, &bell->holder, FUTEX_WAIT_PRIVATE, SV_TCP_HOLDER_AND_WAITER, NULL, NULL, 0);
		__atomic_store_n(&bell->polled, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&bell->called, 0, __ATOMIC_SEQ_CST);
		take_bells();
		__atomic_store_n(&bell->polled, 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&bell->holder, SV_TCP_HOLDER_NONE, __ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&bell->pending, __ATOMIC_SEQ_CST))
			syscall(SYS_futex, &bell->called, FUTEX_WAIT_PRIVATE, 0,
				&(struct timespec){ .tv_nsec = 100000 }, NULL, 0);
	}
	return NULL;
}

/* Each post is taken care of by its poster's turn, by somebody's who had the engine, or by the engine's thread. */
static void test_no_bell_is_lost_between_those_who_drive(void)
{
	struct world *w = open_world();
	pthread_t posters[POSTERS], thread;

	run = post_all;
	CHECK_EQUAL(pthread_create(&thread, NULL, engine, NULL), 0);
	for (int i = 0; i < POSTERS; i++)
		CHECK_EQUAL(pthread_create(&posters[i], NULL, poster, w), 0);
	for (int i = 0; i < POSTERS; i++)
		pthread_join(posters[i], NULL);
	__atomic_store_n(&over, true, __ATOMIC_SEQ_CST);
	sv_tcp_call_engine();
	pthread_join(thread, NULL);
	for (int i = 0; i < POSTERS; i++)
		CHECK_EQUAL(w->qps[i].send_head, POSTS);
	CHECK(turns[SV_TCP_TURN_POST] > 0);
	close_world(w);
}

int main(void)
{
	RUN(test_a_poll_that_finds_nothing_takes_a_turn_and_looks_again);
	RUN(test_who_polls_long_in_vain_sleeps_in_a_turn);
	RUN(test_nobody_drives_what_the_engine_s_thread_drives);
	RUN(test_a_post_is_sent_at_once_and_many_together);
	RUN(test_a_post_wakes_who_sleeps_in_a_turn);
	RUN(test_the_engine_s_thread_is_called_for_what_is_no_turn_s);
	RUN(test_the_first_handler_is_installed_when_no_turn_relies_on_there_being_none);
	RUN(test_no_handler_runs_in_a_turn);
#ifndef __SANITIZE_THREAD__
	RUN(test_handlers_are_installed_with_the_flags_of_the_function);
#endif
	RUN(test_only_threads_with_enough_stack_drive);
	RUN(test_a_forked_child_does_not_drive);
	RUN(test_no_bell_is_lost_between_those_who_drive);
	return 0;
}
