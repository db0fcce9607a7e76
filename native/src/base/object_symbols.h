/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a loaded object itself says of its symbols, read where the loader has it: without a lock, and without dlsym(3),
 * which this library stands in front of. Source: System V ABI, chapter 5; the hash table is that of GNU.
 */
#ifndef SV_OBJECT_SYMBOLS_H
#define SV_OBJECT_SYMBOLS_H

#include "base/base.h"

#include <link.h>

/* The function of that name that the object defines, of several versions the default one; NULL: it defines none. */
void *sv_elf_function(const struct link_map *object, const char *name);
/* Is the name by which others need the object one that begins so? */
bool sv_elf_is_called(const struct link_map *object, const char *begin);

static inline bool sv_begins(const char *text, const char *begin)
{
	while (*begin && *text == *begin)
		text++, begin++;
	return !*begin;
}

#endif
