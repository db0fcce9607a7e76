/*
 * A library to preload behind others: its malloc and write find the next ones by RTLD_NEXT, as tools that count or trace do.
 * At the end each process says how often they were called.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static unsigned long mallocs, writes;

void *malloc(size_t size)
{
	static void *(*next)(size_t);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "malloc");
	__atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED);
	return next(size);
}

ssize_t write(int fd, const void *bytes, size_t count)
{
	static ssize_t (*next)(int, const void *, size_t);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "write");
	__atomic_add_fetch(&writes, 1, __ATOMIC_RELAXED);
	return next(fd, bytes, count);
}

static __attribute__((destructor)) void say(void)
{
	char line[128];
	int length;

	if (mallocs && writes) {
		length = snprintf(line, sizeof(line), "counted: %lu mallocs, %lu writes\n", mallocs, writes);
		(void)!write(STDERR_FILENO, line, length);
	}
}
