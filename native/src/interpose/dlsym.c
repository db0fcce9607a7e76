/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that load libibverbs or librdmacm by dlopen(3) and ask for its functions by dlsym(3) or dlvsym(3) get ours. Every
 * other question goes on to the C library by a jump: it takes from the return address who asks, which is what RTLD_NEXT and
 * RTLD_DEFAULT are relative to. For names that are no verbs there is no lock, no allocation and no call on the way, so that
 * it may be asked wherever it might be before: ahead of all constructors, in handlers of signals, in forked children.
 *
 * Who is not to get ours: a library behind this one that defines verbs itself, to pass them on. We call it, and it must
 * not call us. The driver takes what it needs by sv_installed_function.
 *
 * Built without sanitizers, whose runtimes ask before they are ready.
 */
#include "base/next.h"
#include "base/object_symbols.h"
#include "base/say.h"
#include "interpose/real.h"

#pragma GCC visibility push(default)
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

#include <stdio.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the way to the C library's dlsym is written for x86-64, as shadowverbs launch is"
#endif

#define VERBS_LIBRARY "libibverbs"
#define CM_LIBRARY "librdmacm"
#define MAJOR_VERSION ".so.1"

static const struct verb {
	const char *name;
	void *ours;
	const char *library;
} verbs[] = {
#define VIRTUAL(name) { #name, (void *)name, VERBS_LIBRARY MAJOR_VERSION },
#define PASS(type, name, parameters, arguments) VIRTUAL(name)
#define REFUSE(type, name, parameters, arguments, object, fail) VIRTUAL(name)
#include "base/verbs.def"
#define CM(name) { #name, (void *)name, CM_LIBRARY MAJOR_VERSION },
#define CM_GATED(type, name, parameters, arguments, channel, fail) CM(name)
#include "cm/cm.def"
};

/* ---- The C library's functions ---------------------------------------------------------------------------------- */

static struct {
	void *(*symbol)(void *handle, const char *name);
	void *(*versioned_symbol)(void *handle, const char *name, const char *version);
} next;

/* The loader's list has the objects that a process is started with in the order in which they are searched. */
static const struct link_map *own, *last_at_start;

static const struct link_map *object_of(const void *address)
{
	struct link_map *object = NULL;
	Dl_info info;

	return dladdr1(address, &info, (void **)&object, RTLD_DL_LINKMAP) ? object : NULL;
}

/* A function of the objects behind this one; when this one was loaded later, not preloaded, of those in front. */
static void *next_function(const char *name)
{
	const struct link_map *object;
	void *function = NULL;

	for (object = own->l_next; object && !function; object = object->l_next)
		function = sv_elf_function(object, name);
	for (object = own->l_prev; object && !function; object = object->l_prev)
		function = sv_elf_function(object, name);
	if (!function) {
		sv_sayf("the C library has no %s", name);
		_exit(127);
	}
	return function;
}

/* Whoever comes at the same time finds the same. */
static SV_NOINLINE void find_next(void)
{
	const struct link_map *last;

	own = object_of(&next);
	for (last = own; last->l_next; last = last->l_next)
		;
	last_at_start = last;
	*(void **)&next.versioned_symbol = next_function("dlvsym");
	sv_store_release((void **)&next.symbol, next_function("dlsym"));
}

static __attribute__((constructor)) void look_before_anything_is_loaded(void)
{
	if (!sv_load_acquire(&next.symbol))
		find_next();
}

void *sv_symbol(void *handle, const char *name)
{
	if (unlikely(!sv_load_acquire(&next.symbol)))
		find_next();
	return next.symbol(handle, name);
}

void *sv_next(const char *name)
{
	return sv_symbol(RTLD_NEXT, name);
}

/* ---- Who stands where ------------------------------------------------------------------------------------------- */

static bool is_behind(const struct link_map *object)
{
	const struct link_map *at = own;

	while (at && at != last_at_start) {
		at = at->l_next;
		if (at == object)
			return at;
	}
	return false;
}

static bool is_in_front(const struct link_map *object)
{
	const struct link_map *at = own;

	while (at && at != object)
		at = at->l_prev;
	return at;
}

void *sv_library(const char *soname, const char *function)
{
	void *found = sv_next(function);

	return found && is_behind(object_of(found)) ? RTLD_NEXT : dlopen(soname, RTLD_NOW);
}

/* ---- Answers ---------------------------------------------------------------------------------------------------- */

/* The answer, or who is to give it. */
struct sv_answer {
	void *value;
	void *next;
};

