/* SPDX-License-Identifier: Apache-2.0 */
/* What ib2tcp's engine, which is Java, and this library share. */
#ifndef SV_TCP_ABI_H
#define SV_TCP_ABI_H

#include "base/base.h"

#pragma GCC visibility push(default)
#include "shadowverbs_tcp.h"
#pragma GCC visibility pop

/* What sv_tcp_select() takes, besides 0. */
enum {
	SV_TCP_WITHOUT_LIDS = 1,
	SV_TCP_WITH_LIDS = 2,
};

/* Of ib2tcp's req_notify_cq, where a completion may have come just before: the request stands no more, and an event is due. */
#define SV_TCP_MISSED (-1)

#endif
