/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory, regions of it, null regions, buffers of other drivers, advice; before and after a checkpoint. */
#include "test.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static const struct shape shape = { .send_wr = 8, .recv_wr = 8, .sge = 2 };

static struct ibv_dm *make_dm(struct fixture *f, size_t length)
{
	struct ibv_alloc_dm_attr attr = { .length = length };

	return ibv_alloc_dm(f->context, &attr);
}

static void device_memory(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_dm *dm = make_dm(f, 10);
	char bytes[12] = { 0 };

	errno = 0;
	CHECK(!make_dm(f, 257));
	CHECK_EQUAL(errno, ENOMEM);
	CHECK(dm && sv_real(dm) != dm && dm->context == f->context);
	CHECK_EQUAL(ibv_memcpy_to_dm(dm, 4, "abcd", 4), 0);
	CHECK_EQUAL(ibv_memcpy_to_dm(dm, 8, "efgh", 4), EFAULT);
	CHECK_EQUAL(ibv_memcpy_to_dm(dm, 12, "", 0), EFAULT);
	CHECK_EQUAL(ibv_memcpy_to_dm(dm, 1, "x", 1), EINVAL);
	CHECK_EQUAL(ibv_memcpy_from_dm(bytes, dm, 4, UINT64_MAX), EFAULT);
	close_gate();
	driver_detach(f->context);
	CHECK_EQUAL(mock_objects, 0);
	CHECK(!sv_real(dm));
	driver_reattach(f->context);
	sv_gate_open();
	CHECK_EQUAL(ibv_memcpy_from_dm(bytes, dm, 0, 8), 0);
	CHECK_EQUAL(memcmp(bytes, "\0\0\0\0abcd", 8), 0);
	CHECK_EQUAL(ibv_memcpy_to_dm(dm, 0, "wxyz", 4), 0);
	/* And once more: what was saved before is not what counts. */
	close_gate();
	driver_detach(f->context);
	driver_reattach(f->context);
	sv_gate_open();
	CHECK_EQUAL(ibv_memcpy_from_dm(bytes, dm, 0, 8), 0);
	CHECK_EQUAL(memcmp(bytes, "wxyzabcd", 8), 0);
	CHECK_EQUAL(ibv_free_dm(dm), 0);
	close_fixture(f);
}

/* A message landed for a receive whose SGEs lie in device memory, in nothing, and in a buffer that is out of reach. */
static enum ibv_wc_status land(struct fixture *f, struct ibv_sge *sges)
{
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = sges, .num_sge = 2 }, *bad;
	struct ibv_wc wc;

	close_gate();
	CHECK_EQUAL(sv_qp_post_landing(f->qp, 8), 0);
	mock_receive(mock_qp(f->qp), "12345678", 8);
	CHECK_EQUAL(sv_cq_drain(f->cq), 1);
	sv_gate_open();
	CHECK_EQUAL(ibv_post_recv(f->qp, &wr, &bad), 0);
	CHECK_EQUAL(ibv_poll_cq(f->cq, 1, &wc), 1);
	CHECK_EQUAL(wc.wr_id, 5);
	return wc.status;
}