static const struct verb *verb_of(const char *name)
{
	if (!sv_begins(name, "ibv_") && !sv_begins(name, "_ibv_") && !sv_begins(name, "rdma_") &&
	    !sv_begins(name, "mult_to_") && !sv_begins(name, "mbps_to_"))
		return NULL;
	for (const struct verb *verb = verbs; verb < verbs + sizeof(verbs) / sizeof(*verbs); verb++)
		if (!strcmp(verb->name, name))
			return verb;
	return NULL;
}

/*
 * Version 1.0 of some functions has other structs. The line is ours; the answer is the C library's to who asks for a
 * version that there is not, so that dlerror(3) has it.
 */
static void refuse_version(void *handle, const char *name, const char *version)
{
	static int said;
	char none[128];

	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		sv_sayf("dlvsym of %s, version %s, is not supported under checkpointing: only the version of today is", name,
			version);
	snprintf(none, sizeof(none), "%s (not supported under checkpointing)", version);
	next.versioned_symbol(handle, name, none);
}

/* NULL: neither of the two libraries has it. */
static const struct link_map *installed(const void *function)
{
	const struct link_map *object = function ? object_of(function) : NULL;

	return object && (sv_elf_is_called(object, VERBS_LIBRARY) || sv_elf_is_called(object, CM_LIBRARY)) ? object : NULL;
}

static SV_NOINLINE struct sv_answer answer(const struct verb *verb, void *handle, const char *version, const void *caller,
					   struct sv_answer pass)
{
	bool in_order = handle == RTLD_DEFAULT || handle == RTLD_NEXT;
	void *where = in_order ? dlopen(verb->library, RTLD_LAZY | RTLD_NOLOAD) : handle, *found = NULL;
	const struct link_map *asks = object_of(caller), *has;
	struct sv_answer result = pass;

	if (where)
		found = version ? next.versioned_symbol(where, verb->name, version) : next.symbol(where, verb->name);
	has = installed(found);
	if (has && !(is_behind(asks) && sv_elf_function(asks, verb->name))) {
		if (version && sv_elf_function(has, verb->name) != found) {
			refuse_version(where, verb->name, version);
			result = (struct sv_answer){ .value = NULL };
		} else if (version || !(handle == RTLD_DEFAULT || (handle == RTLD_NEXT && is_in_front(asks)))) {
			/* Otherwise the C library finds ours, or one in front. It finds no versioned one here. */
			result = (struct sv_answer){ .value = verb->ours };
		}
	}
	if (in_order && where)
		dlclose(where);
	return result;
}

/* version is NULL for dlsym. Called by what follows only, with the address to which that returns. */
struct sv_answer sv_dlsym_answer(void *handle, const char *name, const char *version, const void *caller);
struct sv_answer sv_dlsym_answer(void *handle, const char *name, const char *version, const void *caller)
{
	const struct verb *verb = verb_of(name);
	struct sv_answer pass;

	if (unlikely(!sv_load_acquire(&next.symbol)))
		find_next();
	pass = (struct sv_answer){ .next = version ? (void *)next.versioned_symbol : (void *)next.symbol };
	return likely(!verb) ? pass : answer(verb, handle, version, caller, pass);
}

/*
 * The arguments are kept for who is next; the stack is as it was when that is jumped to. The answer's two words come in
 * RAX and RDX (System V ABI for x86-64, 3.2.3).
 */
#define ASK_AND_JUMP(version)                           \
	__asm__("push %rdi\n\t"                         \
		".cfi_adjust_cfa_offset 8\n\t"          \
		"push %rsi\n\t"                         \
		".cfi_adjust_cfa_offset 8\n\t"          \
		"push %rdx\n\t"                         \
		".cfi_adjust_cfa_offset 8\n\t"          \
		version                                 \
		"mov 24(%rsp), %rcx\n\t"                \
		"call sv_dlsym_answer\n\t"              \
		"mov %rdx, %r11\n\t"                    \
		"pop %rdx\n\t"                          \
		".cfi_adjust_cfa_offset -8\n\t"         \
		"pop %rsi\n\t"                          \
		".cfi_adjust_cfa_offset -8\n\t"         \
		"pop %rdi\n\t"                          \
		".cfi_adjust_cfa_offset -8\n\t"         \
		"test %r11, %r11\n\t"                   \
		"jz 1f\n\t"                             \
		"jmp *%r11\n"                           \
		"1:\tret")

#define INTERPOSED __attribute__((naked, visibility("default")))
#define UNUSED __attribute__((unused))

INTERPOSED void *dlsym(UNUSED void *handle, UNUSED const char *name)
{
	ASK_AND_JUMP("xor %edx, %edx\n\t");
}

INTERPOSED void *dlvsym(UNUSED void *handle, UNUSED const char *name, UNUSED const char *version)
{
	ASK_AND_JUMP("");
}
