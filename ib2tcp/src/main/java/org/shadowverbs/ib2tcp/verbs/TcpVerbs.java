// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.verbs;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_context;
import org.shadowverbs.bindings.verbs.ibv_pd;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.engine.SharedQueue;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.sockets.EngineCall;
import org.shadowverbs.ib2tcp.sockets.TcpDevice;
import org.shadowverbs.ib2tcp.system.Address;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Events;
import org.shadowverbs.ib2tcp.system.Host;
import org.shadowverbs.ib2tcp.system.Limits;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.system.Settings;
import org.shadowverbs.ib2tcp.system.TcpStructs;

/**
 * The control verbs of the device: each makes, changes or ends a real object, a struct of infiniband/verbs.h in native
 * memory that is known by its address. They run on the engine's thread, one at a time, and may be called by any; a call
 * returns when the verb is done ({@link EngineCall}). What fails throws {@link DeviceException}.
 */
public final class TcpVerbs {
    private static final int GID_SIZE = 16;

    private final Host host;

    // Guarded by this object; but what runs on the engine's thread reads the device as it was when that began.
    private Settings settings;
    private TcpDevice device;
    private Posix posix;
    private int openContexts;
    /** The uppermost bits of queue pair numbers, or -1: of all that the device chooses. */
    private int range = -1;

    // Used by the engine's thread only.
    private final ObjectTable<DeviceContext> contexts = new ObjectTable<>("a device context");
    private final ObjectTable<ProtectionDomain> domains = new ObjectTable<>("a protection domain");
    private RegisteredMemory memory;
    private CompletionQueues completions;
    private final XrcDomains xrcDomains = new XrcDomains();
    private final ObjectTable<SharedQueue> shared = new ObjectTable<>("a shared receive queue");
    private final Map<Long, Long> xrcdOf = new HashMap<Long, Long>();
    private final ObjectTable<ProtectionDomain> handles = new ObjectTable<>("an address handle");
    private final ObjectTable<QueuePairObject> pairs = new ObjectTable<>("a queue pair");

    public TcpVerbs(final Host host, final Settings settings) {
        this.host = host;
        this.settings = settings;
    }

    /** From the next first open on; see {@link Settings#restored}. */
    public synchronized void restored(final String secret, final String address) {
        settings = settings.restored(secret, address);
    }

    /**
     * From the next first open on.
     *
     * @param numbers the uppermost 8 bits of queue pair numbers, from 0 to 254; -1: any
     */
    public synchronized void numbersFrom(final int numbers) {
        range = numbers;
    }

    /** All queue pair numbers have the uppermost 8 bits of this one. */
    public synchronized int firstNumber() {
        return device.numberBase();
    }

    /** Does the work on the engine's thread and waits for it; who waits long is told of. */
    private long call(final String verb, final EngineCall.Work work) {
        final TcpDevice to;
        synchronized (this) {
            to = device;
        }
        if (to == null) {
            throw new DeviceException(Posix.EINVAL, verb + ": the device is not open");
        }
        final EngineCall call = new EngineCall(work);
        to.submit(call);
        return call.await(host, to, verb);
    }

    /** By address: the caller's segment may be bound to its thread, which waits meanwhile. */
    private static MemorySegment struct(final long address, final long size) {
        return TcpStructs.at(address, size);
    }

    // ---- Devices ------------------------------------------------------------------------------------------------

    public long openDevice() {
        synchronized (this) {
            if (device == null) {
                posix = new Posix();
                device = new TcpDevice(posix, host, settings);
                if (range >= 0) {
                    device.numbersFrom(range);
                }
                memory = new RegisteredMemory(device, posix, host, contexts, domains);
                completions = new CompletionQueues(device, posix, host, contexts);
                device.start();
            }
            openContexts++;
        }
        return call("open the device", () -> {
            final long address = posix.allocate(ibv_context.sizeof());
            final DeviceContext context = new DeviceContext(address, new Events(posix));
            host.contextInit(address);
            final MemorySegment struct = struct(address, ibv_context.sizeof());
            ibv_context.async_fd(struct, context.async.readEnd);
            ibv_context.num_comp_vectors(struct, 1);
            contexts.add(address, context);
            return address;
        });
    }

