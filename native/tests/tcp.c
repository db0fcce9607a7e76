/* SPDX-License-Identifier: Apache-2.0 */
/* ib2tcp's side of the application: what posts write into the rings, what polls read, when the engine is woken. */
#include "test.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/tcp_abi.h"

#define ENTRIES 4
#define STRIDE 128

struct world {
	struct ibv_context context;
	struct sv_tcp_qp qp;
	struct sv_tcp_cq cq;
	struct sv_tcp_srq srq;
	char send[ENTRIES * STRIDE], recv[ENTRIES * STRIDE];
	struct ibv_wc completions[ENTRIES];
	char payload[64];
};

static struct world *make_world(void)
{
	struct world *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);

	memset(w, 0, sizeof(*w));
	sv_tcp_context_init(&w->context);
	w->qp.v.context = w->cq.v.context = &w->context;
	w->qp.send = (struct sv_tcp_ring){ (uintptr_t)w->send, STRIDE, ENTRIES - 1, ENTRIES - 1, 2, 32, 0 };
	w->qp.recv = (struct sv_tcp_ring){ (uintptr_t)w->recv, STRIDE, ENTRIES - 1, ENTRIES - 1, 2, 0, 0 };
	w->qp.bell = 70;
	w->qp.opcodes = ~0u;
	w->qp.v.state = IBV_QPS_RTS;
	w->srq.v.context = &w->context;
	w->srq.recv = w->qp.recv;
	w->srq.bell = 71;
	w->cq.mask = ENTRIES - 1;
	w->cq.entries = (uintptr_t)w->completions;
	memset(sv_tcp_doorbell(), 0, sizeof(struct sv_tcp_doorbell));
	return w;
}

static struct sv_tcp_send *sent(struct world *w, uint32_t index)
{
	return (struct sv_tcp_send *)(w->send + index % ENTRIES * STRIDE);
}

static int post(struct world *w, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return w->context.ops.post_send(&w->qp.v, wr, bad);
}

static void test_a_request_is_written_whole(void)
{
	struct world *w = make_world();
	struct ibv_sge sges[2] = { { 0x1000, 10, 5 }, { 0x2000, 20, 6 } };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = sges, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED, .imm_data = 99,
				  .wr.rdma = { .remote_addr = 0x123456789, .rkey = 42 } }, *bad = NULL;

	CHECK_EQUAL(post(w, &wr, &bad), 0);
	CHECK_EQUAL(w->qp.send_tail, 1);
	CHECK_EQUAL(sent(w, 0)->wr_id, 7);
	CHECK_EQUAL(sent(w, 0)->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	CHECK_EQUAL(sent(w, 0)->length, 30);
	CHECK_EQUAL(sent(w, 0)->imm, 99);
	CHECK_EQUAL(sent(w, 0)->remote_addr, 0x123456789);
	CHECK_EQUAL(sent(w, 0)->rkey, 42);
	CHECK(!memcmp(sent(w, 0) + 1, sges, sizeof(sges)));
	CHECK_EQUAL(sv_tcp_doorbell()->due[1], 1ull << 6);
	free(w);
}

