// SPDX-License-Identifier: Apache-2.0
/* A rank's line to its launcher (restore-init/pmi.h), in both versions of PMI: before, in the midst of and after a restart. */
#define _GNU_SOURCE
#include "../restore-init/agent-frame.h"
#include "../restore-init/job-root.h"
#include "../restore-init/pmi-text.h"
#include "../restore-init/pmi.h"

#include <endian.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                \
	do {                                                                                            \
		if (!(condition)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                 \
			abort();                                                                        \
		}                                                                                       \
	} while (0)

#define SERVES 600		/* times that the top looks before a test gives up, up to a second each */

struct rank {
	int fd;			/* what the program has as PMI_FD */
	int launcher;		/* what the launcher has */
	int version;
};

/* What the coordinator says, and has heard. */
static struct {
	int64_t passed;
	bool all;
	char key[64], value[64];
	int64_t entered[4];	/* by rank */
	bool heard[4];
	char put[64], aborted[64];
} *coordinator;

static const char *here = "first";
static char folder[] = "/tmp/shadowverbs-pmi-XXXXXX", tasks[64], agent[64];

static const char *where(void)
{
	return here;
}

static const char *next(const char **at, uint32_t *size)
{
	const char *text;

	memcpy(size, *at, sizeof(*size));
	*size = be32toh(*size);
	text = *at + sizeof(*size);
	*at = text + *size;
	return text;
}

static int64_t next_i64(const char **at)
{
	uint64_t value;

	memcpy(&value, *at, sizeof(value));
	*at += sizeof(value);
	return be64toh(value);
}

static uint32_t next_i32(const char **at)
{
	uint32_t value;

	memcpy(&value, *at, sizeof(value));
	*at += sizeof(value);
	return be32toh(value);
}

static void hear_state(const char *at, int64_t *number)
{
	const char *text;
	uint32_t n, size;

	CHECK(*at++ == 34 && next_i32(&at) == PROTOCOL_VERSION);
	next(&at, &size);
	CHECK(next_i32(&at) == 2);
	*number = next_i64(&at);
	for (n = next_i32(&at); n; n--) {
		uint32_t rank = next_i32(&at);

		CHECK(rank < 4);
		coordinator->heard[rank] = true;
		coordinator->entered[rank] = next_i64(&at);
		next_i64(&at);
	}
	for (n = next_i32(&at); n; n--) {
		text = next(&at, &size);
		snprintf(coordinator->put, sizeof(coordinator->put), "%.*s=", size, text);
		text = next(&at, &size);
		strncat(coordinator->put, text, size);
	}
	for (n = next_i32(&at); n; n--)
		next(&at, &size);
	text = next(&at, &size);
	if (size)
		snprintf(coordinator->aborted, sizeof(coordinator->aborted), "%.*s", size, text);
}

static char *put(char *at, const void *data, size_t size)
{
	memcpy(at, data, size);
	return at + size;
}

static char *put_i32(char *at, uint32_t value)
{
	value = htobe32(value);
	return put(at, &value, sizeof(value));
}

static char *put_i64(char *at, uint64_t value)
{
	value = htobe64(value);
	return put(at, &value, sizeof(value));
}

static void be_agent(int listening)
{
	for (;;) {
		int fd = accept(listening, NULL, NULL);
		char frame[4096], *at = frame + 4;
		int64_t number = 0;
		uint32_t size;

		CHECK(recv(fd, &size, sizeof(size), MSG_WAITALL) == sizeof(size) && be32toh(size) < sizeof(frame));
		CHECK(recv(fd, frame, be32toh(size), MSG_WAITALL) == (ssize_t)be32toh(size));
		hear_state(frame, &number);
		*at++ = 35;
		at = put(put_i32(at, 2), "17", 2);
		at = put_i64(put_i64(put_i32(at, 0), number), coordinator->passed);
		*at++ = coordinator->all;
		at = put_i32(at, *coordinator->key != 0);
		if (*coordinator->key) {
			at = put(put_i32(at, strlen(coordinator->key)), coordinator->key, strlen(coordinator->key));
			at = put(put_i32(at, strlen(coordinator->value)), coordinator->value, strlen(coordinator->value));
		}
		put_i32(frame, at - frame - 4);
		CHECK(send(fd, frame, at - frame, 0) == at - frame);
		close(fd);
	}
}

/* Its program's line, as a child of the top gets it; this process is the keeper, too, and the launcher. */
static struct rank begin(int number, int version)
{
	char rank[32], *environment[] = { "PMI_FD=9", "PMI_SIZE=2", "PMI_JOBID=17", "SHADOWVERBS_JOB=j", rank, NULL };
	int line[2], launcher[2], fds[1], given[MAX_FDS + 1], ngiven, keeper = bound(tasks, SOCK_SEQPACKET), caller;
	struct message message;
	struct rank r = { .version = version };

