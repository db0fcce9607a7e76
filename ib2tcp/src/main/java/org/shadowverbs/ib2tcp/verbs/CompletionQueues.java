// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.verbs;

import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.Map;
import org.shadowverbs.bindings.verbs.ibv_comp_channel;
import org.shadowverbs.bindings.verbs.ibv_cq;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.sockets.TcpDevice;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Events;
import org.shadowverbs.ib2tcp.system.Host;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.TcpStructs;

/**
 * Completion queues and channels, each with its ring and its pipe. What programs do with the rings is C, what the engine does is
 * {@link CompletionQueue}. All of it runs on the engine's thread, but {@link #checkFields}.
 */
final class CompletionQueues {
    private static final long CQ_FIELDS = verbs_h.IBV_WC_EX_WITH_BYTE_LEN() | verbs_h.IBV_WC_EX_WITH_IMM()
            | verbs_h.IBV_WC_EX_WITH_QP_NUM() | verbs_h.IBV_WC_EX_WITH_SRC_QP() | verbs_h.IBV_WC_EX_WITH_SLID()
            | verbs_h.IBV_WC_EX_WITH_SL() | verbs_h.IBV_WC_EX_WITH_DLID_PATH_BITS()
            | verbs_h.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP() | verbs_h.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK();

    private static final class Channel {
        final DeviceContext context;
        final Events events;
        /** Queues on it. */
        int users;

        Channel(final DeviceContext context, final Events events) {
            this.context = context;
            this.events = events;
        }
    }

    final ObjectTable<CompletionQueue> queues = new ObjectTable<>("a completion queue");
    final ObjectTable<Channel> channels = new ObjectTable<>("a completion channel");
    private final Map<Long, Channel> channelOf = new HashMap<Long, Channel>();
    private final TcpDevice device;
    private final Posix posix;
    private final Host host;
    private final ObjectTable<DeviceContext> contexts;

    CompletionQueues(final TcpDevice device, final Posix posix, final Host host,
            final ObjectTable<DeviceContext> contexts) {
        this.device = device;
        this.posix = posix;
        this.host = host;
        this.contexts = contexts;
    }

    /** @return address of the struct ibv_comp_channel */
    long createChannel(final long context) {
        final DeviceContext of = contexts.known(context);
        final long address = posix.allocate(ibv_comp_channel.sizeof());
        final Channel channel = new Channel(of, new Events(posix));
        final MemorySegment struct = TcpStructs.at(address, ibv_comp_channel.sizeof());
        ibv_comp_channel.context(struct, MemorySegment.ofAddress(context));
        ibv_comp_channel.fd(struct, channel.events.readEnd);
        of.users++;
        channels.add(address, channel);
        return address;
    }

    void destroyChannel(final long address) {
        final Channel channel = channels.known(address);
        if (channel.users != 0) {
            throw new DeviceException(Posix.EBUSY, "destroy a completion channel that is in use");
        }
        channels.remove(address);
        channel.context.users--;
        channel.events.close();
        posix.free(address);
    }

    /**
     * By any thread.
     *
     * @param fields {@code enum ibv_create_cq_wc_flags}
     * @throws DeviceException EOPNOTSUPP: completions of this device have not all of these
     */
    static void checkFields(final long fields) {
        if ((fields & ~CQ_FIELDS) != 0) {
            throw new DeviceException(Posix.EOPNOTSUPP, "create an extended completion queue with fields 0x"
                    + Long.toHexString(fields & ~CQ_FIELDS));
        }
    }

    private static int ringSize(final int entries) {
        return Integer.highestOneBit(Math.max(1, entries - 1)) * 2;
    }

    /**
     * @param cqe entries, no more than {@link Limits#MAX_CQE}
     * @param channel 0: none
     * @param fields of an extended one, what a program may read
     * @return address of the struct ibv_cq, or ibv_cq_ex
     */
    long create(final long context, final int cqe, final long cqContext, final long channel, final boolean extended,
            final long fields) {
        if (cqe < 1 || cqe > Limits.MAX_CQE) {
            throw new DeviceException(Posix.EINVAL, "create a completion queue of " + cqe + " entries");
        }
        final DeviceContext of = contexts.known(context);
        final Channel on = channel == 0 ? null : channels.known(channel);
        final int size = ringSize(cqe);
        final long address = posix.allocate(Layouts.CQ_SIZE);
        final MemorySegment struct = TcpStructs.at(address, ibv_cq.sizeof());
        ibv_cq.context(struct, MemorySegment.ofAddress(context));
        ibv_cq.channel(struct, MemorySegment.ofAddress(channel));
        ibv_cq.cq_context(struct, MemorySegment.ofAddress(cqContext));
        ibv_cq.cqe(struct, size);
        Memory.i32(address + Layouts.CQ_MASK, size - 1);
        Memory.i64(address + Layouts.CQ_ENTRIES, posix.allocate(size * Layouts.WC_SIZE));
        if (extended) {
            Memory.i64(address + Layouts.CQ_STAMPS, posix.allocate(size * Layouts.STAMP_SIZE));
            host.cqExInit(address, fields);
        }
        queues.add(address, new CompletionQueue(address, on == null ? null : on.events, of.async,
                device.waiters));
        of.users++;
        if (on != null) {
            on.users++;
            channelOf.put(address, on);
        }
        return address;
    }

    void resize(final long cq, final int cqe) {
        queues.known(cq);
        final int held = Memory.i32(cq + Layouts.CQ_TAIL) - Memory.acquire(cq + Layouts.CQ_HEAD);
        if (cqe < held || cqe > Limits.MAX_CQE) {
            throw new DeviceException(Posix.EINVAL, "resize a completion queue to " + cqe + " entries");
        }
        final int size = ringSize(cqe);
        final long old = Memory.i64(cq + Layouts.CQ_ENTRIES);
        final long oldStamps = Memory.i64(cq + Layouts.CQ_STAMPS);
        host.moveCq(cq, posix.allocate(size * Layouts.WC_SIZE),
                oldStamps == 0 ? 0 : posix.allocate(size * Layouts.STAMP_SIZE), size - 1);
        ibv_cq.cqe(TcpStructs.at(cq, ibv_cq.sizeof()), size);
        posix.free(old);
        posix.free(oldStamps);
    }

    void destroy(final long cq) {
        final CompletionQueue queue = queues.known(cq);
        if (queue.users != 0) {
            throw new DeviceException(Posix.EBUSY, "destroy a completion queue that is in use");
        }
        queues.remove(cq);
        final Channel on = channelOf.remove(cq);
        if (on != null) {
            on.users--;
            host.forgetEvents(on.events.readEnd, on.events.writeEnd, cq);
        }
        host.forgetEvents(queue.async.readEnd, queue.async.writeEnd, cq);
        contexts.known(ibv_cq.context(TcpStructs.at(cq, ibv_cq.sizeof())).address()).users--;
        posix.free(Memory.i64(cq + Layouts.CQ_ENTRIES));
        posix.free(Memory.i64(cq + Layouts.CQ_STAMPS));
        posix.free(cq);
    }
}