    public void closeDevice(final long address) {
        destroyWhatIsLeft(address);
        call("close the device", () -> {
            final DeviceContext context = contexts.known(address);
            if (context.users != 0) {
                throw new DeviceException(Posix.EBUSY, "close a device that is in use");
            }
            contexts.remove(address);
            context.async.close();
            posix.free(address);
            return 0;
        });
        final TcpDevice last;
        synchronized (this) {
            if (--openContexts > 0) {
                return;
            }
            last = device;
            device = null;
        }
        last.submit(last::stop);
        try {
            last.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The process is about to end: of what it has seen its peers hear. */
    public void settle() {
        synchronized (this) {
            if (device == null) {
                return;
            }
        }
        call("settle", () -> {
            device.flush();
            return 0;
        });
    }

    /** Programs close a device with objects left; a kernel ends them then, and the file is closed all the same. */
    private void destroyWhatIsLeft(final long context) {
        left(() -> pairs.of(context)).forEach(this::leaveGroups);
        left(() -> pairs.of(context)).forEach(this::destroyQp);
        left(() -> shared.of(context)).forEach(this::destroySrq);
        left(() -> xrcDomains.of(context)).forEach(this::closeXrcd);
        left(() -> handles.of(context)).forEach(this::destroyAh);
        left(() -> memory.windows.of(context)).forEach(this::deallocMw);
        left(() -> completions.queues.of(context)).forEach(this::destroyCq);
        left(() -> completions.channels.of(context)).forEach(this::destroyChannel);
        left(() -> memory.regions.of(context)).forEach(this::deregMr);
        left(() -> memory.memories.of(context)).forEach(this::freeDm);
        left(() -> domains.of(context)).forEach(this::deallocPd);
    }

    private List<Long> left(final Supplier<List<Long>> objects) {
        final List<Long> left = new ArrayList<Long>();
        call("look for objects of the device", () -> {
            left.addAll(objects.get());
            return 0;
        });
        return left;
    }

    /** Address and port at which the device listens; empty when it is not open. */
    public synchronized String listener() {
        return device == null ? "" : Address.text(Address.ipv4(device.id)) + ":" + Address.port(device.id);
    }

    /** See {@link Address#sourceLid}. */
    public synchronized int sourceLid() {
        return Address.sourceLid(device.id);
    }

    /** What datagrams say that they come from; 0: nothing. */
    public synchronized int lid() {
        return device.lid;
    }

    public synchronized void lid(final int lid) {
        device.lid = lid;
    }

    /** The address of the process as a GID: prefix, and interface id. */
    public synchronized long gidPrefix() {
        return device.prefix;
    }

    public synchronized long gidInterface() {
        return device.id;
    }

    // ---- Protection domains -----------------------------------------------------------------------------------------

    public long allocPd(final long context) {
        return call("allocate a protection domain", () -> {
            final DeviceContext of = contexts.known(context);
            final long address = posix.allocate(ibv_pd.sizeof());
            ibv_pd.context(struct(address, ibv_pd.sizeof()), MemorySegment.ofAddress(context));
            of.users++;
            domains.add(address, new ProtectionDomain(of));
            return address;
        });
    }

    public void deallocPd(final long pd) {
        call("deallocate a protection domain", () -> {
            final ProtectionDomain domain = domains.known(pd);
            if (domain.users != 0) {
                throw new DeviceException(Posix.EBUSY, "deallocate a protection domain that is in use");
            }
            domains.remove(pd);
            domain.context.users--;
            posix.free(pd);
            return 0;
        });
    }

    // ---- Memory -----------------------------------------------------------------------------------------------------

    public long regMr(final long pd, final long at, final long bytes, final long iova, final int access) {
        return call("register memory", () -> memory.register(pd, at, bytes, iova, access));
    }

    /** A region without memory: what is written to it is gone, and zeros are read. */
    public long allocNullMr(final long pd) {
        return call("make a null region", () -> memory.registerNothing(pd));
    }

    /** @return what ibv_rereg_mr returns: 0, or a negative number, errno being EINVAL: the region is as it was */
    public int reregMr(final long mr, final int flags, final long pd, final long at, final long bytes,
            final int access) {
        try {
            call("register memory anew", () -> {
                memory.reregister(mr, flags, pd, at, bytes, access);
                return 0;
            });
            return 0;
        } catch (DeviceException e) {
            return verbs_h.IBV_REREG_MR_ERR_INPUT();
        }
    }

    public void deregMr(final long mr) {
        call("deregister memory", () -> {
            memory.deregister(mr);
            return 0;
        });
    }

    /** Device memory, which there is none of: so it is the process's own, as long as it is not more than {@link Limits#MAX_DM}. */
    public long allocDm(final long context, final long bytes, final int alignment) {
        return call("allocate device memory", () -> memory.allocateDm(context, bytes, alignment));
    }

    public void freeDm(final long dm) {
        call("free device memory", () -> {
            memory.freeDm(dm);
            return 0;
        });
    }

    /** A region of device memory; requests count from its beginning. */
    public long regDmMr(final long pd, final long dm, final long offset, final long bytes, final int access) {
        return call("register device memory", () -> memory.registerDm(pd, dm, offset, bytes, access));
    }

    /** @param type {@code enum ibv_mw_type} */
    public long allocMw(final long pd, final int type) {
        return call("make a memory window", () -> memory.allocateWindow(pd, type));
    }

    public void deallocMw(final long mw) {
        call("end a memory window", () -> {
            memory.deallocateWindow(mw);
            return 0;
        });
    }

    // ---- Completion channels and queues ---------------------------------------------------------------------------

    public long createChannel(final long context) {
        return call("create a completion channel", () -> completions.createChannel(context));
    }

    public void destroyChannel(final long channel) {
        call("destroy a completion channel", () -> {
            completions.destroyChannel(channel);
            return 0;
        });
    }

    public long createCq(final long context, final int cqe, final long cqContext, final long channel) {
        return call("create a completion queue", () -> completions.create(context, cqe, cqContext, channel, false, 0));
    }

    /** @param fields {@code enum ibv_create_cq_wc_flags}, of what a program may read */
    public long createCqEx(final long context, final int cqe, final long cqContext, final long channel,
            final long fields) {
        CompletionQueues.checkFields(fields);
        return call("create a completion queue", () -> completions.create(context, cqe, cqContext, channel, true, fields));
    }

    public void resizeCq(final long cq, final int cqe) {
        call("resize a completion queue", () -> {
            completions.resize(cq, cqe);
            return 0;
        });
    }

    public void destroyCq(final long cq) {
        call("destroy a completion queue", () -> {
            completions.destroy(cq);
            return 0;
        });
    }

    // ---- XRC domains ------------------------------------------------------------------------------------------------

    /** @param fd of a file that stands for the domain within this process, or negative */
    public long openXrcd(final long context, final int fd, final int flags) {
        return call("open an XRC domain", () -> {
            final long address = xrcDomains.open(posix, context, fd, flags);
            contexts.known(context).users++;
            return address;
        });
    }

    public void closeXrcd(final long xrcd) {
        call("close an XRC domain", () -> {
            final long context = xrcDomains.context(xrcd);
            xrcDomains.close(posix, xrcd);
            contexts.known(context).users--;
            return 0;
        });
    }

    // ---- Shared receive queues --------------------------------------------------------------------------------------

    /** @param init struct ibv_srq_init_attr */
    public long createSrq(final long pd, final MemorySegment init) {
        return createSrq(pd, 0, 0, init);
    }

    /** Of XRC. */
    public long createSrq(final long pd, final long xrcd, final long cq, final MemorySegment init) {
        return call("create a shared receive queue", () -> {
            final ProtectionDomain domain = domains.known(pd);
            final CompletionQueue xrcCq = xrcd == 0 ? null : completions.queues.known(cq);
            final int xrcDomain = xrcd == 0 ? 0 : xrcDomains.domain(xrcd);
            if (shared.size() == Limits.MAX_SRQ) {
                throw new DeviceException(Posix.ENOMEM, "create more than " + Limits.MAX_SRQ + " shared receive queues");
            }
            final SharedQueue queue = SharedQueueObject.create(device, posix, domain.context.async,
                    domain.context.address, pd, xrcDomain, xrcCq,
                    struct(init.address(), ibv_srq_init_attr.sizeof()));
            domain.users++;
            shared.add(queue.address, queue);
            if (xrcd != 0) {
                xrcDomains.use(xrcd, 1);
                xrcdOf.put(queue.address, xrcd);
            }
            return queue.address;
        });
    }

    /** The number by which requests of XRC name it. */
    public int srqNumber(final long srq) {
        return (int) call("ask for the number of a shared receive queue", () -> {
            final SharedQueue queue = shared.known(srq);
            if (queue.xrcDomain == 0) {
                throw new DeviceException(Posix.EOPNOTSUPP, "number a shared receive queue that is not of XRC");
            }
            return queue.number;
        });
    }

    public void modifySrq(final long srq, final MemorySegment attr, final int mask) {
        call("modify a shared receive queue", () -> {
            SharedQueueObject.modify(shared.known(srq), host, struct(attr.address(), ibv_srq_attr.sizeof()), mask);
            return 0;
        });
    }

    public void querySrq(final long srq, final MemorySegment attr) {
        call("query a shared receive queue", () -> {
            SharedQueueObject.query(shared.known(srq), struct(attr.address(), ibv_srq_attr.sizeof()));
            return 0;
        });
    }

    public void destroySrq(final long srq) {
        call("destroy a shared receive queue", () -> {
            final SharedQueue queue = shared.known(srq);
            if (queue.users != 0) {
                throw new DeviceException(Posix.EBUSY, "destroy a shared receive queue that is in use");
            }
            shared.remove(srq);
            domains.known(queue.domain).users--;
            if (queue.xrcDomain != 0) {
                xrcDomains.use(xrcdOf.remove(srq), -1);
            }
            SharedQueueObject.destroy(queue, device, host);
            return 0;
        });
    }

    // ---- Address handles ------------------------------------------------------------------------------------------

    /** @param attr struct ibv_ah_attr */
    public long createAh(final long pd, final MemorySegment attr) {
        return call("make an address handle", () -> {
            final ProtectionDomain domain = domains.known(pd);
            final long address = AddressHandle.create(posix, pd, struct(attr.address(), ibv_ah_attr.sizeof()));
            domain.users++;
            handles.add(address, domain);
            return address;
        });
    }

    public void destroyAh(final long ah) {
        call("destroy an address handle", () -> {
            handles.known(ah).users--;
            handles.remove(ah);
            posix.free(ah);
            return 0;
        });
    }

    // ---- Queue pairs --------------------------------------------------------------------------------------------

    /** @param init struct ibv_qp_init_attr; its cap is updated */
    public long createQp(final long pd, final MemorySegment init) {
        return call("create a queue pair", () -> {
            final ProtectionDomain domain = domains.known(pd);
            final MemorySegment given = struct(init.address(), ibv_qp_init_attr.sizeof());
            final long srq = ibv_qp_init_attr.srq(given).address();
            checkRoom();
            final QueuePairObject object = QueuePairObject.create(device, posix, domain.context.async, pd, given, completions.queues,
                    srq == 0 ? null : shared.known(srq));
            domain.users++;
            pairs.add(object.address(), object);
            return object.address();
        });
    }

    /** Of XRC, to receive. */
    public long createReceiver(final long xrcd, final MemorySegment init) {
        return call("create a queue pair", () -> {
            checkRoom();
            final DeviceContext context = contexts.known(xrcDomains.context(xrcd));
            final QueuePairObject object = QueuePairObject.createReceiver(device, posix, context.async,
                    context.address, xrcDomains.domain(xrcd), struct(init.address(), ibv_qp_init_attr.sizeof()));
            return addReceiver(object.address(), object, xrcd);
        });
    }

    private long addReceiver(final long handle, final QueuePairObject object, final long xrcd) {
        xrcDomains.use(xrcd, 1);
        xrcdOf.put(handle, xrcd);
        pairs.add(handle, object);
        return handle;
    }

    /** A further handle of a queue pair that receives by XRC. */
    public long openQp(final long xrcd, final int number, final long qpContext) {
        return call("open a queue pair", () -> {
            checkRoom();
            final QueuePair qp = device.queuePair(number);
            for (final QueuePairObject object : pairs.all()) {
                if (object.is(qp) && qp.xrcDomain == xrcDomains.domain(xrcd)) {
                    return addReceiver(object.open(qpContext), object, xrcd);
                }
            }
            throw new DeviceException(Posix.EINVAL, "find queue pair 0x" + Integer.toHexString(number)
                    + " in the XRC domain");
        });
    }

    private void checkRoom() {
        if (pairs.size() == Limits.MAX_QP) {
            throw new DeviceException(Posix.ENOMEM, "create more than " + Limits.MAX_QP + " queue pairs");
        }
    }

    public void modifyQp(final long qp, final MemorySegment attr, final int mask) {
        call("modify a queue pair", () -> {
            pairs.known(qp).modify(struct(attr.address(), ibv_qp_attr.sizeof()), mask);
            return 0;
        });
    }

    public void queryQp(final long qp, final MemorySegment attr, final MemorySegment init) {
        call("query a queue pair", () -> {
            pairs.known(qp).query(struct(attr.address(), ibv_qp_attr.sizeof()),
                    struct(init.address(), ibv_qp_init_attr.sizeof()));
            return 0;
        });
    }

    /** @param gid of a multicast group */
    public void attachMcast(final long qp, final MemorySegment gid, final int lid) {
        call("attach a queue pair to a multicast group", () -> {
            pairs.known(qp).attach(struct(gid.address(), GID_SIZE), lid);
            return 0;
        });
    }

    public void detachMcast(final long qp, final MemorySegment gid, final int lid) {
        call("detach a queue pair from a multicast group", () -> {
            pairs.known(qp).detach(struct(gid.address(), GID_SIZE), lid);
            return 0;
        });
    }

    private void leaveGroups(final long qp) {
        call("detach a queue pair from its multicast groups", () -> {
            pairs.known(qp).detachAll();
            return 0;
        });
    }

    public void destroyQp(final long qp) {
        call("destroy a queue pair", () -> {
            final QueuePairObject object = pairs.known(qp);
            if (object.attached()) {
                throw new DeviceException(Posix.EBUSY, "destroy a queue pair that is attached to a multicast group");
            }
            pairs.remove(qp);
            final Long xrcd = xrcdOf.remove(qp);
            if (xrcd != null) {
                xrcDomains.use(xrcd, -1);
            } else {
                domains.known(object.domain()).users--;
            }
            host.forgetEvents(object.async().readEnd, object.async().writeEnd, qp);
            object.close(qp);
            return 0;
        });
    }
}
