/* A struct that the library did not make, or that it freed, ends the process by name; each case in a child. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* Runs @act in a child; its stderr has to name @verb and it has to abort. */
static void aborts(const char *verb, void (*act)(void))
{
	char text[4096] = "";
	int pipefd[2], status;
	ssize_t n, sum = 0;
	pid_t pid;

	CHECK_EQ(pipe(pipefd), 0);
	pid = fork();
	if (!pid) {
		/* A sanitizer would turn the signal into its own exit. */
		signal(SIGABRT, SIG_DFL);
		dup2(pipefd[1], 2);
		close(pipefd[0]);
		close(pipefd[1]);
		act();
		_exit(0);
	}
	close(pipefd[1]);
	while ((n = read(pipefd[0], text + sum, sizeof(text) - 1 - sum)) > 0)
		sum += n;
	close(pipefd[0]);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(text, verb)) {
		fprintf(stderr, "%s: status %x, said: %s\n", verb, status, text);
		exit(1);
	}
}

/* Large enough that the hidden fields behind a public struct can be read. */
static union {
	struct ibv_pd pd;
	struct ibv_mr mr;
	struct ibv_cq cq;
	struct ibv_qp qp;
	struct ibv_device device;
	char room[4096];
} foreign;

static struct endpoint ep;

static void foreign_pd(void)
{
	endpoint_open(&ep, NULL);
	foreign.pd = *ep.pd;
	ibv_reg_mr(&foreign.pd, ep.buf, 64, 0);
}

static void foreign_cq(void)
{
	endpoint_open(&ep, NULL);
	foreign.cq = *ep.send_cq;
	ibv_poll_cq(&foreign.cq, 1, NULL);
}

static void foreign_qp(void)
{
	struct ibv_send_wr *bad;

	endpoint_open(&ep, NULL);
	foreign.qp = *ep.qp;
	ibv_post_send(&foreign.qp, NULL, &bad);
}

/* A true copy of everything, hidden fields too, is still not the object. */
static void copied_qp(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	endpoint_open(&ep, NULL);
	memcpy(foreign.room, ep.qp, 512);
	ibv_query_qp(&foreign.qp, &attr, 0, &init);
}

static void foreign_cq_in_create_qp(void)
{
	struct ibv_qp_init_attr init = { .send_cq = &foreign.cq, .recv_cq = &foreign.cq, .qp_type = IBV_QPT_RC };

	endpoint_open(&ep, NULL);
	ibv_create_qp(ep.pd, &init);
}

static void freed_mr(void)
{
	endpoint_open(&ep, NULL);
	ibv_dereg_mr(ep.mr);
	ibv_dereg_mr(ep.mr);
}

static void foreign_device(void)
{
	ibv_open_device(&foreign.device);
}

static void all_abort(void)
{
	aborts("ibv_reg_mr", foreign_pd);
	aborts("ibv_poll_cq", foreign_cq);
	aborts("ibv_post_send", foreign_qp);
	aborts("ibv_query_qp", copied_qp);
	aborts("ibv_create_qp", foreign_cq_in_create_qp);
	aborts("ibv_dereg_mr", freed_mr);
	aborts("ibv_open_device", foreign_device);
}

/* Freed memory is poisoned, so stale fields are not usable. */
static void poisoned(void)
{
	struct ibv_pd *pd;

	endpoint_open(&ep, NULL);
	pd = ibv_alloc_pd(ep.ctx);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(*(unsigned char *)pd, 0xde);
	endpoint_close(&ep);
}

static void ids_differ_at_each_open(void)
{
	uint32_t qpn, lkey, rkey, same = 0;
	union ibv_gid gid, gid2;
	uint16_t lid;
	__be64 guid;

	endpoint_open(&ep, NULL);
	guid = ibv_get_device_guid(ep.ctx->device);
	qpn = ep.qp->qp_num;
	lkey = ep.mr->lkey;
	rkey = ep.mr->rkey;
	lid = ep.lid;
	CHECK_EQ(ibv_query_gid(ep.ctx, 1, 0, &gid), 0);
	CHECK(lkey != rkey);
	endpoint_close(&ep);
	endpoint_open(&ep, NULL);
	same = (qpn == ep.qp->qp_num) + (lkey == ep.mr->lkey) + (rkey == ep.mr->rkey) + (lid == ep.lid);
	CHECK(same <= 1);
	CHECK_EQ(ibv_query_gid(ep.ctx, 1, 0, &gid2), 0);
	CHECK(memcmp(&gid, &gid2, sizeof(gid)));
	CHECK(guid != ibv_get_device_guid(ep.ctx->device));
	endpoint_close(&ep);
}

/* With a narrow space ids of an earlier open come again. */
static void narrow_id_space(void)
{
	uint32_t first[8], i, k, open, hits = 0;
	struct ibv_mr *mr[8];

	harness_set("SV_HCA_ID_SPACE", "20");
	for (open = 0; open < 6; open++) {
		endpoint_open(&ep, NULL);
		for (i = 0; i < 8; i++) {
			mr[i] = ibv_reg_mr(ep.pd, ep.buf, 4096, 0);
			CHECK(mr[i]);
			CHECK(mr[i]->lkey != mr[i]->rkey);
			if (!open)
				first[i] = mr[i]->lkey;
			for (k = 0; open && k < 8; k++)
				hits += mr[i]->lkey == first[k];
		}
		for (i = 0; i < 8; i++)
			CHECK_EQ(ibv_dereg_mr(mr[i]), 0);
		endpoint_close(&ep);
	}
	harness_set("SV_HCA_ID_SPACE", NULL);
	/* 40 draws from 20 numbers of which eight were used: that none hits has a chance below one in ten million. */
	CHECK(hits);
}

int main(void)
{
	harness_start();
	RUN(all_abort);
	RUN(poisoned);
	RUN(ids_differ_at_each_open);
	RUN(narrow_id_space);
	return 0;
}
