/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is not linked with libibverbs: it loads it, and finds what it needs by dlsym and dlvsym. */
#include "test.h"
#include "libbetween.h"

#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <sys/wait.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

#define VERBS "libibverbs.so.1"
#define CM_VERBS "librdmacm.so.1"
#define TODAY "IBVERBS_1.1"

static const char *const names[] = {
#define VIRTUAL(name) #name,
#define PASS(type, name, parameters, arguments) VIRTUAL(name)
#define REFUSE(type, name, parameters, arguments, object, fail) VIRTUAL(name)
#include "../src/base/verbs.def"
	NULL
};

static const char *const cm_names[] = {
#define CM(name) #name,
#define CM_GATED(type, name, parameters, arguments, channel, fail) CM(name)
#include "../src/cm/cm.def"
	NULL
};

/* In a process of its own, in which nothing is loaded yet. */
static void alone(void (*function)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		alarm(60);
		function();
		exit(0);
	}
	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	CHECK_EQUAL(status, 0);
}

static bool is_in(const void *address, const char *library)
{
	Dl_info info;

	return dladdr(address, &info) && strstr(info.dli_fname, library);
}

static bool is_loaded(const char *library)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);

	return handle && !dlclose(handle);
}

static void *load(const char *library, int how)
{
	void *handle = dlopen(library, RTLD_NOW | how);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(handle);
	return handle;
}

/* What a program takes of the library, and does with it. */
struct functions {
#define USED(FUNCTION)                  \
	FUNCTION(ibv_get_device_list)   \
	FUNCTION(ibv_free_device_list)  \
	FUNCTION(ibv_open_device)       \
	FUNCTION(ibv_close_device)      \
	FUNCTION(ibv_alloc_pd)          \
	FUNCTION(ibv_dealloc_pd)        \
	FUNCTION(ibv_reg_mr)            \
	FUNCTION(ibv_dereg_mr)
#define MEMBER(name) __typeof__(&name) name;
	USED(MEMBER)
};

static struct functions take(void *library, const char *version)
{
	struct functions taken;

#define TAKE(name) *(void **)&taken.name = version ? dlvsym(library, #name, version) : dlsym(library, #name); CHECK(taken.name);
	USED(TAKE)
	return taken;
}

static void use(const struct functions *f)
{
	static char memory[64];
	struct ibv_device **list = f->ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	CHECK(list && list[0]);
	context = f->ibv_open_device(list[0]);
	f->ibv_free_device_list(list);
	CHECK(context && sv_real(context) != context);
	pd = f->ibv_alloc_pd(context);
	CHECK(pd && pd->context == context && sv_real(pd) != pd);
	mr = f->ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && mr->pd == pd && sv_real(mr) != mr);
	CHECK_EQUAL(f->ibv_dereg_mr(mr), 0);
	CHECK_EQUAL(f->ibv_dealloc_pd(pd), 0);
	CHECK_EQUAL(f->ibv_close_device(context), 0);
}

static void use_by_dlsym(void)
{
	struct functions f;

	CHECK(!is_loaded(VERBS));
	f = take(load(VERBS, RTLD_LOCAL), NULL);
	use(&f);
}

static void use_by_dlvsym(void)
{
	struct functions f = take(load(VERBS, RTLD_LOCAL), TODAY);

	use(&f);
}

static void a_program_gets_virtual_objects(void)
{
	alone(use_by_dlsym);
	alone(use_by_dlvsym);
}

static unsigned ours(const char *library, const char *const *of)
{
	void *handle = load(library, RTLD_LOCAL);
	unsigned count = 0;

	for (; *of; of++) {
		void *function = dlsym(handle, *of);

		if (function) {
			count++;
			CHECK(is_in(function, "libshadowverbs"));
			CHECK(function == dlsym(RTLD_DEFAULT, *of) || is_in(dlsym(RTLD_DEFAULT, *of), "libbetween"));
		}
	}
	return count;
}

static void ask_for_all(void)
{
	CHECK(ours(VERBS, names) > 50);
	CHECK(ours(CM_VERBS, cm_names) > 8);
}

static void all_verbs_are_ours(void)
{
	alone(ask_for_all);
}

