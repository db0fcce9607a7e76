/* SPDX-License-Identifier: Apache-2.0 */
#include "base/object_symbols.h"

/* In the table of versions. */
#define NOT_DEFAULT 0x8000

static const ElfW(Dyn) *entry(const struct link_map *object, ElfW(Sxword) tag)
{
	const ElfW(Dyn) *at = object->l_ld;

	while (at->d_tag != DT_NULL && at->d_tag != tag)
		at++;
	return at->d_tag == tag ? at : NULL;
}

/* The loader has made addresses of them, but where the object can't be written to. */
static const void *table(const struct link_map *object, ElfW(Sxword) tag)
{
	const ElfW(Dyn) *at = entry(object, tag);
	ElfW(Addr) address = at ? at->d_un.d_ptr : 0;

	return (const void *)(address && address < object->l_addr ? address + object->l_addr : address);
}

static bool same(const char *one, const char *other)
{
	while (*one && *one == *other)
		one++, other++;
	return *one == *other;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash;
}

void *sv_elf_function(const struct link_map *object, const char *name)
{
	const ElfW(Sym) *symbols = table(object, DT_SYMTAB);
	const char *names = table(object, DT_STRTAB);
	const ElfW(Half) *versions = table(object, DT_VERSYM);
	const uint32_t *hashes = table(object, DT_GNU_HASH), *buckets, *chain;
	uint32_t wanted = hash_of(name), first, i;

	if (!hashes || !symbols || !names || !hashes[0])
		return NULL;
	first = hashes[1];
	/* Behind a head of four words and the Bloom filter. */
	buckets = hashes + 4 + hashes[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	chain = buckets + hashes[0];
	i = buckets[wanted % hashes[0]];
	if (i < first)
		return NULL;
	for (;; i++) {
		const ElfW(Sym) *symbol = &symbols[i];

		if ((chain[i - first] | 1) == (wanted | 1) && symbol->st_shndx != SHN_UNDEF &&
		    ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && !(versions && versions[i] & NOT_DEFAULT) &&
		    same(names + symbol->st_name, name))
			return (void *)(object->l_addr + symbol->st_value);
		if (chain[i - first] & 1)
			return NULL;
	}
}

bool sv_elf_is_called(const struct link_map *object, const char *begin)
{
	const ElfW(Dyn) *soname = entry(object, DT_SONAME);
	const char *names = table(object, DT_STRTAB);

	return soname && names && sv_begins(names + soname->d_un.d_val, begin);
}
