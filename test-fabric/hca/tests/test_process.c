/* Several processes: data and atomics across them, death at any time, and what is left after a close. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/segment.h"
#include "harness.h"

struct link {
	int in, out;
};

static void tell(struct link link, const void *data, size_t n)
{
	CHECK_EQ(write(link.out, data, n), n);
}

static void hear(struct link link, void *data, size_t n)
{
	await_readable(link.in, "the other process");
	CHECK_EQ(read(link.in, data, n), n);
}

/* Starts @child in a process of its own, connected to us by pipes. */
static pid_t start(struct link *link, void (*child)(struct link link))
{
	int down[2], up[2];
	pid_t pid;

	CHECK_EQ(pipe(down), 0);
	CHECK_EQ(pipe(up), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(down[1]);
		close(up[0]);
		child((struct link){ down[0], up[1] });
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	*link = (struct link){ up[0], down[1] };
	return pid;
}

static void finish(pid_t pid, struct link link)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	close(link.in);
	close(link.out);
}

static void connect_over(struct endpoint *ep, struct link link, struct address *peer)
{
	struct address own = endpoint_address(ep);
	char ready = 1;

	tell(link, &own, sizeof(own));
	hear(link, peer, sizeof(*peer));
	endpoint_connect(ep, peer);
	tell(link, &ready, 1);
	hear(link, &ready, 1);
}

static struct options opt = { .channel = true, .rnr_retry = 7, .min_rnr_timer = 1 };

#define MESSAGES 2000

