// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.shadowverbs.bindings.tcp.shadowverbs_tcp_h;
import org.shadowverbs.bindings.verbs.ibv_ah_attr;
import org.shadowverbs.bindings.verbs.ibv_comp_channel;
import org.shadowverbs.bindings.verbs.ibv_context;
import org.shadowverbs.bindings.verbs.ibv_cq;
import org.shadowverbs.bindings.verbs.ibv_dm;
import org.shadowverbs.bindings.verbs.ibv_mr;
import org.shadowverbs.bindings.verbs.ibv_mw;
import org.shadowverbs.bindings.verbs.ibv_pd;
import org.shadowverbs.bindings.verbs.ibv_qp_attr;
import org.shadowverbs.bindings.verbs.ibv_qp_init_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_attr;
import org.shadowverbs.bindings.verbs.ibv_srq_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;

/**
 * The control verbs of the device: each makes, changes or ends a real object, a struct of infiniband/verbs.h in native
 * memory that is known by its address. They run on the engine's thread, one at a time, and may be called by any.
 * What fails throws {@link DeviceException}.
 */
public final class TcpVerbs {
    public static final int MAX_SGE = 16;
    /** Of the doorbell; two are never used. */
    static final int BELLS = shadowverbs_tcp_h.SV_TCP_BELLS();
    public static final int MAX_SRQ = BELLS / 4;
    public static final int MAX_QP = BELLS - MAX_SRQ - 2;
    public static final int MAX_MR = (1 << 24) - 1;
    public static final long MAX_DM = 256L << 20;
    public static final int MAX_MESSAGE = (int) Frame.MAX_MESSAGE;
    public static final int MAX_WR = 16384;
    public static final int MAX_CQE = 1 << 20;
    public static final int MAX_READS = 16;
    public static final int MAX_INLINE = 1024;
    /** Logarithm of a cache line. */
    private static final int MAX_DM_ALIGNMENT = 6;
    private static final long CQ_FIELDS = verbs_h.IBV_WC_EX_WITH_BYTE_LEN() | verbs_h.IBV_WC_EX_WITH_IMM()
            | verbs_h.IBV_WC_EX_WITH_QP_NUM() | verbs_h.IBV_WC_EX_WITH_SRC_QP() | verbs_h.IBV_WC_EX_WITH_SLID()
            | verbs_h.IBV_WC_EX_WITH_SL() | verbs_h.IBV_WC_EX_WITH_DLID_PATH_BITS()
            | verbs_h.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP() | verbs_h.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK();
    private static final int GID_SIZE = 16;
    private static final long REPORT_NANOS = 30_000_000_000L;

    private static final class Context {
        final long address;
        final Events async;
        int users;

        Context(final long address, final Events async) {
            this.address = address;
            this.async = async;
        }
    }

    private static final class Domain {
        final Context context;
        int users;

        Domain(final Context context) {
            this.context = context;
        }
    }

    private static final class DeviceMemory {
        final Context context;
        /** Regions of it. */
        int users;

        DeviceMemory(final Context context) {
            this.context = context;
        }
    }

    private static final class Region {
        int key;
        /** Whose memory it is, or null. */
        DeviceMemory dm;
        int access;
        long iova;
        Domain domain;
    }

    private static final class Channel {
        final Context context;
        final Events events;
        int users;

        Channel(final Context context, final Events events) {
            this.context = context;
            this.events = events;
        }
    }

    /** A verb's work; what it returns is the verb's. */
    private interface Work {
        long run();
    }

    private final Host host;
    private Settings settings;
    private TcpDevice device;
    private Posix posix;
    private int openContexts;

