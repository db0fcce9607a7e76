// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.verbs;

import java.lang.foreign.MemorySegment;
import org.shadowverbs.bindings.verbs.ibv_srq;
import org.shadowverbs.bindings.verbs.ibv_srq_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ib2tcp.engine.Device;
import org.shadowverbs.ib2tcp.engine.SharedQueue;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Events;
import org.shadowverbs.ib2tcp.system.Host;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.TcpStructs;

/** Control verbs of shared receive queues: struct sv_tcp_srq and its ring. */
final class SharedQueueObject {
    private SharedQueueObject() {
    }

    /** @param queue null, as xrcDomain is 0: not of XRC */
    static SharedQueue create(final Device device, final Posix posix, final Events async, final long context,
            final long pd, final int xrcDomain, final CompletionQueue queue, final MemorySegment init) {
        final int requests = ibv_srq_attr.max_wr(ibv_srq_init_attr.attr(init));
        final int sges = ibv_srq_attr.max_sge(ibv_srq_init_attr.attr(init));
        checkSize(requests);
        if (sges < 0 || sges > Limits.MAX_SGE) {
            throw new DeviceException(Posix.EINVAL, "create a shared receive queue for " + sges + " SGEs");
        }
        final int bell = device.newBell();
        final long address = posix.allocate(Layouts.SRQ_SIZE);
        final MemorySegment struct = TcpStructs.at(address, ibv_srq.sizeof());
        ibv_srq.context(struct, MemorySegment.ofAddress(context));
        ibv_srq.srq_context(struct, ibv_srq_init_attr.srq_context(init));
        ibv_srq.pd(struct, MemorySegment.ofAddress(pd));
        Memory.i32(address + Layouts.SRQ_BELL, bell);
        QueuePairObject.ring(posix, address + Layouts.SRQ_RECV, Layouts.RECV_SIZE, requests, sges, 0);
        final SharedQueue shared =
                new SharedQueue(posix, address, device.number(bell), pd, xrcDomain, queue, async);
        device.add(bell, shared);
        if (queue != null) {
            queue.users++;
        }
        return shared;
    }

    private static void checkSize(final int requests) {
        if (requests < 1 || requests > Limits.MAX_WR) {
            throw new DeviceException(Posix.EINVAL, "make a shared receive queue of " + requests + " requests");
        }
    }

    /** @param mask of enum ibv_srq_attr_mask: another size, and the limit after it */
    static void modify(final SharedQueue queue, final Host host, final MemorySegment attr, final int mask) {
        final long max = queue.address + Layouts.SRQ_RECV + Layouts.RING_MAX;
        final boolean resize = (mask & verbs_h.IBV_SRQ_MAX_WR()) != 0;
        final boolean limit = (mask & verbs_h.IBV_SRQ_LIMIT()) != 0;
        final int requests = resize ? ibv_srq_attr.max_wr(attr) : Memory.i32(max);
        checkSize(requests);
        if (limit && (ibv_srq_attr.srq_limit(attr) < 0 || ibv_srq_attr.srq_limit(attr) > requests)) {
            throw new DeviceException(Posix.EINVAL, "set a limit of more receives than the queue has");
        }
        if (resize) {
            resize(queue, host, requests);
        }
        if (limit) {
            queue.limit(ibv_srq_attr.srq_limit(attr));
        }
    }

    /** Receives may be posted meanwhile. */
    private static void resize(final SharedQueue queue, final Host host, final int requests) {
        final long ring = queue.address + Layouts.SRQ_RECV;
        final int size = QueuePairObject.ringSize(requests);
        final long old = Memory.i64(ring + Layouts.RING_ENTRIES);
        final long entries = queue.posix.allocate((long) size * Memory.i32(ring + Layouts.RING_STRIDE));
        if (host.moveSrq(queue.address, entries, size - 1, requests) != 0) {
            queue.posix.free(entries);
            throw new DeviceException(Posix.EINVAL, "make a shared receive queue smaller than what it holds");
        }
        queue.posix.free(old);
    }

    static void query(final SharedQueue queue, final MemorySegment attr) {
        final long ring = queue.address + Layouts.SRQ_RECV;
        ibv_srq_attr.max_wr(attr, Memory.i32(ring + Layouts.RING_MAX));
        ibv_srq_attr.max_sge(attr, Memory.i32(ring + Layouts.RING_MAX_SGE));
        ibv_srq_attr.srq_limit(attr, queue.limit());
    }

    /** No queue pair uses it. */
    static void destroy(final SharedQueue queue, final Device device, final Host host) {
        device.remove(Memory.i32(queue.address + Layouts.SRQ_BELL));
        if (queue.completionQueue != null) {
            device.forget(queue);
            queue.completionQueue.users--;
        }
        host.forgetEvents(queue.async.readEnd, queue.async.writeEnd, queue.address);
        queue.free();
        queue.posix.free(Memory.i64(queue.address + Layouts.SRQ_RECV + Layouts.RING_ENTRIES));
        queue.posix.free(queue.address);
    }
}
