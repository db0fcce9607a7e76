// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into CRIU, so that releases up to 4.2.1 can save Internet sockets on Linux 6.16 and later.
 *
 * They ask every socket for SO_PASSCRED and SO_PASSSEC. Since 6.16 the kernel answers EOPNOTSUPP for those of a family
 * that has no credentials to pass, and CRIU gives up (its issue 2718). Off is what older kernels answered.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict size)
{
	int ret = syscall(SYS_getsockopt, fd, level, name, value, size);

	if (ret && errno == EOPNOTSUPP && level == SOL_SOCKET && (name == SO_PASSCRED || name == SO_PASSSEC) &&
	    *size >= sizeof(int)) {
		*(int *)value = 0;
		*size = sizeof(int);
		return 0;
	}
	return ret;
}