static void test_inline_payload_is_captured(void)
{
	struct world *w = make_world();
	char one[] = "first ", two[] = "second";
	struct ibv_sge sges[2] = { { (uintptr_t)one, 6, 0 }, { (uintptr_t)two, 6, 0 } };
	struct ibv_send_wr wr = { .sg_list = sges, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE },
			   *bad = NULL;

	CHECK_EQUAL(post(w, &wr, &bad), 0);
	memset(one, 'x', sizeof(one));
	CHECK_EQUAL(sent(w, 0)->length, 12);
	CHECK_EQUAL(sent(w, 0)->num_sge, 0);
	CHECK(!memcmp(sent(w, 0) + 1, "first second", 12));
	sges[0].length = 33;
	CHECK_EQUAL(post(w, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	CHECK_EQUAL(w->qp.send_tail, 1);
	sges[0].length = 6;
	wr.opcode = IBV_WR_RDMA_READ;
	CHECK_EQUAL(post(w, &wr, &bad), EINVAL);
	free(w);
}

static void test_a_request_of_xrc_names_its_queue(void)
{
	struct world *w = make_world();
	struct ibv_send_wr add = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .qp_type.xrc.remote_srqn = 0x123,
				   .wr.atomic = { .remote_addr = 8, .compare_add = 5, .swap = 6, .rkey = 42 } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = 99, .qp_type.xrc.remote_srqn = 0x456,
				  .wr.rdma = { .remote_addr = 8, .rkey = 42 }, .next = &add }, *bad = NULL;

	w->qp.v.qp_type = IBV_QPT_XRC_SEND;
	CHECK_EQUAL(post(w, &wr, &bad), 0);
	CHECK_EQUAL(sent(w, 0)->compare_add, 0x456);
	CHECK_EQUAL(sent(w, 0)->imm, 99);
	CHECK_EQUAL(sent(w, 1)->imm, 0x123);
	CHECK_EQUAL(sent(w, 1)->compare_add, 5);
	free(w);
}

static void test_a_full_queue_refuses_and_names_the_request(void)
{
	struct world *w = make_world();
	struct ibv_send_wr wrs[4], *bad = NULL;

	memset(wrs, 0, sizeof(wrs));
	for (int i = 0; i < 4; i++) {
		wrs[i].opcode = IBV_WR_SEND;
		wrs[i].next = i < 3 ? &wrs[i + 1] : NULL;
	}
	CHECK_EQUAL(post(w, wrs, &bad), ENOMEM);
	CHECK(bad == &wrs[3]);
	CHECK_EQUAL(w->qp.send_tail, 3);
	w->qp.send_head = 1;
	CHECK_EQUAL(post(w, &wrs[3], &bad), 0);
	CHECK_EQUAL(w->qp.send_tail, 4);
	wrs[3].opcode = IBV_WR_RDMA_READ;
	w->qp.opcodes = 1u << IBV_WR_SEND;
	w->qp.send_head = 4;
	CHECK_EQUAL(post(w, &wrs[3], &bad), EINVAL);
	free(w);
}

static void test_in_state_reset_nothing_is_received(void)
{
	struct world *w = make_world();
	struct ibv_recv_wr recv = { .wr_id = 3 }, *bad = NULL;

	w->qp.v.state = IBV_QPS_RESET;
	CHECK_EQUAL(w->context.ops.post_recv(&w->qp.v, &recv, &bad), EINVAL);
	CHECK(bad == &recv);
	CHECK_EQUAL(w->qp.recv_tail, 0);
	w->qp.v.state = IBV_QPS_INIT;
	CHECK_EQUAL(w->context.ops.post_recv(&w->qp.v, &recv, &bad), 0);
	free(w);
}

static void test_a_sleeping_engine_is_woken_once(void)
{
	struct world *w = make_world();
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr recv = { .wr_id = 3 }, *bad_recv;
	uint64_t count;
	int fd = eventfd(0, EFD_NONBLOCK);

	sv_tcp_doorbell()->wake_fd = fd;
	CHECK_EQUAL(post(w, &wr, &bad), 0);
	CHECK(read(fd, &count, sizeof(count)) < 0);
	sv_tcp_doorbell()->sleeping = 1;
	CHECK_EQUAL(post(w, &wr, &bad), 0);
	CHECK_EQUAL(post(w, &wr, &bad), 0);
	CHECK_EQUAL(read(fd, &count, sizeof(count)), sizeof(count));
	CHECK_EQUAL(count, 1);
	/* A receive concerns the engine only when it has asked for it. */
	memset(sv_tcp_doorbell()->due, 0, sizeof(sv_tcp_doorbell()->due));
	CHECK_EQUAL(w->context.ops.post_recv(&w->qp.v, &recv, &bad_recv), 0);
	CHECK_EQUAL(sv_tcp_doorbell()->due[1], 0);
	w->qp.recv_wanted = 1;
	CHECK_EQUAL(w->context.ops.post_recv(&w->qp.v, &recv, &bad_recv), 0);
	CHECK_EQUAL(sv_tcp_doorbell()->due[1], 1ull << 6);
	CHECK_EQUAL(((struct sv_tcp_recv *)w->recv)->wr_id, 3);
	close(fd);
	free(w);
}

static void test_a_datagram_carries_its_address(void)
{
	struct world *w = make_world();
	struct sv_tcp_ah ah = { .gid_prefix = 0xfe80ull << 48, .gid_interface = 77, .sl = 3 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr.ud = { &ah.v, 0x123456, 0x80000001 } }, *bad;

	w->qp.v.qp_type = IBV_QPT_UD;
	CHECK_EQUAL(post(w, &wr, &bad), 0);
	CHECK_EQUAL(sent(w, 0)->remote_addr, ah.gid_prefix);
	CHECK_EQUAL(sent(w, 0)->compare_add, 77);
	CHECK_EQUAL(sent(w, 0)->swap, 3ull << 32 | 0x80000001);
	CHECK_EQUAL(sent(w, 0)->rkey, 0x123456);
	free(w);
}

static void test_changes_of_windows_are_requests(void)
{
	struct world *w = make_world();
	struct ibv_mr mr = { .lkey = 0x501 };
	struct ibv_mw mw = { .rkey = 0x7ff, .type = IBV_MW_TYPE_1 };
	struct ibv_mw_bind bind = { .wr_id = 4, .bind_info = { &mr, 0x1000, 64, IBV_ACCESS_REMOTE_READ } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x733 }, *bad;

	CHECK_EQUAL(w->context.ops.bind_mw(&w->qp.v, &mw, &bind), 0);
	CHECK_EQUAL(mw.rkey, 0x700);
	CHECK_EQUAL(sent(w, 0)->wr_id, 4);
	CHECK_EQUAL(sent(w, 0)->rkey, 0x700);
	CHECK_EQUAL(sent(w, 0)->remote_addr, 0x1000);
	CHECK_EQUAL(sent(w, 0)->compare_add, 64);
	CHECK_EQUAL(sent(w, 0)->swap, 0x501);
	CHECK_EQUAL(sent(w, 0)->imm, IBV_ACCESS_REMOTE_READ);
	CHECK_EQUAL(post(w, &wr, &bad), 0);
	CHECK_EQUAL(sent(w, 1)->imm, 0x733);
	/* What cannot be bound leaves the window as it is. */
	bind.bind_info.mw_access_flags = IBV_ACCESS_LOCAL_WRITE;
	CHECK_EQUAL(w->context.ops.bind_mw(&w->qp.v, &mw, &bind), EINVAL);
	CHECK_EQUAL(mw.rkey, 0x700);
	free(w);
}

static void test_a_shared_receive_queue_takes_so_many(void)
{
	struct world *w = make_world();
	struct ibv_sge sge = { 0x1000, 10, 5 };
	struct ibv_recv_wr wrs[4], *bad;

	memset(wrs, 0, sizeof(wrs));
	for (int i = 0; i < 4; i++)
		wrs[i] = (struct ibv_recv_wr){ .wr_id = i, .next = i < 3 ? &wrs[i + 1] : NULL, .sg_list = &sge, .num_sge = 1 };
	CHECK_EQUAL(w->context.ops.post_srq_recv(&w->srq.v, wrs, &bad), ENOMEM);
	CHECK(bad == &wrs[3]);
	CHECK_EQUAL(w->srq.tail, 3);
	CHECK_EQUAL(sv_tcp_doorbell()->due[1], 0);
	w->srq.head = w->srq.wanted = 1;
	CHECK_EQUAL(w->context.ops.post_srq_recv(&w->srq.v, &wrs[3], &bad), 0);
	CHECK_EQUAL(sv_tcp_doorbell()->due[1], 1ull << 7);
	CHECK_EQUAL(((struct sv_tcp_recv *)(w->recv + 3 * STRIDE))->wr_id, 3);
	free(w);
}

static void test_a_shared_receive_queue_keeps_what_it_holds_when_it_is_moved(void)
{
	struct world *w = make_world();
	char *more = calloc(8, STRIDE);
	struct ibv_sge sge = { 0x1000, 10, 5 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	w->srq.head = w->srq.tail = 3;	/* the receives lie across the old ring's end */
	for (wr.wr_id = 0; wr.wr_id < 2; wr.wr_id++)
		CHECK_EQUAL(w->context.ops.post_srq_recv(&w->srq.v, &wr, &bad), 0);
	CHECK_EQUAL(sv_tcp_srq_move(&w->srq, more, 0, 1), EINVAL);
	CHECK_EQUAL(sv_tcp_srq_move(&w->srq, more, 7, 6), 0);
	for (; wr.wr_id < 6; wr.wr_id++)
		CHECK_EQUAL(w->context.ops.post_srq_recv(&w->srq.v, &wr, &bad), 0);
	CHECK_EQUAL(w->context.ops.post_srq_recv(&w->srq.v, &wr, &bad), ENOMEM);
	for (uint32_t i = 0; i < 6; i++) {
		const struct sv_tcp_recv *recv = (void *)(more + (3 + i) % 8 * STRIDE);

		CHECK_EQUAL(recv->wr_id, i);
		CHECK_EQUAL(((const struct ibv_sge *)(recv + 1))->addr, 0x1000);
	}
	free(more);
	free(w);
}

static void test_completions_come_in_order_from_either_ring(void)
{
	struct world *w = make_world();
	struct ibv_wc more[8], wc[4];

	CHECK_EQUAL(w->context.ops.poll_cq(&w->cq.v, 4, wc), 0);
	w->cq.head = w->cq.tail = 2;
	for (int i = 0; i < 4; i++)
		w->completions[w->cq.tail++ & w->cq.mask].wr_id = i;
	CHECK_EQUAL(w->context.ops.poll_cq(&w->cq.v, 1, wc), 1);
	CHECK_EQUAL(wc[0].wr_id, 0);
	sv_tcp_cq_move(&w->cq, more, NULL, 7);
	more[w->cq.tail++ & 7].wr_id = 4;
	CHECK_EQUAL(w->context.ops.poll_cq(&w->cq.v, 4, wc), 4);
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(wc[i].wr_id, i + 1);
	CHECK_EQUAL(w->context.ops.req_notify_cq(&w->cq.v, 1), 0);
	CHECK_EQUAL(w->cq.armed, SV_TCP_ARMED_SOLICITED);
	w->context.ops.req_notify_cq(&w->cq.v, 0);
	w->context.ops.req_notify_cq(&w->cq.v, 1);
	CHECK_EQUAL(w->cq.armed, SV_TCP_ARMED_ANY);
	/* One that has come may have come before the request. */
	w->cq.tail++;
	CHECK_EQUAL(w->context.ops.req_notify_cq(&w->cq.v, 0), SV_TCP_MISSED);
	CHECK_EQUAL(w->cq.armed, SV_TCP_ARMED_NOT);
	free(w);
}

static void test_an_extended_queue_reads_what_was_put_in(void)
{
	struct world *w = make_world();
	struct sv_tcp_stamp stamps[ENTRIES] = { { 0 } }, more_stamps[8];
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *ex = &w->cq.ex;
	struct ibv_wc more[8];

	w->cq.stamps = (uintptr_t)stamps;
	sv_tcp_cq_ex_init(&w->cq, IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
	CHECK(ex->read_slid == NULL);
	CHECK_EQUAL(ex->start_poll(ex, &attr), ENOENT);
	for (int i = 0; i < 3; i++) {
		w->completions[i] = (struct ibv_wc){ .wr_id = i, .byte_len = 10 + i };
		stamps[i].monotonic_ns = 100 + i;
		w->cq.tail++;
	}
	CHECK_EQUAL(ex->start_poll(ex, &attr), 0);
	CHECK_EQUAL(ex->wr_id, 0);
	CHECK_EQUAL(ibv_wc_read_byte_len(ex), 10);
	CHECK_EQUAL(ex->next_poll(ex), 0);
	CHECK_EQUAL(ibv_wc_read_completion_ts(ex), 101);
	ex->end_poll(ex);
	sv_tcp_cq_move(&w->cq, more, more_stamps, 7);
	CHECK_EQUAL(ex->start_poll(ex, &attr), 0);
	CHECK_EQUAL(ex->wr_id, 2);
	CHECK_EQUAL(ibv_wc_read_completion_ts(ex), 102);
	CHECK_EQUAL(ex->next_poll(ex), ENOENT);
	ex->end_poll(ex);
	free(w);
}

static void test_events_of_what_ends_are_taken_out(void)
{
	struct sv_tcp_event event = { .object = 1 };
	int ends[2];

	CHECK_EQUAL(pipe2(ends, O_NONBLOCK), 0);
	for (int i = 1; i <= 5; i++) {
		event.object = i == 2 || i == 5 ? 77 : i;
		CHECK_EQUAL(write(ends[1], &event, sizeof(event)), sizeof(event));
	}
	sv_tcp_forget_events(ends[0], ends[1], (void *)77);
	for (int i = 1; i <= 4; i++) {
		if (i == 2)
			continue;
		CHECK_EQUAL(read(ends[0], &event, sizeof(event)), sizeof(event));
		CHECK_EQUAL(event.object, i);
	}
	CHECK(read(ends[0], &event, sizeof(event)) < 0);
	close(ends[0]);
	close(ends[1]);
}

/* Which library is behind the preload library changes at a restart, and back. */
static void test_the_device_list_follows_the_selection(void)
{
	struct ibv_device **list;
	int count;

	CHECK(!sv_tcp_selected());
	sv_tcp_select(1);
	CHECK(sv_tcp_selected());
	list = ibv_get_device_list(&count);
	CHECK_EQUAL(count, 1);
	CHECK(!strcmp(ibv_get_device_name(list[0]), "tcp0"));
	CHECK(sv_device_real(list[0]) == sv_tcp_device());
	ibv_free_device_list(list);
	sv_tcp_select(0);
	list = ibv_get_device_list(&count);
	CHECK(strcmp(ibv_get_device_name(list[0]), "tcp0"));
	ibv_free_device_list(list);
}

/* What UCX asks before it uses a device. */
static bool has_file(const char *path)
{
	struct stat status;

	if (stat(path, &status)) {
		CHECK_EQUAL(errno, ENOENT);
		CHECK(access(path, R_OK | W_OK) && errno == ENOENT);
		return false;
	}
	CHECK(S_ISCHR(status.st_mode));
	CHECK(!access(path, R_OK | W_OK));
	return true;
}

static void test_a_device_without_a_file_seems_to_have_one(void)
{
	struct ibv_device **list, *tcp, *mock;
	const char *nowhere = (const char *)1;

	sv_tcp_select(1);
	list = ibv_get_device_list(NULL);
	tcp = list[0];
	ibv_free_device_list(list);
	CHECK(has_file("/dev/infiniband/tcp0"));
	CHECK(!has_file("/dev/infiniband/tcp1"));
	CHECK(!has_file("/dev/infiniband/mock-uverbs0"));
	sv_tcp_select(0);
	list = ibv_get_device_list(NULL);
	mock = list[0];
	CHECK(!has_file("/dev/infiniband/mock-uverbs0"));
	/* As after a restart: another device is behind the name that the application knows. */
	sv_device_bind(tcp, sv_device_real(mock));
	CHECK(has_file("/dev/infiniband/tcp0"));
	sv_device_bind(tcp, NULL);
	CHECK(has_file("/dev/infiniband/tcp0"));
	sv_device_bind(tcp, sv_tcp_device());
	sv_device_bind(mock, sv_tcp_device());
	CHECK(has_file("/dev/infiniband/mock-uverbs0"));
	CHECK(access(nowhere, F_OK) && errno == EFAULT);
	ibv_free_device_list(list);
}

static void test_a_queue_pair_that_is_to_fail_tells_the_engine(void)
{
	struct world *w = make_world();
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	sv_tcp_select(1);
	CHECK_EQUAL(ibv_modify_qp(&w->qp.v, &attr, IBV_QP_STATE), 0);
	CHECK_EQUAL(w->qp.fail_asked, 1);
	CHECK_EQUAL(sv_tcp_doorbell()->due[1], 1ull << 6);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQUAL(ibv_modify_qp(&w->qp.v, &attr, IBV_QP_STATE), EINVAL);
	sv_tcp_select(0);
	free(w);
}

static void *complete(void *of)
{
	struct world *w = of;

	while (!__atomic_load_n(&sv_tcp_doorbell()->waiting, __ATOMIC_SEQ_CST))
		usleep(10);
	__atomic_store_n(&w->cq.tail, w->cq.tail + 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&sv_tcp_doorbell()->completions, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &sv_tcp_doorbell()->completions, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return NULL;
}

static void test_who_polls_in_vain_rests_until_something_completes(void)
{
	struct world *w = make_world();
	pthread_t engine;
	struct ibv_wc wc;
	int polls = 0;

	CHECK_EQUAL(pthread_create(&engine, NULL, complete, w), 0);
	while (!w->context.ops.poll_cq(&w->cq.v, 1, &wc))
		polls++;
	CHECK(polls >= 63);
	pthread_join(engine, NULL);
	CHECK_EQUAL(sv_tcp_doorbell()->waiting, 0);
	free(w);
}

int main(void)
{
	RUN(test_who_polls_in_vain_rests_until_something_completes);
	RUN(test_a_queue_pair_that_is_to_fail_tells_the_engine);
	RUN(test_a_request_is_written_whole);
	RUN(test_a_request_of_xrc_names_its_queue);
	RUN(test_inline_payload_is_captured);
	RUN(test_a_full_queue_refuses_and_names_the_request);
	RUN(test_in_state_reset_nothing_is_received);
	RUN(test_a_sleeping_engine_is_woken_once);
	RUN(test_a_datagram_carries_its_address);
	RUN(test_changes_of_windows_are_requests);
	RUN(test_a_shared_receive_queue_takes_so_many);
	RUN(test_a_shared_receive_queue_keeps_what_it_holds_when_it_is_moved);
	RUN(test_completions_come_in_order_from_either_ring);
	RUN(test_an_extended_queue_reads_what_was_put_in);
	RUN(test_events_of_what_ends_are_taken_out);
	RUN(test_the_device_list_follows_the_selection);
	RUN(test_a_device_without_a_file_seems_to_have_one);
	return 0;
}