    // Of the engine's thread.
    private final Map<Long, Context> contexts = new HashMap<Long, Context>();
    private final Map<Long, Domain> domains = new HashMap<Long, Domain>();
    private final Map<Long, Region> memory = new HashMap<Long, Region>();
    private final Map<Long, DeviceMemory> memories = new HashMap<Long, DeviceMemory>();
    private final Map<Long, Channel> channels = new HashMap<Long, Channel>();
    private final Map<Long, CompletionQueue> queues = new HashMap<Long, CompletionQueue>();
    private final Map<Long, Channel> channelOf = new HashMap<Long, Channel>();
    private final XrcDomains xrcDomains = new XrcDomains();
    private final Map<Long, SharedQueue> shared = new HashMap<Long, SharedQueue>();
    private final Map<Long, Long> xrcdOf = new HashMap<Long, Long>();
    private final Map<Long, Domain> handles = new HashMap<Long, Domain>();
    private final Map<Long, Domain> windows = new HashMap<Long, Domain>();
    private final Map<Long, QueuePairObject> pairs = new HashMap<Long, QueuePairObject>();

    public TcpVerbs(final Host host, final Settings settings) {
        this.host = host;
        this.settings = settings;
    }

    /** From the next first open on; see {@link Settings#restored}. */
    public synchronized void restored(final String secret, final String address) {
        settings = settings.restored(secret, address);
    }

    /** Does the work on the engine's thread and waits for it; who waits long is told of. */
    private long call(final String verb, final Work work) {
        final TcpDevice to;
        synchronized (this) {
            to = device;
        }
        if (to == null) {
            throw new DeviceException(Posix.EINVAL, verb + ": the device is not open");
        }
        final Call call = new Call(work);
        to.submit(call);
        return call.await(host, to, verb);
    }

    private static final class Call implements Runnable {
        private final Work work;
        private long result;
        private RuntimeException failure;
        private boolean done;

        Call(final Work work) {
            this.work = work;
        }

        @Override
        public void run() {
            RuntimeException thrown = null;
            long value = 0;
            try {
                value = work.run();
            } catch (RuntimeException e) {
                thrown = e;
            }
            synchronized (this) {
                result = value;
                failure = thrown;
                done = true;
                notifyAll();
            }
        }

        synchronized long await(final Host host, final TcpDevice device, final String verb) {
            final long begun = System.nanoTime();
            boolean said = false;
            while (!done) {
                try {
                    wait(1000);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw new DeviceException(Posix.EINTR, verb);
                }
                if (!done && device.failure() != null) {
                    throw new DeviceException(Posix.EINVAL, verb + ": the TCP device has failed");
                }
                if (!done && !said && System.nanoTime() - begun > REPORT_NANOS) {
                    said = true;
                    host.say("the TCP device has not answered '" + verb + "' for 30 s");
                }
            }
            if (failure != null) {
                throw failure;
            }
            return result;
        }
    }