static void regions(void)
{
	struct fixture *f = open_fixture(shape);
	struct ibv_dm *dm = make_dm(f, 16);
	struct ibv_mr *mr = ibv_reg_dm_mr(f->pd, dm, 4, 8, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *nothing = ibv_alloc_null_mr(f->pd);
	struct ibv_mr *buffer = ibv_reg_dmabuf_mr(f->pd, 0x40, 64, 0x40, 0, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sges[2];
	uint32_t lkey, vlkey;
	char bytes[16];

	CHECK(mr && nothing && buffer);
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(f->pd, 0, 64, 0, -1, 0));
	CHECK_EQUAL(errno, EBADF);
	sges[0] = (struct ibv_sge){ 4, 4, mr->lkey };
	sges[1] = (struct ibv_sge){ 0x1234, 100, nothing->lkey };
	CHECK_EQUAL(land(f, sges), IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_memcpy_from_dm(bytes, dm, 8, 4), 0);
	CHECK_EQUAL(memcmp(bytes, "1234", 4), 0);
	sges[0].lkey = buffer->lkey;
	sges[0].addr = 0x40;
	CHECK_EQUAL(land(f, sges), IBV_WC_LOC_PROT_ERR);
	CHECK_EQUAL(ibv_dereg_mr(buffer), 0);
	vlkey = nothing->lkey;
	lkey = ((struct ibv_mr *)sv_real(nothing))->lkey;
	close_gate();
	driver_detach(f->context);
	driver_reattach(f->context);
	sv_gate_open();
	CHECK(((struct ibv_mr *)sv_real(nothing))->lkey != lkey);
	CHECK_EQUAL(nothing->lkey, vlkey);
	/* Advice finds the new keys, also in a list longer than what is passed on at once. */
	struct ibv_sge list[20];

	for (int i = 0; i < 20; i++)
		list[i] = (struct ibv_sge){ 0, 1, i == 19 ? nothing->lkey : f->mr->lkey };
	mock_advices = 0;
	CHECK_EQUAL(ibv_advise_mr(f->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, list, 20), 0);
	CHECK_EQUAL(mock_advices, 20);
	CHECK_EQUAL(mock_advised[3], ((struct ibv_mr *)sv_real(nothing))->lkey);
	CHECK_EQUAL(mock_advised[2], ((struct ibv_mr *)sv_real(f->mr))->lkey);
	list[0].length = 0;
	CHECK_EQUAL(ibv_advise_mr(f->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, list, 1), ENOENT);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
	CHECK_EQUAL(ibv_dereg_mr(nothing), 0);
	CHECK_EQUAL(ibv_free_dm(dm), 0);
	close_fixture(f);
}

#define PIECES 16384
#define PIECE 4000

static long resident_pages(void)
{
	long total, resident;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file && fscanf(file, "%ld %ld", &total, &resident) == 2);
	fclose(file);
	return resident;
}

/* As the virtual machine's compiler does it: in an arena that is not the first, with something in use behind all the rest. */
static void *leave_freed_memory(void *before)
{
	static char *pieces[PIECES];

	for (int i = 0; i < PIECES; i++)
		pieces[i] = memset(malloc(PIECE), i, PIECE);
	*(long *)before = resident_pages();
	for (int i = 0; i < PIECES - 1; i++)
		free(pieces[i]);
	return pieces[PIECES - 1];
}

static void freed_memory_is_given_back(void)
{
	const long size = (long)PIECES * PIECE / sysconf(_SC_PAGESIZE);
	long before;
	pthread_t thread;
	void *last;

#ifdef __SANITIZE_ADDRESS__
	return;		/* which has an allocator of its own, as the other has */
#endif
#ifdef __SANITIZE_THREAD__
	return;
#endif
	CHECK_EQUAL(pthread_create(&thread, NULL, leave_freed_memory, &before), 0);
	CHECK_EQUAL(pthread_join(thread, &last), 0);
	CHECK(resident_pages() > before - size / 10);
	sv_memory_trim();
	CHECK(resident_pages() < before - size * 9 / 10);
	free(last);
}

/* As GASNet's firehose does it: a region over memory that malloc will give out again. */
static void a_region_over_freed_memory_stays_mapped(void)
{
	char *memory;
	void *end;

#ifdef __SANITIZE_ADDRESS__
	return;
#endif
#ifdef __SANITIZE_THREAD__
	return;
#endif
	CHECK(mallopt(M_TRIM_THRESHOLD, -1) && mallopt(M_MMAP_MAX, 0));
	memory = malloc(PIECES * PIECE);
	end = sbrk(0);
	CHECK(memory < (char *)end);
	memset(memory, 1, PIECES * PIECE);
	free(memory);
	sv_memory_trim();
	CHECK(sbrk(0) == end);
}

int main(void)
{
	RUN(freed_memory_is_given_back);
	RUN(a_region_over_freed_memory_stays_mapped);
	RUN(device_memory);
	RUN(regions);
	return 0;
}
