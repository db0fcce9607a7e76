// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import static org.shadowverbs.driver.nativelib.Downcall.call;

import java.lang.foreign.MemorySegment;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.NativeLibrary;
import org.shadowverbs.ib2tcp.system.Host;

/** The preload library's half of ib2tcp; functions of {@code native/include/shadowverbs_tcp.h}. */
final class TcpHost implements Host {
    private static final MemorySegment SV_TCP_CONTEXT_INIT = f("sv_tcp_context_init");
    private static final MemorySegment SV_TCP_DM_INIT = f("sv_tcp_dm_init");
    private static final MemorySegment SV_TCP_CQ_EX_INIT = f("sv_tcp_cq_ex_init");
    private static final MemorySegment SV_TCP_CQ_MOVE = f("sv_tcp_cq_move");
    private static final MemorySegment SV_TCP_SRQ_MOVE = f("sv_tcp_srq_move");
    private static final MemorySegment SV_TCP_FORGET_EVENTS = f("sv_tcp_forget_events");
    private static final MemorySegment SV_TCP_CALL_ENGINE = f("sv_tcp_call_engine");

    private final Native library;
    private final long doorbell = call(f("sv_tcp_doorbell"));
    private final long device = call(f("sv_tcp_device"));

    TcpHost(final Native library) {
        this.library = library;
    }

    private static MemorySegment f(final String name) {
        return NativeLibrary.function(name);
    }

    @Override
    public long doorbell() {
        return doorbell;
    }

    @Override
    public long device() {
        return device;
    }

    @Override
    public long guid() {
        return library.deviceGuid(device);
    }

    @Override
    public void contextInit(final long context) {
        call(SV_TCP_CONTEXT_INIT, context);
    }

    @Override
    public void dmInit(final long dm) {
        call(SV_TCP_DM_INIT, dm);
    }

    @Override
    public void cqExInit(final long cq, final long fields) {
        call(SV_TCP_CQ_EX_INIT, cq, fields);
    }

    @Override
    public void moveCq(final long cq, final long entries, final long stamps, final int mask) {
        call(SV_TCP_CQ_MOVE, cq, entries, stamps, mask);
    }

    @Override
    public int moveSrq(final long srq, final long entries, final int mask, final int max) {
        return (int) call(SV_TCP_SRQ_MOVE, srq, entries, mask, max);
    }

    @Override
    public void forgetEvents(final int readFd, final int writeFd, final long object) {
        call(SV_TCP_FORGET_EVENTS, readFd, writeFd, object);
    }

    @Override
    public void say(final String line) {
        library.say(line);
    }

    @Override
    public void callEngine() {
        call(SV_TCP_CALL_ENGINE);
    }
}