static void ask_for_others(void)
{
	void *library = load(VERBS, RTLD_LOCAL), *versioned, *plain;

	plain = dlsym(library, "mock_objects");
	versioned = dlvsym(library, "mock_objects", TODAY);
	CHECK(is_in(plain, VERBS) && versioned == plain);
	CHECK(!dlsym(library, "ibv_no_such_verb"));
	CHECK(strstr(dlerror(), "ibv_no_such_verb"));
	CHECK(!dlvsym(library, "ibv_open_device", "IBVERBS_9.9"));
	CHECK(strstr(dlerror(), "IBVERBS_9.9"));
	CHECK(!dlsym(RTLD_DEFAULT, "no_such_function"));
	CHECK(strstr(dlerror(), "no_such_function"));
	CHECK(!dlsym(RTLD_NEXT, "main"));
	/* All handles of the program itself. */
	CHECK(is_in(dlsym(dlopen(NULL, RTLD_NOW), "ibv_open_device"), "libshadowverbs"));
	CHECK(is_in(dlsym(RTLD_NEXT, "ibv_open_device"), "libshadowverbs"));
	CHECK(is_in(dlvsym(RTLD_DEFAULT, "ibv_open_device", TODAY), "libshadowverbs"));
}

static void other_names_are_the_c_librarys_business(void)
{
	alone(ask_for_others);
}

static void ask_for_version_1_0(void)
{
	void *library = load(VERBS, RTLD_LOCAL);
	char said[4096];
	int fds[2];
	ssize_t length;

	CHECK_EQUAL(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	CHECK(!dlvsym(library, "ibv_open_device", "IBVERBS_1.0"));
	CHECK(strstr(dlerror(), "IBVERBS_1.0 (not supported under checkpointing)"));
	CHECK(!dlvsym(RTLD_DEFAULT, "ibv_open_device", "IBVERBS_1.0"));
	length = read(fds[0], said, sizeof(said) - 1);
	CHECK(length > 0);
	said[length] = '\0';
	/* One line. */
	CHECK(strstr(said, "shadowverbs: dlvsym of ibv_open_device, version IBVERBS_1.0, is not supported"));
	CHECK(strchr(said, '\n') == said + length - 1);
}

static void other_structs_are_refused(void)
{
	alone(ask_for_version_1_0);
}

static void close_and_use(int how)
{
	void *library = load(VERBS, how);
	struct functions f = take(library, NULL);

	CHECK_EQUAL(dlclose(library), 0);
	CHECK(!is_loaded(VERBS));
	library = load(VERBS, how);
	use(&f);
	CHECK_EQUAL(dlclose(library), 0);
	CHECK(is_loaded(VERBS));
	use(&f);
}

static void close_local(void)
{
	close_and_use(RTLD_LOCAL);
}

static void close_global(void)
{
	close_and_use(RTLD_GLOBAL);
}

static void what_the_program_closes_stays_for_us(void)
{
	alone(close_local);
	alone(close_global);
}

static void ask_from_between(void)
{
	unsigned before = between_writes;
	char c = 'x';
	int fds[2];

	CHECK_EQUAL(pipe(fds), 0);
	CHECK_EQUAL(write(fds[1], &c, 1), 1);
	CHECK_EQUAL(between_writes, before + 1);
	CHECK(!is_in(between_next("write"), "libbetween") && !is_in(between_next("write"), "libshadowverbs"));
	/* Behind it nobody has verbs before a library is loaded; then ours are the ones to use. */
	CHECK(!between_next("ibv_open_device"));
	load(VERBS, RTLD_LOCAL);
	CHECK(is_in(between_next("ibv_open_device"), "libshadowverbs"));
	CHECK(is_in(between_symbol(load(VERBS, RTLD_LOCAL), "ibv_open_device"), "libshadowverbs"));
}

static void who_asks_for_the_next_gets_the_next(void)
{
	alone(ask_from_between);
}

int main(void)
{
	RUN(a_program_gets_virtual_objects);
	RUN(all_verbs_are_ours);
	RUN(other_names_are_the_c_librarys_business);
	RUN(other_structs_are_refused);
	RUN(what_the_program_closes_stays_for_us);
	RUN(who_asks_for_the_next_gets_the_next);
	return 0;
}
