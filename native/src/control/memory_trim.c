/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <malloc.h>

/*
 * The top of the heap stays where it is, however much of it is free: programs that keep regions over freed memory, because
 * they will get it again (GASNet), have told malloc never to shrink the heap.
 */
void sv_memory_trim(void)
{
	malloc_trim(SIZE_MAX);
}
