/* SPDX-License-Identifier: Apache-2.0 */
/* What a program has to say of checkpoints: sections, callbacks, and the call that asks for one. The test is its driver. */
#include "test.h"
#include "shadowverbs_program.h"
#include "shadowverbs_program_abi.h"

#include <sys/wait.h>

#define SHORT (SECOND / 20)
#define LONG (60 * SECOND)

static const struct sv_program *program;
static struct sv_gate_report report;

/* ---- sections ---- */

static unsigned go, entered, left;

static void wait_for(const unsigned *word, unsigned value)
{
	for (int tries = 0; __atomic_load_n(word, __ATOMIC_SEQ_CST) < value; tries++) {
		CHECK(tries < 60000);
		usleep(1000);
	}
}

static void raise_to(unsigned *word, unsigned value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

/* Begins a section, nested, and ends it each time that it may. */
static void *sections(void *rounds)
{
	for (unsigned i = 1; i <= (uintptr_t)rounds; i++) {
		CHECK_EQUAL(program->delay_begin(), SHADOWVERBS_DONE);
		CHECK_EQUAL(program->delay_begin(), SHADOWVERBS_DONE);
		__atomic_add_fetch(&entered, 1, __ATOMIC_SEQ_CST);
		CHECK_EQUAL(program->delay_end(), SHADOWVERBS_DONE);
		wait_for(&go, i);
		CHECK_EQUAL(program->delay_end(), SHADOWVERBS_DONE);
		__atomic_add_fetch(&left, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void a_section_is_waited_for_and_named(void)
{
	pthread_t thread;

	go = entered = left = 0;
	CHECK_EQUAL(pthread_create(&thread, NULL, sections, (void *)3), 0);
	wait_for(&entered, 1);
	CHECK_EQUAL(sv_sections_close(SHORT, &report), ETIMEDOUT);
	CHECK_EQUAL(report.inside, 1);
	CHECK(report.tid != 0 && report.tid != getpid());
	CHECK(!strcmp(report.verb, "shadowverbs_delay_begin"));
	/* It ends this one, and waits at the next. */
	raise_to(&go, 1);
	CHECK_EQUAL(sv_sections_close(LONG, &report), 0);
	wait_for(&left, 1);
	usleep(50000);
	CHECK_EQUAL(__atomic_load_n(&entered, __ATOMIC_SEQ_CST), 1);
	/* Let in once: counted at once, and the one after that waits. */
	sv_sections_pass();
	raise_to(&go, 2);
	CHECK_EQUAL(sv_sections_close(LONG, &report), 0);
	wait_for(&left, 2);
	usleep(50000);
	CHECK_EQUAL(__atomic_load_n(&entered, __ATOMIC_SEQ_CST), 2);
	sv_sections_open();
	wait_for(&entered, 3);
	CHECK_EQUAL(sv_sections_close(SHORT, &report), ETIMEDOUT);
	raise_to(&go, 3);
	CHECK_EQUAL(sv_sections_close(LONG, &report), 0);
	sv_gate_open();
	pthread_join(thread, NULL);
	CHECK_EQUAL(program->delay_end(), -1);
	CHECK_EQUAL(errno, EPERM);
	CHECK(*program->problem());
}

static void *ends_within(void *unused)
{
	(void)unused;
	CHECK_EQUAL(program->delay_begin(), SHADOWVERBS_DONE);
	return NULL;
}

static void a_section_ends_with_its_thread(void)
{
	pthread_t thread;

	CHECK_EQUAL(pthread_create(&thread, NULL, ends_within, NULL), 0);
	pthread_join(thread, NULL);
	CHECK_EQUAL(sv_sections_close(LONG, &report), 0);
	sv_sections_open();
}

/* Nobody is in a section while they are closed, whoever comes and goes. */
static unsigned stop;
static int in_section;

static void *hammer(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		CHECK_EQUAL(program->delay_begin(), SHADOWVERBS_DONE);
		__atomic_add_fetch(&in_section, 1, __ATOMIC_SEQ_CST);
		__atomic_sub_fetch(&in_section, 1, __ATOMIC_SEQ_CST);
		CHECK_EQUAL(program->delay_end(), SHADOWVERBS_DONE);
	}
	return NULL;
}

static void nobody_is_in_a_closed_section(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, hammer, NULL), 0);
	for (int i = 0; i < 500; i++) {
		CHECK_EQUAL(sv_sections_close(LONG, &report), 0);
		for (int looks = 0; looks < 20; looks++)
			CHECK_EQUAL(__atomic_load_n(&in_section, __ATOMIC_SEQ_CST), 0);
		if (i % 3 == 0) {
			sv_sections_pass();
			CHECK_EQUAL(sv_sections_close(LONG, &report), 0);
			CHECK_EQUAL(__atomic_load_n(&in_section, __ATOMIC_SEQ_CST), 0);
		}
		sv_sections_open();
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* ---- callbacks ---- */

static char called[256];
static int refuses;
static unsigned hold;

static void note(const char *what, const char *whose, int outcome)
{
	size_t length = strlen(called);

	CHECK(pthread_self() != 0);
	snprintf(called + length, sizeof(called) - length, outcome ? "%s%s%d " : "%s%s ", what, whose, outcome);
}

static int before(void *whose)
{
	note("-", whose, 0);
	while (__atomic_load_n(&hold, __ATOMIC_SEQ_CST))
		usleep(1000);
	/* In here nothing waits for a checkpoint. */
	CHECK_EQUAL(program->checkpoint(0), -1);
	CHECK_EQUAL(errno, EDEADLK);
	return !strcmp(whose, "b") ? refuses : 0;
}

static void after(void *whose, int outcome)
{
	note("+", whose, outcome);
}

static void expect_calls(const char *expected)
{
	if (strcmp(called, expected)) {
		fprintf(stderr, "called: %s; expected: %s\n", called, expected);
		abort();
	}
	called[0] = 0;
}

static void callbacks_come_in_order(void)
{
	const struct shadowverbs_callbacks both = { before, after }, only_after = { NULL, after }, none = { NULL, NULL };
	int32_t answer = 0;
	int a, b, c;

	CHECK_EQUAL(program->add_callbacks(&none, NULL), -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(sv_program_before(0, &answer), 0);
	sv_program_after(SHADOWVERBS_RESUMED);
	CHECK((a = program->add_callbacks(&both, "a")) > 0);
	CHECK((b = program->add_callbacks(&both, "b")) > a);
	CHECK((c = program->add_callbacks(&only_after, "c")) > b);

	CHECK_EQUAL(sv_program_before(LONG, &answer), 0);
	expect_calls("-b -a ");
	sv_program_after(SHADOWVERBS_RESTARTED);
	/* One that is over when the next begins. */
	CHECK_EQUAL(sv_program_before(LONG, &answer), 0);
	expect_calls("+a2 +b2 +c2 -b -a ");
	sv_program_after(SHADOWVERBS_RESUMED);

	/* Who refuses is not told, nor is who has not been asked. */
	refuses = 7;
	CHECK_EQUAL(sv_program_before(LONG, &answer), ECANCELED);
	CHECK_EQUAL(answer, 7);
	expect_calls("+a1 +b1 +c1 -b ");
	sv_program_after(SHADOWVERBS_GIVEN_UP);
	refuses = 0;

	/* Who is late is told all the same, when it has come so far. */
	__atomic_store_n(&hold, 1, __ATOMIC_SEQ_CST);
	CHECK_EQUAL(sv_program_before(SHORT, &answer), ETIMEDOUT);
	sv_program_after(SHADOWVERBS_GIVEN_UP);
	CHECK_EQUAL(sv_program_before(SHORT, &answer), ETIMEDOUT);
	sv_program_after(SHADOWVERBS_GIVEN_UP);
	__atomic_store_n(&hold, 0, __ATOMIC_SEQ_CST);
	CHECK_EQUAL(sv_program_before(LONG, &answer), 0);
	expect_calls("+c3 -b -a +a3 +b3 +c3 -b -a ");

	/* Taken back between the two. */
	CHECK_EQUAL(program->remove_callbacks(b), SHADOWVERBS_DONE);
	CHECK_EQUAL(program->remove_callbacks(b), -1);
	CHECK_EQUAL(errno, ENOENT);
	sv_program_after(SHADOWVERBS_RESUMED);
	CHECK_EQUAL(sv_program_before(LONG, &answer), 0);
	expect_calls("+a1 +c1 -a ");
	sv_program_after(SHADOWVERBS_RESUMED);
	CHECK_EQUAL(program->remove_callbacks(a), SHADOWVERBS_DONE);
	CHECK_EQUAL(program->remove_callbacks(c), SHADOWVERBS_DONE);
}

static void there_is_room_for_so_many(void)
{
	const struct shadowverbs_callbacks one = { NULL, after };
	int numbers[SHADOWVERBS_MAX_CALLBACKS];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < SHADOWVERBS_MAX_CALLBACKS; i++)
			CHECK((numbers[i] = program->add_callbacks(&one, "x")) > 0);
		CHECK_EQUAL(program->add_callbacks(&one, "x"), -1);
		CHECK_EQUAL(errno, ENOSPC);
		/* A gap at the begin is found, too. */
		CHECK_EQUAL(program->remove_callbacks(numbers[0]), SHADOWVERBS_DONE);
		CHECK((numbers[0] = program->add_callbacks(&one, "x")) > 0);
		for (int i = 0; i < SHADOWVERBS_MAX_CALLBACKS; i++)
			CHECK_EQUAL(program->remove_callbacks(numbers[i]), SHADOWVERBS_DONE);
	}
}

/* ---- the call ---- */

static int result, error;
static char why[64];

static void *call(void *processes)
{
	result = program->checkpoint((intptr_t)processes);
	error = errno;
	snprintf(why, sizeof(why), "%s", program->problem());
	return NULL;
}

/* The number of the call, when it has been asked for so often in all. */
static uint64_t asked(unsigned requests)
{
	wait_for(&driver_checkpoints, requests);
	return __atomic_load_n(&driver_checkpoint_call, __ATOMIC_SEQ_CST);
}

static int asked_together(void)
{
	return __atomic_load_n(&driver_checkpoint_processes, __ATOMIC_SEQ_CST);
}

static void a_call_returns_what_it_is_answered(void)
{
	pthread_t thread;
	uint64_t number;

	CHECK_EQUAL(program->checkpoint(-1), -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(program->delay_begin(), SHADOWVERBS_DONE);
	CHECK_EQUAL(program->checkpoint(0), -1);
	CHECK_EQUAL(errno, EDEADLK);
	CHECK_EQUAL(program->delay_end(), SHADOWVERBS_DONE);

	CHECK_EQUAL(pthread_create(&thread, NULL, call, (void *)5), 0);
	number = asked(1);
	CHECK_EQUAL(asked_together(), 5);
	/* It waits outside of the gate. */
	close_gate();
	sv_program_answer(number + 1, 1, 0, "");
	sv_program_answer(number, SHADOWVERBS_RESTARTED, 0, "");
	sv_gate_open();
	pthread_join(thread, NULL);
	CHECK_EQUAL(result, SHADOWVERBS_RESTARTED);

	CHECK_EQUAL(pthread_create(&thread, NULL, call, NULL), 0);
	CHECK(asked(2) != number);
	CHECK_EQUAL(asked_together(), 0);
	/* Of the call before: it is late. */
	sv_program_answer(number, SHADOWVERBS_RESUMED, 0, "");
	/* It is asked again, for what was asked may be lost. */
	number = asked(3);
	sv_program_answer(number, -1, EIO, "no space is left");
	pthread_join(thread, NULL);
	CHECK_EQUAL(result, -1);
	CHECK_EQUAL(error, EIO);
	CHECK(!strcmp(why, "no space is left"));
}

static void a_forked_child_takes_no_part(void)
{
	int status;
	pid_t child;

	CHECK_EQUAL(program->available(), 1);
	fflush(NULL);
	child = fork();
	if (!child) {
		CHECK_EQUAL(program->available(), 0);
		CHECK_EQUAL(program->checkpoint(0), -1);
		CHECK_EQUAL(errno, EOPNOTSUPP);
		CHECK_EQUAL(program->delay_begin(), -1);
		CHECK_EQUAL(program->remove_callbacks(1), -1);
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
}

int main(void)
{
	struct fixture *f;

	program = sv_program();
	CHECK_EQUAL(program->size, sizeof(*program));
	CHECK_EQUAL(program->available(), 0);
	CHECK_EQUAL(program->delay_begin(), SHADOWVERBS_ABSENT);
	setenv("SHADOWVERBS_AGENT", "/nonexistent/agent.sock", 1);
	CHECK_EQUAL(program->available(), 1);
	/* The first of them starts the driver, as the first verb does. */
	CHECK_EQUAL(program->delay_begin(), SHADOWVERBS_DONE);
	CHECK_EQUAL(program->delay_end(), SHADOWVERBS_DONE);
	f = open_fixture((struct shape){ .send_wr = 4, .recv_wr = 4, .sge = 1 });
	RUN(a_section_is_waited_for_and_named);
	RUN(a_section_ends_with_its_thread);
	RUN(nobody_is_in_a_closed_section);
	RUN(callbacks_come_in_order);
	RUN(there_is_room_for_so_many);
	RUN(a_call_returns_what_it_is_answered);
	RUN(a_forked_child_takes_no_part);
	close_fixture(f);
	return 0;
}
