// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import static org.shadowverbs.driver.Downcall.call;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import org.shadowverbs.ib2tcp.Host;

/** The preload library's half of ib2tcp; functions of {@code native/include/shadowverbs_tcp.h}. */
final class TcpHost implements Host {
    private static final SymbolLookup LIBRARY = Downcall.library("libshadowverbs.so");
    private static final MemorySegment SV_TCP_CONTEXT_INIT = f("sv_tcp_context_init");
    private static final MemorySegment SV_TCP_DM_INIT = f("sv_tcp_dm_init");
    private static final MemorySegment SV_TCP_CQ_EX_INIT = f("sv_tcp_cq_ex_init");
    private static final MemorySegment SV_TCP_CQ_MOVE = f("sv_tcp_cq_move");
    private static final MemorySegment SV_TCP_SRQ_MOVE = f("sv_tcp_srq_move");
    private static final MemorySegment SV_TCP_FORGET_EVENTS = f("sv_tcp_forget_events");
    @SuppressWarnings("restricted")
    private static final MemorySegment WRITE = Downcall.function(Linker.nativeLinker().defaultLookup(), "write");

    private final Native library;
    private final long doorbell = call(f("sv_tcp_doorbell"));
    private final long device = call(f("sv_tcp_device"));
    private final MemorySegment one = Arena.global().allocate(8, 8);

    TcpHost(final Native library) {
        this.library = library;
        one.set(ValueLayout.JAVA_LONG, 0, 1);
    }

    private static MemorySegment f(final String name) {
        return Downcall.function(LIBRARY, name);
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
    public void write(final int eventfd) {
        call(WRITE, eventfd, one.address(), 8);
    }
}
