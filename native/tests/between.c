/* SPDX-License-Identifier: Apache-2.0 */
/* A library between ours and libibverbs passes verbs on: it is called once, and what it passes on is not ours again. */
#include "test.h"
#include "libbetween.h"

#include <dlfcn.h>

static bool is_in(const void *address, const char *library)
{
	Dl_info info;

	return dladdr(address, &info) && strstr(info.dli_fname, library);
}

static void it_is_called_once(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	CHECK(list && list[0]);
	CHECK_EQUAL(between_lists, 1);
	context = ibv_open_device(list[0]);
	CHECK(context && sv_real(context) != context);
	ibv_free_device_list(list);
	CHECK_EQUAL(ibv_close_device(context), 0);
	/* The real list is kept, for the device in it. One that brings nothing new is given back. */
	CHECK_EQUAL(between_frees, 0);
	ibv_free_device_list(ibv_get_device_list(NULL));
	CHECK_EQUAL(between_lists, 2);
	CHECK_EQUAL(between_frees, 1);
}

static void it_finds_the_real_ones_that_it_has_itself(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);

	CHECK(is_in(between_next("ibv_get_device_list"), "libibverbs"));
	CHECK(is_in(between_symbol(library, "ibv_get_device_list"), "libibverbs"));
	CHECK(is_in(between_next("ibv_open_device"), "libshadowverbs"));
	CHECK(is_in(between_symbol(library, "ibv_open_device"), "libshadowverbs"));
	/* And who stands in front gets ours. */
	CHECK(is_in(dlsym(library, "ibv_get_device_list"), "libshadowverbs"));
	CHECK(is_in(dlsym(RTLD_NEXT, "ibv_get_device_list"), "libshadowverbs"));
}

int main(void)
{
	RUN(it_is_called_once);
	RUN(it_finds_the_real_ones_that_it_has_itself);
	return 0;
}
