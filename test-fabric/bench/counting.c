/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations: the functions here take precedence over the C library's in every object of the process. System calls:
 * Syscall User Dispatch (linux/Documentation/admin-guide/syscall-user-dispatch.rst, Linux 5.11) turns each one of
 * this thread into a SIGSYS, whose handler counts it and then makes it. x86-64 only.
 */
#include "counting.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#define SYSCALL_DISPATCH_FILTER_ALLOW 0
#define SYSCALL_DISPATCH_FILTER_BLOCK 1
#endif

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static __thread int counting;
static __thread unsigned long allocations;
static volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;
static volatile unsigned long system_calls;

void *malloc(size_t size)
{
	allocations += counting;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations += counting;
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	allocations += counting;
	return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	allocations += counting;
	return __libc_memalign(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
	allocations += counting;
	return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size)
{
	allocations += counting;
	*result = __libc_memalign(alignment, size);
	return *result ? 0 : ENOMEM;
}

/* The one system call that is never dispatched: the handler's own return. Its address range is known. */
void counting_return(void);
__asm__(".text\n"
	".globl counting_return\n"
	".hidden counting_return\n"
	".type counting_return, @function\n"
	"counting_return:\n"
	"	mov $15, %eax\n"		/* rt_sigreturn */
	"	syscall\n"
	".size counting_return, . - counting_return\n");
enum { COUNTING_RETURN_SIZE = 7 };

/* SYS_rt_sigaction's argument, which lets the restorer be ours. */
struct kernel_sigaction {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};
#define KERNEL_SA_RESTORER 0x04000000UL

static void count_system_call(int signal, siginfo_t *info, void *argument)
{
	greg_t *registers = ((ucontext_t *)argument)->uc_mcontext.gregs;
	register long r10 __asm__("r10") = registers[REG_R10];
	register long r8 __asm__("r8") = registers[REG_R8];
	register long r9 __asm__("r9") = registers[REG_R9];
	long result;

	(void)signal;
	(void)info;
	selector = SYSCALL_DISPATCH_FILTER_ALLOW;
	system_calls++;
	__asm__ volatile("syscall" : "=a"(result)
			 : "0"(registers[REG_RAX]), "D"(registers[REG_RDI]), "S"(registers[REG_RSI]),
			   "d"(registers[REG_RDX]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	registers[REG_RAX] = result;
	selector = SYSCALL_DISPATCH_FILTER_BLOCK;
}

int counting_begin(void)
{
	const struct kernel_sigaction action = {
		.handler = count_system_call, .flags = SA_SIGINFO | SA_NODEFER | KERNEL_SA_RESTORER,
		.restorer = counting_return,
	};

	if (syscall(SYS_rt_sigaction, SIGSYS, &action, NULL, sizeof(action.mask)))
		return errno;
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, (unsigned long)counting_return,
		  COUNTING_RETURN_SIZE + 1UL, &selector))
		return errno;
	allocations = 0;
	system_calls = 0;
	counting = 1;
	selector = SYSCALL_DISPATCH_FILTER_BLOCK;
	return 0;
}

void counting_end(void)
{
	selector = SYSCALL_DISPATCH_FILTER_ALLOW;
	counting = 0;
	prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
}

unsigned long counting_allocations(void)
{
	return allocations;
}

unsigned long counting_system_calls(void)
{
	return system_calls;
}
