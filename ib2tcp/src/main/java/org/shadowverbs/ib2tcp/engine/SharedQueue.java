// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import java.util.ArrayList;
import java.util.Arrays;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.queue.DoorbellListener;
import org.shadowverbs.ib2tcp.queue.Ring;
import org.shadowverbs.ib2tcp.system.Events;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;

/**
 * The engine's end of a shared receive queue. A message takes its receive when it begins, for those of several queue pairs
 * come at once; a receive that a queue pair has when it is reset is given back, and is the next to be taken.
 */
public final class SharedQueue implements DoorbellListener {
    public static final int EVENT_LIMIT_REACHED = 15;

    public final long address;
    public final long domain;
    /** Of XRC: number of the domain whose queue pairs' messages may name it, by {@link #number}; else 0. */
    public final int xrcDomain;
    public final int number;
    /** Of XRC: for its messages' completions; else null. */
    public final CompletionQueue completionQueue;
    public final Events async;
    /** Queue pairs; those of XRC are not counted. */
    public int users;
    public final Posix posix;
    private final Ring ring;
    private final long entrySize;
    private final ArrayList<QueuePair> waiting = new ArrayList<QueuePair>();
    /** Copies of receives: those given back, and memory for more. */
    private long[] returned = new long[4];
    private int returns;
    private long[] free = new long[4];
    private int frees;
    private int limit;

    public SharedQueue(final Posix posix, final long address, final int number, final long domain, final int xrcDomain,
            final CompletionQueue completionQueue, final Events async) {
        this.posix = posix;
        this.address = address;
        this.number = number;
        this.domain = domain;
        this.xrcDomain = xrcDomain;
        this.completionQueue = completionQueue;
        this.async = async;
        ring = new Ring(address + Layouts.SRQ_RECV, address + Layouts.SRQ_TAIL, address + Layouts.SRQ_HEAD);
        entrySize = Memory.i32(address + Layouts.SRQ_RECV + Layouts.RING_STRIDE);
    }

    public boolean isEmpty() {
        return returns == 0 && ring.isEmpty();
    }

    private int count() {
        return returns + ring.tail() - ring.head();
    }

    /** @return the address of a copy of a receive request, to be given to {@link #done} or {@link #giveBack}; 0: none */
    public long take() {
        if (returns > 0) {
            return returned[--returns];
        }
        if (ring.isEmpty()) {
            return 0;
        }
        final long copy = frees > 0 ? free[--frees] : posix.allocate(entrySize);
        Memory.copy(ring.first(), copy, entrySize);
        ring.remove();
        checkLimit();
        return copy;
    }

    void done(final long copy) {
        if (frees == free.length) {
            free = Arrays.copyOf(free, frees * 2);
        }
        free[frees++] = copy;
    }

    void giveBack(final long copy) {
        if (returns == returned.length) {
            returned = Arrays.copyOf(returned, returns * 2);
        }
        returned[returns++] = copy;
        onDoorbell();
    }

    /** The queue pair's responder is told of the next receive. */
    void await(final QueuePair qp) {
        if (!waiting.contains(qp)) {
            waiting.add(qp);
        }
        Memory.volatileSet(address + Layouts.SRQ_WANTED, 1);
    }

    void forget(final QueuePair qp) {
        waiting.remove(qp);
    }

    @Override
    public void onDoorbell() {
        if (isEmpty()) {
            return;
        }
        Memory.volatileSet(address + Layouts.SRQ_WANTED, 0);
        while (!waiting.isEmpty()) {
            waiting.removeFirst().responder.receivePosted();
        }
    }

    /** Arms the event for when fewer receives are left; 0 disarms it. */
    public void limit(final int receives) {
        limit = receives;
        checkLimit();
    }

    public int limit() {
        return limit;
    }

    private void checkLimit() {
        if (limit != 0 && count() < limit) {
            limit = 0;
            async.send(address, EVENT_LIMIT_REACHED);
        }
    }

    /** No queue pair uses it any more. */
    public void free() {
        while (returns > 0) {
            posix.free(returned[--returns]);
        }
        while (frees > 0) {
            posix.free(free[--frees]);
        }
    }
}
