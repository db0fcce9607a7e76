// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import org.shadowverbs.bindings.tcp.sv_tcp_doorbell;

/** What the device needs of the library that it lives in; functions of native/include/shadowverbs_tcp.h. */
public interface Host {
    long BELL_SLEEPING = sv_tcp_doorbell.sleeping$offset();
    long BELL_WAKE_FD = sv_tcp_doorbell.wake_fd$offset();
    long BELL_WAITING = sv_tcp_doorbell.waiting$offset();
    long BELL_COMPLETIONS = sv_tcp_doorbell.completions$offset();
    long BELL_TURN = sv_tcp_doorbell.turn$offset();
    long BELL_HOLDER = sv_tcp_doorbell.holder$offset();
    long BELL_POLLED = sv_tcp_doorbell.polled$offset();
    long BELL_OFFERED = sv_tcp_doorbell.offered$offset();
    long BELL_TURNS = sv_tcp_doorbell.turns$offset();
    long BELL_CALLED = sv_tcp_doorbell.called$offset();
    long BELL_PENDING = sv_tcp_doorbell.pending$offset();
    long BELL_DUE = sv_tcp_doorbell.due$offset();

    /** Address of the struct sv_tcp_doorbell. */
    long doorbell();

    /** Address of the struct ibv_device. */
    long device();

    /** The device's GUID, one for each host, in network order. */
    long guid();

    void contextInit(long context);

    void dmInit(long dm);

    void cqExInit(long cq, long fields);

    void moveCq(long cq, long entries, long stamps, int mask);

    /** @return 0, or EINVAL: the queue holds more than that */
    int moveSrq(long srq, long entries, int mask, int max);

    void forgetEvents(int readFd, int writeFd, long object);

    /** One line on stderr. */
    void say(String line);

    /** The engine's thread is to look for what it has to do; by any thread. */
    void callEngine();
}