/* Numbered messages, one at a time; the receiver sleeps for each. */
static void echo_child(struct link link)
{
	struct endpoint ep;
	struct address peer;
	uint32_t i;

	endpoint_open(&ep, &opt);
	connect_over(&ep, link, &peer);
	for (i = 0; i < MESSAGES; i++) {
		struct ibv_cq *cq;
		struct ibv_wc wc;
		void *context;

		CHECK_EQ(ibv_req_notify_cq(ep.recv_cq, 0), 0);
		CHECK_EQ(post_recv(&ep, i, 0, 4096), 0);
		await_readable(ep.channel->fd, "a message");
		CHECK_EQ(ibv_get_cq_event(ep.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		wc = expect(cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, 4 + i % 4000);
		CHECK_EQ(*(uint32_t *)ep.buf, i);
		CHECK_EQ(ep.buf[wc.byte_len - 1], wc.byte_len > 4 ? (unsigned char)i : 0xff & (i >> 24));
		CHECK_EQ(post_send(&ep, i, 0, 4, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
		expect(ep.send_cq, i, IBV_WC_SUCCESS);
	}
	endpoint_close(&ep);
}

static void messages_with_events(void)
{
	struct endpoint ep;
	struct address peer;
	struct link link;
	pid_t pid = start(&link, echo_child);
	uint32_t i;

	endpoint_open(&ep, &opt);
	connect_over(&ep, link, &peer);
	for (i = 0; i < MESSAGES; i++) {
		CHECK_EQ(post_recv(&ep, i, 8192, 64), 0);
		memset(ep.buf, (unsigned char)i, 4096);
		*(uint32_t *)ep.buf = i;
		CHECK_EQ(post_send(&ep, i, 0, 4 + i % 4000, IBV_SEND_SIGNALED), 0);
		expect(ep.send_cq, i, IBV_WC_SUCCESS);
		expect(ep.recv_cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(*(uint32_t *)(ep.buf + 8192), i);
	}
	endpoint_close(&ep);
	finish(pid, link);
}

#define ADDERS 3
#define ADDITIONS 3000

static void add_child(struct link link)
{
	struct options many = { .max_send_wr = 32 };
	struct endpoint ep;
	struct address peer;
	int i;
	char done = 1;

	endpoint_open(&ep, &many);
	connect_over(&ep, link, &peer);
	for (i = 0; i < ADDITIONS; i++) {
		CHECK_EQ(post_rdma(&ep, &peer, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 0, 8, 0, IBV_SEND_SIGNALED), 0);
		expect(ep.send_cq, i, IBV_WC_SUCCESS);
	}
	tell(link, &done, 1);
	endpoint_close(&ep);
}

static void atomics_of_many_processes(void)
{
	struct endpoint ep;
	struct ibv_qp *qp[ADDERS];
	struct link link[ADDERS];
	pid_t pid[ADDERS];
	int i;
	char byte;

	for (i = 0; i < ADDERS; i++)
		pid[i] = start(&link[i], add_child);
	endpoint_open(&ep, NULL);
	qp[0] = ep.qp;
	for (i = 0; i < ADDERS; i++) {
		struct address peer;

		if (i)
			ep.qp = qp[i] = endpoint_qp(&ep);
		connect_over(&ep, link[i], &peer);
	}
	for (i = 0; i < ADDERS; i++)
		hear(link[i], &byte, 1);
	CHECK_EQ(*(uint64_t *)ep.buf, 5ULL * ADDERS * ADDITIONS);
	ep.qp = qp[0];
	for (i = 1; i < ADDERS; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
	endpoint_close(&ep);
	for (i = 0; i < ADDERS; i++)
		finish(pid[i], link[i]);
}

/* Sends as fast as it can until it is killed. */
static void flood_child(struct link link)
{
	struct endpoint ep;
	struct address peer;
	uint32_t n = 0;

	endpoint_open(&ep, &opt);
	connect_over(&ep, link, &peer);
	for (;;) {
		*(uint32_t *)ep.buf = n;
		if (!post_send(&ep, n, 0, 64, IBV_SEND_SIGNALED))
			expect(ep.send_cq, n, IBV_WC_SUCCESS);
		n++;
	}
}

/*
 * Killed in full flight, over and over: what arrived is without gap, the receive queue and a CQ shared with
 * another QP go on working, and the dead peer is found out.
 */
static void killed_senders(void)
{
	struct options own = { .timeout = 10, .retry_cnt = 1, .max_recv_wr = 16 };
	struct endpoint ep;
	int round;

	endpoint_open(&ep, &own);
	for (round = 0; round < 30; round++) {
		uint32_t next = 0, posted = 0, limit = 50 + round * 43;
		struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET }, error = { .qp_state = IBV_QPS_ERR };
		struct address peer;
		struct link link;
		struct ibv_wc wc;
		pid_t pid = start(&link, flood_child);
		uint32_t flushed = 0;

		connect_over(&ep, link, &peer);
		for (; posted < 16; posted++)
			CHECK_EQ(post_recv(&ep, posted, 64 * (posted % 16), 64), 0);
		while (next < limit) {
			wc = expect(ep.recv_cq, next, IBV_WC_SUCCESS);
			CHECK_EQ(*(uint32_t *)(ep.buf + 64 * (next % 16)), next);
			next++;
			CHECK_EQ(post_recv(&ep, posted, 64 * (posted % 16), 64), 0);
			posted++;
		}
		CHECK_EQ(kill(pid, SIGKILL), 0);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
		/* Nobody answers any more. */
		CHECK_EQ(post_send(&ep, 9999, 0, 4, IBV_SEND_SIGNALED), 0);
		expect(ep.send_cq, 9999, IBV_WC_RETRY_EXC_ERR);
		CHECK_EQ(ibv_modify_qp(ep.qp, &error, IBV_QP_STATE), 0);
		/* Each receive posted completes exactly once, in order. */
		while (next < posted) {
			wc = poll_one(ep.recv_cq, "a receive after the kill");
			CHECK_EQ(wc.wr_id, next);
			if (wc.status == IBV_WC_SUCCESS)
				CHECK_EQ(flushed, 0);
			else
				flushed++;
			next++;
		}
		poll_none(ep.recv_cq, 1);
		CHECK_EQ(ibv_modify_qp(ep.qp, &reset, IBV_QP_STATE), 0);
		close(link.in);
		close(link.out);
	}
	endpoint_close(&ep);
}

static void die_child(struct link link)
{
	struct endpoint ep;
	struct address peer;
	char byte;

	hear(link, &byte, 1);
	if (byte) {
		char text[2] = { '0' + byte, 0 };

		harness_set("SV_HCA_DIE_AT", text);
	}
	endpoint_open(&ep, &opt);
	connect_over(&ep, link, &peer);
	post_send(&ep, 1, 0, 64, IBV_SEND_SIGNALED);
	hear(link, &byte, 1);
	endpoint_close(&ep);
}

/*
 * Killed at the three places where our structures are half changed. Each receive completes exactly once, and the CQ
 * serves the next peer, on another QP.
 */
static void killed_in_the_middle(void)
{
	struct options own = { .timeout = 10, .retry_cnt = 1 };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *first;
	struct endpoint ep;
	struct link link;
	struct address peer;
	char point;
	pid_t pid;

	for (point = 1; point <= 3; point++) {
		pid = start(&link, die_child);
		tell(link, &point, 1);
		endpoint_open(&ep, &own);
		first = ep.qp;
		CHECK_EQ(qp_init(&ep, ep.qp), 0);
		CHECK_EQ(post_recv(&ep, 1, 0, 64), 0);
		CHECK_EQ(post_recv(&ep, 2, 0, 64), 0);
		connect_over(&ep, link, &peer);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
		close(link.in);
		close(link.out);

		CHECK_EQ(ibv_modify_qp(ep.qp, &error, IBV_QP_STATE), 0);
		expect(ep.recv_cq, 1, point == 3 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
		expect(ep.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
		poll_none(ep.recv_cq, 1);

		pid = start(&link, die_child);
		tell(link, "", 1);
		ep.qp = endpoint_qp(&ep);
		CHECK_EQ(qp_init(&ep, ep.qp), 0);
		CHECK_EQ(post_recv(&ep, 3, 0, 64), 0);
		connect_over(&ep, link, &peer);
		expect(ep.recv_cq, 3, IBV_WC_SUCCESS);
		tell(link, "", 1);
		finish(pid, link);
		CHECK_EQ(ibv_destroy_qp(first), 0);
		endpoint_close(&ep);
	}
}

static int entries(const char *path, const char *prefix)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;

	CHECK(d);
	while ((e = readdir(d)))
		n += !strncmp(e->d_name, prefix, strlen(prefix)) && e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void open_child(struct link link)
{
	struct endpoint ep;
	char byte = 1;

	endpoint_open(&ep, NULL);
	tell(link, &byte, 1);
	pause();
}

static void files_of_the_dead_are_removed(void)
{
	const char *dir = getenv("SV_HCA_FABRIC");
	struct endpoint ep;
	struct link link;
	pid_t pid = start(&link, open_child);
	char byte;

	hear(link, &byte, 1);
	CHECK_EQ(entries(dir, "uverbs-"), 1);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK_EQ(entries(dir, "uverbs-"), 1);
	endpoint_open(&ep, NULL);
	CHECK_EQ(entries(dir, "uverbs-"), 1);
	endpoint_close(&ep);
	CHECK_EQ(entries(dir, "uverbs-"), 0);
	close(link.in);
	close(link.out);
}

/* The device is one, for all processes that have it open. */
static void lid_child(struct link link)
{
	struct endpoint ep;

	endpoint_open(&ep, NULL);
	tell(link, &ep.lid, sizeof(ep.lid));
	pause();
}

static void processes_share_a_lid(void)
{
	struct endpoint ep;
	struct link link;
	uint16_t lid;
	pid_t pid;

	endpoint_open(&ep, NULL);
	pid = start(&link, lid_child);
	hear(link, &lid, sizeof(lid));
	CHECK_EQ(lid, ep.lid);
	endpoint_close(&ep);
	/* The other one keeps it. */
	endpoint_open(&ep, NULL);
	CHECK_EQ(lid, ep.lid);
	endpoint_close(&ep);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	close(link.in);
	close(link.out);
}

static int lines_with(const char *path, const char *text)
{
	char line[512];
	FILE *f = fopen(path, "r");
	int n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += !!strstr(line, text);
	fclose(f);
	return n;
}

/* As a process checkpointer sees the process after a close. */
static void nothing_remains(void)
{
	struct options with_channel = { .channel = true };
	struct endpoint a, b;
	int fds = entries("/proc/self/fd", ""), threads = entries("/proc/self/task", "");

	pair_open(&a, &b, &with_channel);
	CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
	CHECK_EQ(post_send(&a, 1, 0, 64, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	CHECK(entries("/proc/self/fd", "") > fds);
	CHECK(lines_with("/proc/self/maps", "uverbs-") > 0);
	pair_close(&a, &b);
	CHECK_EQ(entries("/proc/self/fd", ""), fds);
	CHECK_EQ(entries("/proc/self/task", ""), threads);
	CHECK_EQ(lines_with("/proc/self/maps", "uverbs-"), 0);
	CHECK_EQ(lines_with("/proc/self/maps", "/dev/shm"), 0);
}

/* As a restored process has the mappings of its device: in their places, and empty. What slept in them is called again. */
static void lose_devices(void)
{
	char line[512], path[448];
	FILE *f = fopen("/proc/self/maps", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long from, to;
		struct seg *before;
		int fd;

		if (!strstr(line, "/uverbs-") || sscanf(line, "%lx-%lx %*s %*s %*s %*s %447s", &from, &to, path) != 3)
			continue;
		fd = open(path, O_RDWR | O_CLOEXEC);
		CHECK(fd >= 0);
		before = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
		CHECK(before != MAP_FAILED);
		close(fd);
		CHECK(mmap((void *)from, to - from, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED);
		syscall(SYS_futex, &before->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
		munmap(before, to - from);
	}
	fclose(f);
}

/* Without its device a process gives everything back, as RDMAV_ALLOW_DISASSOC_DESTROY has it, and may open devices again. */
static void a_lost_device_is_given_back(void)
{
	struct options with_channel = { .channel = true };
	int fds = entries("/proc/self/fd", ""), threads = entries("/proc/self/task", "");
	size_t used = 0;

	struct endpoint a, b;

	for (int i = 0; i < 6; i++) {
		pair_open(&a, &b, &with_channel);
		CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
		CHECK_EQ(post_recv(&b, 2, 64, 64), 0);
		CHECK_EQ(post_send(&a, 1, 0, 64, IBV_SEND_SIGNALED), 0);
		expect(a.send_cq, 1, IBV_WC_SUCCESS);
		lose_devices();
		pair_close(&a, &b);
		CHECK_EQ(entries("/proc/self/fd", ""), fds);
		CHECK_EQ(entries("/proc/self/task", ""), threads);
		CHECK_EQ(lines_with("/proc/self/maps", "/dev/zero"), 0);
		if (i == 4)
			used = mallinfo2().uordblks;
	}
	/* What was freed last is kept for a while, and counts. */
	CHECK(mallinfo2().uordblks < used + (256 << 10));
	pair_open(&a, &b, &with_channel);
	CHECK_EQ(post_recv(&b, 1, 0, 64), 0);
	CHECK_EQ(post_send(&a, 1, 0, 64, IBV_SEND_SIGNALED), 0);
	expect(a.send_cq, 1, IBV_WC_SUCCESS);
	pair_close(&a, &b);
}

/* The conf file wins over the environment, which a restored process cannot change. */
static void settings_come_from_the_file(void)
{
	struct endpoint ep;
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/conf", getenv("SV_HCA_FABRIC"));
	f = fopen(path, "w");
	CHECK(f);
	fprintf(f, "# a comment\nSV_HCA_ENOMEM_EVERY=1\nSV_HCA_DEVICES=3\n");
	fclose(f);
	harness_set("SV_HCA_ENOMEM_EVERY", "1000");
	endpoint_open(&ep, NULL);
	CHECK_EQ(post_send(&ep, 1, 0, 4, 0), ENOMEM);
	endpoint_close(&ep);
	{
		int n;
		struct ibv_device **list = ibv_get_device_list(&n);

		CHECK_EQ(n, 3);
		CHECK(!strcmp(ibv_get_device_name(list[2]), "shadow2"));
		ibv_free_device_list(list);
	}
	CHECK_EQ(unlink(path), 0);
	harness_set("SV_HCA_ENOMEM_EVERY", NULL);
	endpoint_open(&ep, NULL);
	CHECK_EQ(post_send(&ep, 1, 0, 4, 0), EINVAL);
	endpoint_close(&ep);
}

int main(void)
{
	harness_start();
	RUN(messages_with_events);
	RUN(atomics_of_many_processes);
	RUN(killed_senders);
	RUN(killed_in_the_middle);
	RUN(files_of_the_dead_are_removed);
	RUN(processes_share_a_lid);
	RUN(nothing_remains);
	RUN(a_lost_device_is_given_back);
	RUN(settings_come_from_the_file);
	return 0;
}