    private static <T> T known(final Map<Long, T> map, final long address) {
        final T object = map.get(address);
        if (object == null) {
            throw new DeviceException(Posix.EINVAL, "find an object at 0x" + Long.toHexString(address));
        }
        return object;
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
                device.start();
            }
            openContexts++;
        }
        return call("open the device", () -> {
            final long address = posix.allocate(ibv_context.sizeof());
            final Context context = new Context(address, new Events(posix));
            host.contextInit(address);
            final MemorySegment struct = struct(address, ibv_context.sizeof());
            ibv_context.async_fd(struct, context.async.readEnd);
            ibv_context.num_comp_vectors(struct, 1);
            contexts.put(address, context);
            return address;
        });
    }

    public void closeDevice(final long address) {
        destroyWhatIsLeft(address);
        call("close the device", () -> {
            final Context context = known(contexts, address);
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
        left(pairs, context).forEach(this::leaveGroups);
        left(pairs, context).forEach(this::destroyQp);
        left(shared, context).forEach(this::destroySrq);
        left(xrcDomains.handles(), context).forEach(this::closeXrcd);
        left(handles, context).forEach(this::destroyAh);
        left(windows, context).forEach(this::deallocMw);
        left(queues, context).forEach(this::destroyCq);
        left(channels, context).forEach(this::destroyChannel);
        left(memory, context).forEach(this::deregMr);
        left(memories, context).forEach(this::freeDm);
        left(domains, context).forEach(this::deallocPd);
    }

    /** Those that belong to a context, which is the first field of every verbs struct. */
    private List<Long> left(final Map<Long, ?> objects, final long context) {
        final List<Long> left = new ArrayList<Long>();
        call("look for objects of the device", () -> {
            for (final Long object : objects.keySet()) {
                if (Memory.i64(object) == context) {
                    left.add(object);
                }
            }
            return 0;
        });
        return left;
    }

    /** See {@link Address#sourceLid}. */
    public synchronized int sourceLid() {
        return Address.sourceLid(device.id);
    }

    /** Of the process, as a GID: prefix and interface id. */
    public synchronized long gidPrefix() {
        return device.prefix;
    }

    public synchronized long gidInterface() {
        return device.id;
    }

    // ---- Protection domains and memory regions --------------------------------------------------------------------

    public long allocPd(final long context) {
        return call("allocate a protection domain", () -> {
            final Context of = known(contexts, context);
            final long address = posix.allocate(ibv_pd.sizeof());
            ibv_pd.context(struct(address, ibv_pd.sizeof()), MemorySegment.ofAddress(context));
            of.users++;
            domains.put(address, new Domain(of));
            return address;
        });
    }

    public void deallocPd(final long pd) {
        call("deallocate a protection domain", () -> {
            final Domain domain = known(domains, pd);
            if (domain.users != 0) {
                throw new DeviceException(Posix.EBUSY, "deallocate a protection domain that is in use");
            }
            domains.remove(pd);
            domain.context.users--;
            posix.free(pd);
            return 0;
        });
    }

    private void checkMemory(final long at, final long bytes, final int access) {
        if ((access & (MemoryRegions.REMOTE_WRITE | MemoryRegions.REMOTE_ATOMIC)) != 0
                && (access & MemoryRegions.LOCAL_WRITE) == 0 || bytes < 0) {
            throw new DeviceException(Posix.EINVAL, "register memory for remote writes and not for local ones");
        }
        if (!posix.mapped(at, bytes)) {
            throw new DeviceException(Posix.EFAULT, "register memory that is not mapped");
        }
    }

    public long regMr(final long pd, final long at, final long bytes, final long iova, final int access) {
        return call("register memory", () -> {
            final Domain domain = known(domains, pd);
            checkMemory(at, bytes, access);
            final Region region = new Region();
            region.domain = domain;
            region.access = access;
            region.iova = iova;
            region.key = device.regions.add(pd, at, bytes, iova, access);
            final long address = posix.allocate(ibv_mr.sizeof());
            describe(address, pd, at, bytes, region.key);
            domain.users++;
            memory.put(address, region);
            return address;
        });
    }

    /** A region without memory: what is written to it is gone, and zeros are read. */
    public long allocNullMr(final long pd) {
        return call("make a null region", () -> {
            final Domain domain = known(domains, pd);
            final Region region = new Region();
            region.domain = domain;
            region.key = device.regions.addNothing(pd);
            final long address = posix.allocate(ibv_mr.sizeof());
            describe(address, pd, 0, 0, region.key);
            domain.users++;
            memory.put(address, region);
            return address;
        });
    }

    /** Device memory, which there is none of: so it is the process's own, as long as it is not more than {@link #MAX_DM}. */
    public long allocDm(final long context, final long bytes, final int alignment) {
        return call("allocate device memory", () -> {
            final Context of = known(contexts, context);
            if (bytes <= 0 || bytes > MAX_DM || alignment < 0 || alignment > MAX_DM_ALIGNMENT) {
                throw new DeviceException(Posix.EINVAL, "allocate " + bytes + " bytes of device memory");
            }
            final long address = posix.allocate(Layouts.DM_SIZE);
            ibv_dm.context(struct(address, ibv_dm.sizeof()), MemorySegment.ofAddress(context));
            host.dmInit(address);
            Memory.i64(address + Layouts.DM_BASE, posix.allocate(bytes));
            Memory.i64(address + Layouts.DM_LENGTH, bytes);
            of.users++;
            memories.put(address, new DeviceMemory(of));
            return address;
        });
    }

    public void freeDm(final long dm) {
        call("free device memory", () -> {
            final DeviceMemory memoryOf = known(memories, dm);
            if (memoryOf.users != 0) {
                throw new DeviceException(Posix.EBUSY, "free device memory that is in use");
            }
            memories.remove(dm);
            memoryOf.context.users--;
            posix.free(Memory.i64(dm + Layouts.DM_BASE));
            posix.free(dm);
            return 0;
        });
    }

    /** A region of device memory; requests count from its beginning. */
    public long regDmMr(final long pd, final long dm, final long offset, final long bytes, final int access) {
        return call("register device memory", () -> {
            final Domain domain = known(domains, pd);
            final DeviceMemory of = known(memories, dm);
            final long length = Memory.i64(dm + Layouts.DM_LENGTH);
            if (offset < 0 || bytes < 0 || offset > length || bytes > length - offset) {
                throw new DeviceException(Posix.EINVAL, "register what is no part of the device memory");
            }
            final Region region = new Region();
            region.domain = domain;
            region.access = access;
            region.dm = of;
            region.key = device.regions.add(pd, Memory.i64(dm + Layouts.DM_BASE) + offset, bytes, 0, access);
            final long address = posix.allocate(ibv_mr.sizeof());
            describe(address, pd, 0, bytes, region.key);
            domain.users++;
            of.users++;
            memory.put(address, region);
            return address;
        });
    }

    private static void describe(final long mr, final long pd, final long at, final long bytes, final int key) {
        final MemorySegment struct = struct(mr, ibv_mr.sizeof());
        ibv_mr.context(struct, ibv_pd.context(struct(pd, ibv_pd.sizeof())));
        ibv_mr.pd(struct, MemorySegment.ofAddress(pd));
        ibv_mr.addr(struct, MemorySegment.ofAddress(at));
        ibv_mr.length(struct, bytes);
        ibv_mr.lkey(struct, key);
        ibv_mr.rkey(struct, key);
    }

    /** @return what ibv_rereg_mr returns: 0, or a negative number, errno being EINVAL: the region is as it was */
    public int reregMr(final long mr, final int flags, final long pd, final long at, final long bytes,
            final int access) {
        try {
            call("register memory anew", () -> {
                final Region region = known(memory, mr);
                final MemorySegment struct = struct(mr, ibv_mr.sizeof());
                final boolean moves = (flags & verbs_h.IBV_REREG_MR_CHANGE_TRANSLATION()) != 0;
                final long newPd = (flags & verbs_h.IBV_REREG_MR_CHANGE_PD()) != 0 ? pd : ibv_mr.pd(struct).address();
                final long newAt = moves ? at : ibv_mr.addr(struct).address();
                final long newBytes = moves ? bytes : ibv_mr.length(struct);
                final int newAccess = (flags & verbs_h.IBV_REREG_MR_CHANGE_ACCESS()) != 0 ? access : region.access;
                final Domain domain = known(domains, newPd);
                checkMemory(newAt, newBytes, newAccess);
                device.regions.remove(region.key);
                region.access = newAccess;
                region.key = device.regions.add(newPd, newAt, newBytes, moves ? newAt : region.iova, newAccess);
                region.iova = moves ? newAt : region.iova;
                region.domain.users--;
                domain.users++;
                region.domain = domain;
                describe(mr, newPd, newAt, newBytes, region.key);
                return 0;
            });
            return 0;
        } catch (DeviceException e) {
            return verbs_h.IBV_REREG_MR_ERR_INPUT();
        }
    }

    public void deregMr(final long mr) {
        call("deregister memory", () -> {
            final Region region = known(memory, mr);
            device.regions.remove(region.key);
            region.domain.users--;
            if (region.dm != null) {
                region.dm.users--;
            }
            memory.remove(mr);
            posix.free(mr);
            return 0;
        });
    }

    // ---- Memory windows -------------------------------------------------------------------------------------------

    /** @param type {@code enum ibv_mw_type} */
    public long allocMw(final long pd, final int type) {
        return call("make a memory window", () -> {
            final Domain domain = known(domains, pd);
            if (type != verbs_h.IBV_MW_TYPE_1() && type != verbs_h.IBV_MW_TYPE_2()) {
                throw new DeviceException(Posix.EINVAL, "make a memory window of type " + type);
            }
            final long address = posix.allocate(ibv_mw.sizeof());
            final MemorySegment struct = struct(address, ibv_mw.sizeof());
            ibv_mw.context(struct, MemorySegment.ofAddress(domain.context.address));
            ibv_mw.pd(struct, MemorySegment.ofAddress(pd));
            ibv_mw.type(struct, type);
            ibv_mw.rkey(struct, device.regions.addWindow(pd, type == verbs_h.IBV_MW_TYPE_2()));
            domain.users++;
            windows.put(address, domain);
            return address;
        });
    }

    public void deallocMw(final long mw) {
        call("end a memory window", () -> {
            known(windows, mw).users--;
            windows.remove(mw);
            device.regions.remove(ibv_mw.rkey(struct(mw, ibv_mw.sizeof())));
            posix.free(mw);
            return 0;
        });
    }

    // ---- Completion channels and queues ---------------------------------------------------------------------------

    public long createChannel(final long context) {
        return call("create a completion channel", () -> {
            final Context of = known(contexts, context);
            final long address = posix.allocate(ibv_comp_channel.sizeof());
            final Channel channel = new Channel(of, new Events(posix));
            final MemorySegment struct = struct(address, ibv_comp_channel.sizeof());
            ibv_comp_channel.context(struct, MemorySegment.ofAddress(context));
            ibv_comp_channel.fd(struct, channel.events.readEnd);
            of.users++;
            channels.put(address, channel);
            return address;
        });
    }

    public void destroyChannel(final long address) {
        call("destroy a completion channel", () -> {
            final Channel channel = known(channels, address);
            if (channel.users != 0) {
                throw new DeviceException(Posix.EBUSY, "destroy a completion channel that is in use");
            }
            channels.remove(address);
            channel.context.users--;
            channel.events.close();
            posix.free(address);
            return 0;
        });
    }

    private static int ringSize(final int entries) {
        return Integer.highestOneBit(Math.max(1, entries - 1)) * 2;
    }

    public long createCq(final long context, final int cqe, final long cqContext, final long channel) {
        return createCq(context, cqe, cqContext, channel, false, 0);
    }

    /** @param fields {@code enum ibv_create_cq_wc_flags}, of what a program may read */
    public long createCqEx(final long context, final int cqe, final long cqContext, final long channel,
            final long fields) {
        if ((fields & ~CQ_FIELDS) != 0) {
            throw new DeviceException(Posix.EOPNOTSUPP, "create an extended completion queue with fields 0x"
                    + Long.toHexString(fields & ~CQ_FIELDS));
        }
        return createCq(context, cqe, cqContext, channel, true, fields);
    }

    private long createCq(final long context, final int cqe, final long cqContext, final long channel,
            final boolean extended, final long fields) {
        return call("create a completion queue", () -> {
            if (cqe < 1 || cqe > MAX_CQE) {
                throw new DeviceException(Posix.EINVAL, "create a completion queue of " + cqe + " entries");
            }
            final Context of = known(contexts, context);
            final Channel on = channel == 0 ? null : known(channels, channel);
            final int size = ringSize(cqe);
            final long address = posix.allocate(Layouts.CQ_SIZE);
            final MemorySegment struct = struct(address, ibv_cq.sizeof());
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
            queues.put(address, new CompletionQueue(address, on == null ? null : on.events, of.async,
                    device.waiters));
            of.users++;
            if (on != null) {
                on.users++;
                channelOf.put(address, on);
            }
            return address;
        });
    }

    public void resizeCq(final long cq, final int cqe) {
        call("resize a completion queue", () -> {
            known(queues, cq);
            final int held = Memory.i32(cq + Layouts.CQ_TAIL) - Memory.acquire(cq + Layouts.CQ_HEAD);
            if (cqe < held || cqe > MAX_CQE) {
                throw new DeviceException(Posix.EINVAL, "resize a completion queue to " + cqe + " entries");
            }
            final int size = ringSize(cqe);
            final long old = Memory.i64(cq + Layouts.CQ_ENTRIES);
            final long oldStamps = Memory.i64(cq + Layouts.CQ_STAMPS);
            host.moveCq(cq, posix.allocate(size * Layouts.WC_SIZE),
                    oldStamps == 0 ? 0 : posix.allocate(size * Layouts.STAMP_SIZE), size - 1);
            ibv_cq.cqe(struct(cq, ibv_cq.sizeof()), size);
            posix.free(old);
            posix.free(oldStamps);
            return 0;
        });
    }

    public void destroyCq(final long cq) {
        call("destroy a completion queue", () -> {
            final CompletionQueue queue = known(queues, cq);
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
            known(contexts, ibv_cq.context(struct(cq, ibv_cq.sizeof())).address()).users--;
            posix.free(Memory.i64(cq + Layouts.CQ_ENTRIES));
            posix.free(Memory.i64(cq + Layouts.CQ_STAMPS));
            posix.free(cq);
            return 0;
        });
    }

    // ---- XRC domains ------------------------------------------------------------------------------------------------

    /** @param fd of a file that stands for the domain within this process, or negative */
    public long openXrcd(final long context, final int fd, final int flags) {
        return call("open an XRC domain", () -> {
            final long address = xrcDomains.open(posix, context, fd, flags);
            known(contexts, context).users++;
            return address;
        });
    }

    public void closeXrcd(final long xrcd) {
        call("close an XRC domain", () -> {
            final long context = xrcDomains.context(xrcd);
            xrcDomains.close(posix, xrcd);
            known(contexts, context).users--;
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
            final Domain domain = known(domains, pd);
            final CompletionQueue completions = xrcd == 0 ? null : known(queues, cq);
            final int xrcDomain = xrcd == 0 ? 0 : xrcDomains.domain(xrcd);
            if (shared.size() == MAX_SRQ) {
                throw new DeviceException(Posix.ENOMEM, "create more than " + MAX_SRQ + " shared receive queues");
            }
            final SharedQueue queue = SharedQueueObject.create(device, posix, domain.context.async,
                    domain.context.address, pd, xrcDomain, completions,
                    struct(init.address(), ibv_srq_init_attr.sizeof()));
            domain.users++;
            shared.put(queue.address, queue);
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
            final SharedQueue queue = known(shared, srq);
            if (queue.xrcDomain == 0) {
                throw new DeviceException(Posix.EOPNOTSUPP, "number a shared receive queue that is not of XRC");
            }
            return queue.number;
        });
    }

    public void modifySrq(final long srq, final MemorySegment attr, final int mask) {
        call("modify a shared receive queue", () -> {
            SharedQueueObject.modify(known(shared, srq), host, struct(attr.address(), ibv_srq_attr.sizeof()), mask);
            return 0;
        });
    }

    public void querySrq(final long srq, final MemorySegment attr) {
        call("query a shared receive queue", () -> {
            SharedQueueObject.query(known(shared, srq), struct(attr.address(), ibv_srq_attr.sizeof()));
            return 0;
        });
    }

    public void destroySrq(final long srq) {
        call("destroy a shared receive queue", () -> {
            final SharedQueue queue = known(shared, srq);
            if (queue.users != 0) {
                throw new DeviceException(Posix.EBUSY, "destroy a shared receive queue that is in use");
            }
            shared.remove(srq);
            known(domains, queue.domain).users--;
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
            final Domain domain = known(domains, pd);
            final long address = AddressHandle.create(posix, pd, struct(attr.address(), ibv_ah_attr.sizeof()));
            domain.users++;
            handles.put(address, domain);
            return address;
        });
    }

    public void destroyAh(final long ah) {
        call("destroy an address handle", () -> {
            known(handles, ah).users--;
            handles.remove(ah);
            posix.free(ah);
            return 0;
        });
    }

    // ---- Queue pairs --------------------------------------------------------------------------------------------

    /** @param init struct ibv_qp_init_attr; its cap is updated */
    public long createQp(final long pd, final MemorySegment init) {
        return call("create a queue pair", () -> {
            final Domain domain = known(domains, pd);
            final MemorySegment given = struct(init.address(), ibv_qp_init_attr.sizeof());
            final long srq = ibv_qp_init_attr.srq(given).address();
            checkRoom();
            final QueuePairObject object = QueuePairObject.create(device, posix, domain.context.async, pd, given, queues,
                    srq == 0 ? null : known(shared, srq));
            domain.users++;
            pairs.put(object.address(), object);
            return object.address();
        });
    }

    /** Of XRC, to receive. */
    public long createReceiver(final long xrcd, final MemorySegment init) {
        return call("create a queue pair", () -> {
            checkRoom();
            final Context context = known(contexts, xrcDomains.context(xrcd));
            final QueuePairObject object = QueuePairObject.createReceiver(device, posix, context.async,
                    context.address, xrcDomains.domain(xrcd), struct(init.address(), ibv_qp_init_attr.sizeof()));
            return addReceiver(object.address(), object, xrcd);
        });
    }

    private long addReceiver(final long handle, final QueuePairObject object, final long xrcd) {
        xrcDomains.use(xrcd, 1);
        xrcdOf.put(handle, xrcd);
        pairs.put(handle, object);
        return handle;
    }

    /** A further handle of a queue pair that receives by XRC. */
    public long openQp(final long xrcd, final int number, final long qpContext) {
        return call("open a queue pair", () -> {
            checkRoom();
            final QueuePair qp = device.queuePair(number);
            for (final QueuePairObject object : pairs.values()) {
                if (object.is(qp) && qp.xrcDomain == xrcDomains.domain(xrcd)) {
                    return addReceiver(object.open(qpContext), object, xrcd);
                }
            }
            throw new DeviceException(Posix.EINVAL, "find queue pair 0x" + Integer.toHexString(number)
                    + " in the XRC domain");
        });
    }

    private void checkRoom() {
        if (pairs.size() == MAX_QP) {
            throw new DeviceException(Posix.ENOMEM, "create more than " + MAX_QP + " queue pairs");
        }
    }

    public void modifyQp(final long qp, final MemorySegment attr, final int mask) {
        call("modify a queue pair", () -> {
            known(pairs, qp).modify(struct(attr.address(), ibv_qp_attr.sizeof()), mask);
            return 0;
        });
    }

    public void queryQp(final long qp, final MemorySegment attr, final MemorySegment init) {
        call("query a queue pair", () -> {
            known(pairs, qp).query(struct(attr.address(), ibv_qp_attr.sizeof()),
                    struct(init.address(), ibv_qp_init_attr.sizeof()));
            return 0;
        });
    }

    /** @param gid of a multicast group */
    public void attachMcast(final long qp, final MemorySegment gid, final int lid) {
        call("attach a queue pair to a multicast group", () -> {
            known(pairs, qp).attach(struct(gid.address(), GID_SIZE), lid);
            return 0;
        });
    }

    public void detachMcast(final long qp, final MemorySegment gid, final int lid) {
        call("detach a queue pair from a multicast group", () -> {
            known(pairs, qp).detach(struct(gid.address(), GID_SIZE), lid);
            return 0;
        });
    }

    private void leaveGroups(final long qp) {
        call("detach a queue pair from its multicast groups", () -> {
            known(pairs, qp).detachAll();
            return 0;
        });
    }

    public void destroyQp(final long qp) {
        call("destroy a queue pair", () -> {
            final QueuePairObject object = known(pairs, qp);
            if (object.attached()) {
                throw new DeviceException(Posix.EBUSY, "destroy a queue pair that is attached to a multicast group");
            }
            pairs.remove(qp);
            final Long xrcd = xrcdOf.remove(qp);
            if (xrcd != null) {
                xrcDomains.use(xrcd, -1);
            } else {
                known(domains, object.domain()).users--;
            }
            host.forgetEvents(object.async().readEnd, object.async().writeEnd, qp);
            object.close(qp);
            return 0;
        });
    }
}