	snprintf(rank, sizeof(rank), "PMI_RANK=%d", number);
	CHECK(!listen(keeper, 1));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) && !socketpair(AF_UNIX, SOCK_STREAM, 0, launcher));
	fds[0] = launcher[0];
	pmi_expect(line[0]);
	pmi_hand_over(tasks, environment, line[1], fds, &(int32_t){ 9 }, 1);
	close(line[1]);
	r.fd = fds[0];
	caller = accept(keeper, NULL, NULL);
	CHECK(hear(caller, &message, given, &ngiven) && message.kind == LINE && ngiven == 2);
	/* The keeper would copy from one to the other. */
	r.launcher = given[1];
	close(given[0]);
	close(launcher[1]);
	close(caller);
	close(keeper);
	pmi_serve();
	return r;
}

static bool readable(int fd)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1;
}

/* What is there, as one text. */
static char *read_text(int fd, int version)
{
	static char data[4096];
	ssize_t n = recv(fd, data, sizeof(data) - 1, MSG_DONTWAIT);

	if (n <= 0)
		return strdup(n ? "nothing" : "end");
	CHECK(pmi_length(version, data, n) == n);
	return pmi_text(version, data, n);
}

static bool same(char *text, const char *expected)
{
	bool yes = !strcmp(text, expected);

	if (!yes)
		fprintf(stderr, "'%s', not '%s'\n", text, expected);
	free(text);
	return yes;
}

static void ask(const struct rank *r, const char *request)
{
	CHECK(pmi_send(r->fd, r->version, request));
	pmi_serve();
}

/* Waits for the answer that the top gives by itself. */
static bool answers(const struct rank *r, const char *expected)
{
	for (int i = 0; i < SERVES && !readable(r->fd); i++) {
		poll(NULL, 0, 5);
		pmi_serve();
	}
	return same(read_text(r->fd, r->version), expected);
}

static void answer(struct rank *r, const char *text)
{
	CHECK(pmi_send(r->launcher, r->version, text));
	pmi_serve();
	CHECK(same(read_text(r->fd, r->version), text));
}

static void through(struct rank *r, const char *request, const char *response)
{
	ask(r, request);
	CHECK(same(read_text(r->launcher, r->version), request));
	answer(r, response);
}

/* Nobody has the other end then but the top itself. */
static void restart(struct rank *r, const char *place)
{
	if (r->launcher >= 0)
		close(r->launcher);
	r->launcher = -1;
	here = place;
	pmi_serve();
}

/* The launcher, which the keeper stands for here, ends the line. */
static void end_with_launcher(struct rank *r)
{
	shutdown(r->launcher, SHUT_RDWR);
	pmi_serve();
	CHECK(same(read_text(r->fd, r->version), "end"));
}

/* In any order. */
static bool answers_both(const struct rank *r, const char *one, const char *other)
{
	char expected[2][1024], data[2048] = "";
	size_t used = 0;

	snprintf(expected[0], sizeof(expected[0]), "%6zu%s%6zu%s", strlen(one), one, strlen(other), other);
	snprintf(expected[1], sizeof(expected[1]), "%6zu%s%6zu%s", strlen(other), other, strlen(one), one);
	for (int i = 0; i < SERVES && used < strlen(expected[0]); i++) {
		ssize_t n = recv(r->fd, data + used, sizeof(data) - 1 - used, MSG_DONTWAIT);

		used += n > 0 ? n : 0;
		poll(NULL, 0, 5);
		pmi_serve();
	}
	return !strcmp(data, expected[0]) || !strcmp(data, expected[1]);
}

static void end(struct rank *r)
{
	ask(r, r->version == 1 ? "cmd=finalize" : "cmd=finalize;");
	CHECK(answers(r, r->version == 1 ? "cmd=finalize_ack rc=0 msg=success" : "cmd=finalize-response;rc=0;"));
	CHECK(same(read_text(r->fd, r->version), "end"));
	close(r->fd);
	pmi_serve();
}

