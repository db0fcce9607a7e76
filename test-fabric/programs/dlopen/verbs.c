/*
 * The functions of libibverbs for a program that is not linked with it: loaded at the start, found by dlvsym, and by dlsym
 * where there is none of that version, as communication libraries do that must also run where there is no libibverbs.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef __x86_64__
#error "x86-64 only"
#endif

#define VERSION "IBVERBS_1.1"

/* All that common/ and selfcheck/ call; the linker names what is missing. */
#define USED(VERB)                      \
	VERB(ibv_ack_cq_events)         \
	VERB(ibv_alloc_pd)              \
	VERB(ibv_attach_mcast)          \
	VERB(ibv_close_device)          \
	VERB(ibv_create_ah)             \
	VERB(ibv_create_comp_channel)   \
	VERB(ibv_create_cq)             \
	VERB(ibv_create_qp)             \
	VERB(ibv_create_srq)            \
	VERB(ibv_dealloc_pd)            \
	VERB(ibv_dereg_mr)              \
	VERB(ibv_destroy_ah)            \
	VERB(ibv_destroy_comp_channel)  \
	VERB(ibv_destroy_cq)            \
	VERB(ibv_destroy_qp)            \
	VERB(ibv_destroy_srq)           \
	VERB(ibv_detach_mcast)          \
	VERB(ibv_free_device_list)      \
	VERB(ibv_get_cq_event)          \
	VERB(ibv_get_device_list)       \
	VERB(ibv_get_device_name)       \
	VERB(ibv_modify_qp)             \
	VERB(ibv_open_device)           \
	VERB(ibv_qp_to_qp_ex)           \
	VERB(ibv_query_device)          \
	VERB(ibv_query_gid)             \
	VERB(ibv_query_port)            \
	VERB(ibv_query_qp)              \
	VERB(ibv_reg_mr_iova2)          \
	VERB(ibv_wc_status_str)

/* A function that jumps to what was found. Nothing outside of the program sees it. */
#define JUMP(name)                                      \
	void *found_##name;                             \
	__asm__(".text\n"                               \
		".globl " #name "\n"                    \
		".hidden " #name "\n"                   \
		".type " #name ", @function\n"          \
		#name ":\n\t"                           \
		"jmp *found_" #name "(%rip)\n");
USED(JUMP)

static void *find(void *library, const char *name)
{
	void *function = dlvsym(library, name, VERSION);

	if (!function)
		function = dlsym(library, name);
	if (!function) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return function;
}

static __attribute__((constructor)) void load(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
#define FIND(name) found_##name = find(library, #name);
	USED(FIND)
}
