// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.verbs;

import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.abi.shadowverbs_h;
import org.shadowverbs.bindings.abi.sv_request;
import org.shadowverbs.driver.nativelib.Structs;

/** A control verb in its mailbox slot; a view that one service thread moves from slot to slot. */
public final class Request {
    private static final long SIZE = sv_request.sizeof();
    private static final long ARGUMENTS = sv_request.arg$offset();

    private final MemorySegment mailbox;
    private int slot;
    private MemorySegment request;

    public Request(final MemorySegment mailbox) {
        this.mailbox = mailbox;
    }

    public Request at(final int newSlot) {
        if (newSlot < 0 || newSlot >= shadowverbs_h.SV_MAILBOX_SLOTS()) {
            throw new IllegalArgumentException("slot " + newSlot);
        }
        slot = newSlot;
        request = mailbox.asSlice(slot * SIZE, SIZE);
        return this;
    }

    int slot() {
        return slot;
    }

    int op() {
        return sv_request.op(request);
    }

    int tid() {
        return sv_request.tid(request);
    }

    /** The verb's parameter of that number, counted from 0 in the order of its manual page. */
    long arg(final int n) {
        return request.get(java.lang.foreign.ValueLayout.JAVA_LONG, ARGUMENTS + 8L * n);
    }

    int intArg(final int n) {
        return (int) arg(n);
    }

    /** @throws VerbsException EINVAL: the parameter is a null pointer */
    MemorySegment struct(final int n, final long size) {
        return Structs.at(arg(n), size);
    }

    void answer(final long result, final int err) {
        sv_request.result(request, result);
        sv_request.err(request, err);
    }
}
