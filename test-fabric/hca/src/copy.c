/*
 * Moves payload between this process and another one. The kernel's cross-memory calls check every page, so that a
 * page which the application has unmapped is an error and not a fault, in our own process too. They are called without
 * the C library, whose sanitizers would take a device's access for a thread's.
 */
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hca.h"

/* Drops the first @n bytes of a vector of @count entries. */
static int advance(struct iovec *iov, int count, size_t n)
{
	int i = 0;

	while (i < count && n >= iov[i].iov_len)
		n -= iov[i++].iov_len;
	if (i < count) {
		iov[i].iov_base = (char *)iov[i].iov_base + n;
		iov[i].iov_len -= n;
	}
	memmove(iov, iov + i, (count - i) * sizeof(*iov));
	return count - i;
}

static int transfer_all(long call, struct seg *seg, const struct iovec *local, int nlocal,
			const struct iovec *remote, int nremote, uint64_t length)
{
	struct iovec l[HCA_MAX_SGE + 1], r[HCA_MAX_SGE + 1];
	ssize_t n = syscall(call, seg->pid, local, nlocal, remote, nremote, 0);

	if (n == (ssize_t)length)
		return 0;
	if (n >= 0) {
		/* More than the kernel moves at once: go on from copies of the vectors. */
		memcpy(l, local, nlocal * sizeof(*l));
		memcpy(r, remote, nremote * sizeof(*r));
		while (n > 0) {
			length -= n;
			if (!length)
				return 0;
			nlocal = advance(l, nlocal, n);
			nremote = advance(r, nremote, n);
			n = syscall(call, seg->pid, l, nlocal, r, nremote, 0);
		}
	}
	if (n < 0 && errno == EPERM) {
		static int said;

		if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
			fprintf(stderr, "shadow-hca: this process may not copy from and to process %d: "
				"process_vm_readv is forbidden here (seccomp, Yama, or another user)\n", seg->pid);
	}
	return -1;
}

int copy_to_peer(struct seg *seg, const struct iovec *local, int nlocal, const struct iovec *remote, int nremote,
		 uint64_t length)
{
	return length ? transfer_all(SYS_process_vm_writev, seg, local, nlocal, remote, nremote, length) : 0;
}

int copy_from_peer(struct seg *seg, const struct iovec *local, int nlocal, const struct iovec *remote, int nremote,
		   uint64_t length)
{
	return length ? transfer_all(SYS_process_vm_readv, seg, local, nlocal, remote, nremote, length) : 0;
}

int copy_from_own(void *to, const struct iovec *from, int n, uint64_t length)
{
	struct iovec iov = { to, length };

	return syscall(SYS_process_vm_readv, getpid(), &iov, 1, from, n, 0) == (long)length ? 0 : -1;
}

int copy_to_own(const struct iovec *to, int n, const void *from, uint64_t length)
{
	struct iovec iov = { (void *)(uintptr_t)from, length };

	return syscall(SYS_process_vm_writev, getpid(), &iov, 1, to, n, 0) == (long)length ? 0 : -1;
}

/* So much is moved at once of what is moved by words. */
#define WORDS 4096

/* The first @length bytes of @iov, which has them; returns how many entries that are. */
static int head_of(const struct iovec *iov, uint64_t length, struct iovec *head)
{
	int n;

	for (n = 0; length; n++) {
		head[n] = iov[n];
		if (head[n].iov_len > length)
			head[n].iov_len = length;
		length -= head[n].iov_len;
	}
	return n;
}

int copy_words(struct seg *seg, bool read, const struct iovec *local, int nlocal, const struct iovec *remote)
{
	_Alignas(64) unsigned char words[WORDS];
	struct iovec left[HCA_MAX_SGE + 1], own[HCA_MAX_SGE + 1];
	uint64_t length = remote->iov_len, at = (uintptr_t)remote->iov_base;

	/* These the kernel copies by words itself. */
	if (nlocal == 1 && (uintptr_t)local->iov_base % 8 == at % 8)
		return read ? copy_from_peer(seg, local, nlocal, remote, 1, length)
			    : copy_to_peer(seg, local, nlocal, remote, 1, length);
	memcpy(left, local, nlocal * sizeof(*left));
	while (length) {
		uint64_t part = WORDS - at % 8;
		struct iovec there, here;
		int n;

		if (part > length)
			part = length;
		there = (struct iovec){ (void *)(uintptr_t)at, part };
		here = (struct iovec){ words + at % 8, part };
		n = head_of(left, part, own);
		if (read ? copy_from_peer(seg, &here, 1, &there, 1, part) || copy_to_own(own, n, here.iov_base, part)
			 : copy_from_own(here.iov_base, own, n, part) || copy_to_peer(seg, &here, 1, &there, 1, part))
			return -1;
		nlocal = advance(left, nlocal, part);
		at += part;
		length -= part;
	}
	return 0;
}
