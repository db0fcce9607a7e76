// SPDX-License-Identifier: Apache-2.0
/*
 * The filter of a TCP socket that is being restored: it takes in only what CRIU itself makes.
 *
 * CRIU expects a firewall around the sockets that it restores, and sends from them: data that was never sent, SYN, FIN, the
 * acknowledgement of a FIN. While the other end is not there its kernel answers with a reset, and the connection is lost before
 * any process runs. With this filter resets, and all else, are dropped; TCP sends again what was not acknowledged. What passes is
 * marked: the segments by which CRIU puts a received FIN, and the acknowledgement of a sent one, back (SOCCR_MARK in its soccr.h).
 */
#ifndef TCP_QUIET_H
#define TCP_QUIET_H

#include <linux/filter.h>

#define TCP_QUIET_MARK 0xC114
#define TCP_QUIET_LENGTH 4

static const struct sock_filter tcp_quiet[TCP_QUIET_LENGTH] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (__u32)(SKF_AD_OFF + SKF_AD_MARK)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TCP_QUIET_MARK, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
	BPF_STMT(BPF_RET | BPF_K, 0),
};

#endif
