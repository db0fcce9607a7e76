/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/real.h"
#include "base/agent_place.h"
#include "base/next.h"
#include "base/say.h"
#include "tcp/tcp.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sv_real_functions functions, installed;
/* As sv_tcp_selected() returns it. */
static int tcp;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t found;

/* What a restart has chosen for the whole job, as JobBackend has it: programs list devices before there is a JVM. */
static bool job_backend(char *name, size_t size)
{
	char socket[SV_SOCKET_PATH], path[SV_SOCKET_PATH + NAME_MAX];

	return sv_agent_socket(getenv("SHADOWVERBS_AGENT"), getenv("SHADOWVERBS_JOB"), socket, sizeof(socket)) &&
	       sv_beside(socket, "backend", path, sizeof(path)) && sv_first_line(path, name, size) && strcmp(name, "same");
}

static void find(void)
{
	/* A program that has no libibverbs of its own may still reach us, through another library or by dlsym. */
	void *library = sv_library("libibverbs.so.1", "ibv_open_device");
	const char *backend;
	char jobs[32];

	if (!library) {
		sv_sayf("libibverbs.so.1 cannot be loaded: %s", dlerror());
		_exit(127);
	}
#define FIND(name) *(void **)&functions.name = sv_symbol(library, #name);
#define VIRTUAL(name) FIND(name)
#define PASS(type, name, parameters, arguments) FIND(name)
#define REFUSE(type, name, parameters, arguments, object, fail) FIND(name)
#include "base/verbs.def"
	installed = functions;
	backend = job_backend(jobs, sizeof(jobs)) ? jobs : getenv("SHADOWVERBS_BACKEND");
	if (backend && !strcmp(backend, "ib2tcp"))
		tcp = SV_TCP_WITHOUT_LIDS;
	if (backend && !strcmp(backend, "ib2tcp+infiniband"))
		tcp = SV_TCP_WITH_LIDS;
	if (tcp)
		sv_tcp_functions(&functions);
	sv_store_release(&found, 1);
}

const struct sv_real_functions *sv_real_functions(void)
{
	if (unlikely(!sv_load_acquire(&found)))
		pthread_once(&once, find);
	return &functions;
}

void *sv_installed_function(const char *name)
{
	sv_real_functions();
#define VIRTUAL(function)                \
	if (!strcmp(name, #function))    \
		return (void *)installed.function;
#define PASS(type, function, parameters, arguments) VIRTUAL(function)
#define REFUSE(type, function, parameters, arguments, object, fail) VIRTUAL(function)
#include "base/verbs.def"
	return NULL;
}

void sv_tcp_select(int on)
{
	sv_real_functions();
	functions = installed;
	tcp = on;
	if (on)
		sv_tcp_functions(&functions);
}

int sv_tcp_selected(void)
{
	sv_real_functions();
	return tcp;
}

void sv_real_missing(const char *name)
{
	sv_sayf("the installed libibverbs.so.1 has no %s", name);
	_exit(127);
}

int sv_real_query_port(struct ibv_context *real, uint8_t port, struct ibv_port_attr *attr)
{
	return ___ibv_query_port(real, port, attr);
}

int sv_real_query_device_ex(struct ibv_context *real, struct ibv_device_attr_ex *attr)
{
	return ibv_query_device_ex(real, NULL, attr);
}

struct ibv_mr *sv_real_reg_mr(struct ibv_pd *real, void *addr, uint64_t length, uint64_t iova, uint32_t access)
{
	if (iova == (uintptr_t)addr && !(access & IBV_ACCESS_OPTIONAL_RANGE))
		return SV_REAL(ibv_reg_mr)(real, addr, length, access);
	if (!SV_REAL(ibv_reg_mr_iova2)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return SV_REAL(ibv_reg_mr_iova2)(real, addr, length, iova, access);
}

struct ibv_cq_ex *sv_real_create_cq_ex(struct ibv_context *real, struct ibv_cq_init_attr_ex *attr)
{
	return ibv_create_cq_ex(real, attr);
}

int sv_real_modify_qp_rate_limit(struct ibv_qp *real, struct ibv_qp_rate_limit_attr *attr)
{
	return ibv_modify_qp_rate_limit(real, attr);
}

int sv_real_modify_cq(struct ibv_cq *real, struct ibv_modify_cq_attr *attr)
{
	return ibv_modify_cq(real, attr);
}

struct ibv_xrcd *sv_real_open_xrcd(struct ibv_context *real, struct ibv_xrcd_init_attr *attr)
{
	return ibv_open_xrcd(real, attr);
}

int sv_real_close_xrcd(struct ibv_xrcd *real)
{
	return ibv_close_xrcd(real);
}

struct ibv_srq *sv_real_create_srq_ex(struct ibv_context *real, struct ibv_srq_init_attr_ex *attr)
{
	return ibv_create_srq_ex(real, attr);
}

int sv_real_get_srq_num(struct ibv_srq *real, uint32_t *number)
{
	return ibv_get_srq_num(real, number);
}

struct ibv_qp *sv_real_create_qp_ex(struct ibv_context *real, struct ibv_qp_init_attr_ex *attr)
{
	return ibv_create_qp_ex(real, attr);
}

struct ibv_qp *sv_real_open_qp(struct ibv_context *real, struct ibv_qp_open_attr *attr)
{
	return ibv_open_qp(real, attr);
}

struct ibv_mr *sv_real_alloc_null_mr(struct ibv_pd *real)
{
	return ibv_alloc_null_mr(real);
}

struct ibv_dm *sv_real_alloc_dm(struct ibv_context *real, struct ibv_alloc_dm_attr *attr)
{
	return ibv_alloc_dm(real, attr);
}

int sv_real_free_dm(struct ibv_dm *real)
{
	return ibv_free_dm(real);
}

struct ibv_mr *sv_real_reg_dm_mr(struct ibv_pd *real, struct ibv_dm *dm, uint64_t offset, uint64_t length,
				 uint32_t access)
{
	return ibv_reg_dm_mr(real, dm, offset, length, access);
}

struct ibv_mw *sv_real_alloc_mw(struct ibv_pd *real, uint32_t type)
{
	return ibv_alloc_mw(real, type);
}

int sv_real_dealloc_mw(struct ibv_mw *real)
{
	return ibv_dealloc_mw(real);
}