static void version_1_goes_on(void)
{
	struct rank r = begin(0, 1);

	through(&r, "cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
	through(&r, "cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_17 rc=0");
	through(&r, "cmd=put kvsname=kvs_17 key=a value=of\\ 0", "cmd=put_result rc=0 msg=success");
	through(&r, "cmd=barrier_in", "cmd=barrier_out rc=0");
	through(&r, "cmd=get kvsname=kvs_17 key=b", "cmd=get_result rc=0 msg=success value=of_1");
	restart(&r, "second");
	CHECK(coordinator->heard[0] && coordinator->entered[0] == 1 && !strcmp(coordinator->put, "a=of\\ 0"));
	ask(&r, "cmd=get_my_kvsname");
	CHECK(answers(&r, "cmd=my_kvsname kvsname=kvs_17 rc=0"));
	ask(&r, "cmd=get kvsname=kvs_17 key=b");
	CHECK(answers(&r, "cmd=get_result rc=0 msg=success value=of_1"));
	/* What another host's rank has put. */
	ask(&r, "cmd=get kvsname=kvs_17 key=c");
	CHECK(same(read_text(r.fd, 1), "nothing"));
	strcpy(coordinator->key, "c");
	strcpy(coordinator->value, "of_2");
	CHECK(answers(&r, "cmd=get_result rc=0 msg=success value=of_2"));
	ask(&r, "cmd=get kvsname=kvs_17 key=d");
	CHECK(same(read_text(r.fd, 1), "nothing"));
	coordinator->all = true;
	CHECK(answers(&r, "cmd=get_result rc=-1 msg=key_not_found value=unknown"));
	ask(&r, "cmd=barrier_in");
	CHECK(same(read_text(r.fd, 1), "nothing") && coordinator->entered[0] == 2);
	coordinator->passed = 2;
	CHECK(answers(&r, "cmd=barrier_out rc=0 msg=success"));
	end(&r);
}

static void version_2_goes_on(void)
{
	struct rank r = begin(1, 1);

	through(&r, "cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0");
	r.version = 2;
	through(&r, "cmd=fullinit;pmijobid=17;pmirank=1;threaded=TRUE;", "cmd=fullinit-response;rc=0;rank=1;size=2;");
	through(&r, "cmd=info-getjobattr;thrid=1;key=PMI_process_mapping;",
		"cmd=info-getjobattr-response;thrid=1;rc=0;found=TRUE;value=(vector,(0,2,1));");
	through(&r, "cmd=kvs-put;key=k;value=a;;b;", "cmd=kvs-put-response;rc=0;");
	ask(&r, "cmd=kvs-fence;thrid=2;");
	restart(&r, "second");
	CHECK(coordinator->entered[1] == 1 && !strcmp(coordinator->put, "k=a;;b"));
	ask(&r, "cmd=info-getjobattr;thrid=3;key=PMI_process_mapping;");
	CHECK(answers(&r, "cmd=info-getjobattr-response;thrid=3;rc=0;found=TRUE;value=(vector,(0,2,1));"));
	ask(&r, "cmd=kvs-get;jobid=17;srcid=-1;key=k;");
	CHECK(answers(&r, "cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b;"));
	coordinator->passed = 1;
	CHECK(answers(&r, "cmd=kvs-fence-response;thrid=2;rc=0;"));
	ask(&r, "cmd=info-getnodeattr;key=n;wait=TRUE;");
	CHECK(same(read_text(r.fd, 2), "nothing"));
	CHECK(pmi_send(r.fd, 2, "cmd=info-putnodeattr;thrid=4;key=n;value=v;"));
	CHECK(answers_both(&r, "cmd=info-putnodeattr-response;thrid=4;rc=0;",
			   "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=v;"));
	end(&r);
}

/* It was entered at the launcher. For another rank it may have been over there. */
static void a_barrier_is_over_once(void)
{
	struct rank r = begin(0, 1);

	through(&r, "cmd=barrier_in", "cmd=barrier_out rc=0");
	ask(&r, "cmd=barrier_in");
	coordinator->passed = 1;
	restart(&r, "second");
	CHECK(coordinator->entered[0] == 2 && same(read_text(r.fd, 1), "nothing"));
	coordinator->passed = 2;
	CHECK(answers(&r, "cmd=barrier_out rc=0 msg=success"));
	ask(&r, "cmd=barrier_in");
	/* And the same in the life after the next restart, of which the coordinator knows nothing yet. */
	coordinator->entered[0] = coordinator->passed = 0;
	restart(&r, "third");
	CHECK(coordinator->entered[0] == 3 && same(read_text(r.fd, 1), "nothing"));
	coordinator->passed = 3;
	CHECK(answers(&r, "cmd=barrier_out rc=0 msg=success"));
	end(&r);
}

/* It is in the image, on its way. */
static void an_answer_from_before_the_restart_counts(void)
{
	struct rank r = begin(0, 1);

	ask(&r, "cmd=barrier_in");
	CHECK(pmi_send(r.launcher, 1, "cmd=barrier_out rc=0"));
	restart(&r, "second");
	CHECK(same(read_text(r.fd, 1), "cmd=barrier_out rc=0"));
	CHECK(coordinator->entered[0] == 1);
	end(&r);
}

static void a_program_that_begins_after_the_restart_has_its_answers(void)
{
	struct rank r = begin(1, 1), other = begin(0, 1);

	restart(&r, "second");
	ask(&r, "cmd=init pmi_version=2 pmi_subversion=0");
	CHECK(answers(&r, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0"));
	r.version = 2;
	ask(&r, "cmd=fullinit;pmijobid=17;pmirank=1;threaded=FALSE;");
	CHECK(answers(&r, "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=0;debugged=FALSE;"
			  "pmiverbose=FALSE;"));
	ask(&other, "cmd=init pmi_version=1 pmi_subversion=1");
	CHECK(answers(&other, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"));
	ask(&other, "cmd=get_universe_size");
	CHECK(answers(&other, "cmd=universe_size rc=0 size=2"));
	end(&other);
	end(&r);
}

static void spawn_is_refused(void)
{
	struct rank r = begin(0, 1);
	char answered[1024];

	CHECK(send(r.fd, "mcmd=spawn\nnprocs=1\nexecname=x\nendcmd\n", 39, 0) == 39);
	pmi_serve();
	CHECK(same(read_text(r.launcher, 1), "nothing"));
	CHECK(recv(r.fd, answered, sizeof(answered), MSG_DONTWAIT) > 0 && strstr(answered, "cmd=spawn_result rc=1 msg=ShadowVerbs_"));
	end_with_launcher(&r);
}

/* It was not told in time by the launcher. */
static void an_end_from_before_the_restart_is_answered(void)
{
	struct rank r = begin(0, 1);

	ask(&r, "cmd=finalize");
	restart(&r, "second");
	CHECK(answers(&r, "cmd=finalize_ack rc=0 msg=success"));
	CHECK(same(read_text(r.fd, 1), "end"));
	close(r.fd);
}

/* It has asked for several things, and is gone before the first of them is there. */
static void who_has_died_is_answered_without_harm(void)
{
	struct rank r = begin(1, 1);

	through(&r, "cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0");
	r.version = 2;
	ask(&r, "cmd=kvs-get;jobid=17;srcid=-1;key=x;thrid=1;");
	ask(&r, "cmd=kvs-get;jobid=17;srcid=-1;key=x;thrid=2;");
	strcpy(coordinator->key, "x");
	strcpy(coordinator->value, "y");
	close(r.fd);
	restart(&r, "second");
	pmi_serve();
}

static void a_rank_that_dies_is_not_waited_for(void)
{
	struct rank r = begin(0, 1), other = begin(1, 1);

	restart(&r, "second");
	ask(&r, "cmd=barrier_in");
	CHECK(coordinator->entered[1] == 0);
	close(other.fd);
	pmi_serve();
	CHECK(coordinator->entered[1] == INT64_MAX);
}

static void abort_ends_the_job(void)
{
	struct rank r = begin(0, 1);

	ask(&r, "cmd=abort exitcode=3");
	CHECK(same(read_text(r.launcher, 1), "cmd=abort exitcode=3"));
	restart(&r, "second");
	CHECK(!*coordinator->aborted);
	ask(&r, "cmd=abort exitcode=3");
	CHECK(!strcmp(coordinator->aborted, "rank 0 has called MPI_Abort"));
}

static void the_line_ends_with_the_launcher_s(void)
{
	struct rank r = begin(0, 1);

	through(&r, "cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
	end_with_launcher(&r);
}

/* Each in a process of its own, with an agent. */
static void run(const char *name, void (*test)(void))
{
	struct sockaddr_un address = address_of(agent);
	int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), status;
	pid_t its_agent, child;

	unlink(agent);
	memset(coordinator, 0, sizeof(*coordinator));
	CHECK(!bind(listening, (struct sockaddr *)&address, sizeof(address)) && !listen(listening, 10));
	its_agent = fork();
	if (!its_agent)
		be_agent(listening);
	close(listening);
	child = fork();
	if (!child) {
		pmi_open(where, agent);
		test();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	kill(its_agent, SIGKILL);
	CHECK(waitpid(its_agent, NULL, 0) == its_agent);
	CHECK(status == 0);
	printf("  ok  %s\n", name);
}

#define RUN(test) run(#test, test)

int main(void)
{
	CHECK(mkdtemp(folder));
	snprintf(tasks, sizeof(tasks), "%s/tasks", folder);
	snprintf(agent, sizeof(agent), "%s/agent", folder);
	coordinator = mmap(NULL, sizeof(*coordinator), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	RUN(version_1_goes_on);
	RUN(version_2_goes_on);
	RUN(a_barrier_is_over_once);
	RUN(an_answer_from_before_the_restart_counts);
	RUN(a_program_that_begins_after_the_restart_has_its_answers);
	RUN(spawn_is_refused);
	RUN(an_end_from_before_the_restart_is_answered);
	RUN(who_has_died_is_answered_without_harm);
	RUN(a_rank_that_dies_is_not_waited_for);
	RUN(abort_ends_the_job);
	RUN(the_line_ends_with_the_launcher_s);
	unlink(tasks);
	unlink(agent);
	rmdir(folder);
	return 0;
}
