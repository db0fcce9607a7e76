// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.xrc;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.shadowverbs.bindings.abi.shadowverbs_h;
import org.shadowverbs.bindings.abi.sv_foreign_qp;
import org.shadowverbs.bindings.abi.sv_qp_spec;
import org.shadowverbs.bindings.verbs.ibv_qp_open_attr;
import org.shadowverbs.bindings.verbs.ibv_xrcd_init_attr;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.driver.backend.Backend;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.QpAttributes;
import org.shadowverbs.driver.model.QpHandle;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.SharedReceiver;

/** XRC domains, further handles of queue pairs that receive, and the numbers of shared receive queues that requests name. */
public final class XrcVerbs {
    private static final int O_CREAT = 0100;

    private final Native library;
    private final ChosenBackend backend;
    private final Model model;
    private final SharedReceivers receivers;

    public XrcVerbs(final Native library, final ChosenBackend backend, final Model model,
            final SharedReceivers receivers) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.receivers = receivers;
    }

    public long open(final long vcontext, final MemorySegment attr) {
        final Context context = model.contexts.get(vcontext);
        final int both = verbs_h.IBV_XRCD_INIT_ATTR_FD() | verbs_h.IBV_XRCD_INIT_ATTR_OFLAGS();
        if (ibv_xrcd_init_attr.comp_mask(attr) != both) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        final long real = backend.now().openXrcd(context.real, attr);
        final int given = ibv_xrcd_init_attr.fd(attr);
        final int fd = given < 0 ? -1 : library.duplicate(given);
        final long virtual = given >= 0 && fd < 0 ? 0 : library.xrcdAlloc(vcontext, fd);
        if (virtual == 0) {
            backend.now().closeXrcd(real);
            release(fd);
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        library.xrcdBind(virtual, real);
        final Xrcd xrcd = new Xrcd(virtual, real, context, fd, library.xrcdDomain(virtual));
        model.xrcds.add(xrcd);
        final Xrcd before = fd < 0 ? null : model.comeBack(xrcd.domain);
        if (before != null) {
            free(before);
        }
        return virtual;
    }

    public int close(final long vxrcd) {
        final Xrcd xrcd = model.xrcds.get(vxrcd);
        synchronized (xrcd) {
            final int err = backend.now().closeXrcd(xrcd.real);
            if (err == 0) {
                xrcd.real = 0;
                model.xrcds.remove(xrcd);
                if (!model.leave(xrcd)) {
                    free(xrcd);
                }
            }
            return err;
        }
    }

    private void free(final Xrcd xrcd) {
        if (!xrcd.contextClosed) {
            library.xrcdFree(xrcd.virtual);
        }
        release(xrcd.fd);
    }

    private void release(final int fd) {
        if (fd >= 0) {
            library.close(fd);
        }
    }

    /** Makes the real domain of a virtual one anew; whoever is first creates it. */
    public void recreate(final Xrcd xrcd) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_xrcd_init_attr.allocate(arena);
            ibv_xrcd_init_attr.comp_mask(attr,
                    verbs_h.IBV_XRCD_INIT_ATTR_FD() | verbs_h.IBV_XRCD_INIT_ATTR_OFLAGS());
            ibv_xrcd_init_attr.fd(attr, xrcd.fd);
            ibv_xrcd_init_attr.oflags(attr, O_CREAT);
            xrcd.real = backend.now().openXrcd(xrcd.context.real, attr);
            library.xrcdBind(xrcd.virtual, xrcd.real);
        }
    }

    /** ibv_open_qp. The errors are those of libibverbs and the kernel. */
    public long openQp(final long vcontext, final MemorySegment attr) {
        final int mask = ibv_qp_open_attr.comp_mask(attr);
        final int needed = verbs_h.IBV_QP_OPEN_ATTR_NUM() | verbs_h.IBV_QP_OPEN_ATTR_XRCD()
                | verbs_h.IBV_QP_OPEN_ATTR_TYPE();
        if ((mask & ~(needed | verbs_h.IBV_QP_OPEN_ATTR_CONTEXT())) != 0) {
            throw new VerbsException(VerbsErrno.ENOSYS);
        }
        if ((mask & needed) != needed || ibv_qp_open_attr.qp_type(attr) != verbs_h.IBV_QPT_XRC_RECV()) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        final Xrcd xrcd = model.xrcds.get(ibv_qp_open_attr.xrcd(attr).address());
        if (xrcd.context.virtual != vcontext) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        final int number = ibv_qp_open_attr.qp_num(attr);
        final long qpContext = ibv_qp_open_attr.qp_context(attr).address();
        Qp qp = receiver(xrcd, number);
        if (qp == null) {
            final Path file = receivers.file(xrcd, number);
            if (file == null) {
                throw xrcd.fd < 0 ? new VerbsException(VerbsErrno.EINVAL) : unknown(number);
            }
            final long virtual = receivers.locked(file, () -> {
                // Meanwhile another thread may have been here.
                return receiver(xrcd, number) != null ? 0L : openForeign(file, xrcd, number, qpContext);
            });
            if (virtual != 0) {
                return virtual;
            }
            qp = receiver(xrcd, number);
        }
        if (qp == null) {
            throw new VerbsException(VerbsErrno.EINVAL);
        }
        synchronized (qp) {
            return open(qp, xrcd, qpContext);
        }
    }

    private static VerbsException unknown(final int number) {
        return VerbsException.unsupported("ibv_open_qp of queue pair 0x" + Integer.toHexString(number)
                + ", which no process of this job on this host has made,");
    }

    /** The first handle here of a queue pair that another process has made. The register is locked. */
    private long openForeign(final Path file, final Xrcd xrcd, final int number, final long qpContext) {
        final SharedReceiver receiver = receivers.read(file);
        final long virtual = library.qpAlloc(xrcd.context.virtual, 0);
        long real = 0;
        if (virtual == 0) {
            throw new VerbsException(VerbsErrno.ENOMEM);
        }
        try (Arena arena = Arena.ofConfined()) {
            real = openReal(xrcd, receiver == null ? number ^ model.masks.qpNum() : receiver.realQpNum(), virtual);
            if (receiver == null) {
                throw unknown(number);
            }
            final Qp qp = new Qp(virtual, real, model.nextSequence(), xrcd, number, qpContext, file, receiver.ports());
            qp.attributes.decode(receiver.attributes());
            final MemorySegment spec = spec(arena, qp, xrcd, qpContext);
            sv_qp_spec.foreign(spec, 1);
            VerbsException.check(library.qpOpen(virtual, spec));
            VerbsException.check(library.qpBind(virtual, real));
            final List<Long> holders = new ArrayList<Long>(receiver.holders());
            holders.add(receivers.self());
            receivers.write(file, receiver.withHolders(holders));
            model.qps.add(qp);
            return virtual;
        } catch (RuntimeException e) {
            Qp.discard(library, backend.now(), virtual, real);
            throw e;
        }
    }

    /** The handles of a queue pair that another process has made anew, which has registered it. */
    public void openAnew(final Qp qp) throws Refusal {
        qp.shared = receivers.file(qp.makersDomain(), qp.virtualQpNum);
        final SharedReceiver receiver = qp.shared == null ? null
                : receivers.locked(qp.shared, () -> receivers.read(qp.shared));
        if (receiver == null) {
            throw new Refusal(qp.name() + " is another process', which has not made it anew here: those that have it open must be"
                    + " restarted on one host and device");
        }
        try {
            qp.real = openReal(qp.makersDomain(), receiver.realQpNum(), qp.maker());
            VerbsException.check(library.qpBind(qp.virtual, qp.real));
            reopen(qp);
        } catch (VerbsException e) {
            throw new Refusal(qp.name() + ", which another process has made anew, cannot be opened: "
                    + VerbsErrno.name(e.errno()));
        }
    }

    /** One that this process has made or opened; null: there is none. */
    private Qp receiver(final Xrcd xrcd, final int number) {
        for (final Qp qp : model.qps.inOrder()) {
            if (qp.virtualQpNum == number && qp.xrcd != null && qp.xrcd.domain == xrcd.domain) {
                return qp;
            }
        }
        return null;
    }

    private long open(final Qp qp, final Xrcd xrcd, final long qpContext) {
        final long virtual = qp.real == 0 ? 0 : library.qpAlloc(xrcd.context.virtual, 0);
        if (virtual == 0) {
            throw new VerbsException(qp.real == 0 ? VerbsErrno.EINVAL : VerbsErrno.ENOMEM);
        }
        final QpHandle handle = new QpHandle(virtual, 0, qp, xrcd, qpContext);
        try (Arena arena = Arena.ofConfined()) {
            handle.real = openReal(handle);
            final MemorySegment spec = spec(arena, qp, xrcd, qpContext);
            sv_qp_spec.opened(spec, MemorySegment.ofAddress(qp.virtual));
            VerbsException.check(library.qpOpen(virtual, spec));
            VerbsException.check(library.qpBind(virtual, handle.real));
            qp.handles.add(handle);
            model.qpHandles.add(handle);
            return virtual;
        } catch (RuntimeException e) {
            Qp.discard(library, backend.now(), virtual, handle.real);
            throw e;
        }
    }

    /** What all handles that ibv_open_qp gives have in common. */
    private static MemorySegment spec(final Arena arena, final Qp qp, final Xrcd xrcd, final long qpContext) {
        final MemorySegment spec = sv_qp_spec.allocate(arena);
        sv_qp_spec.xrcd(spec, MemorySegment.ofAddress(xrcd.virtual));
        sv_qp_spec.qp_context(spec, MemorySegment.ofAddress(qpContext));
        sv_qp_spec.qp_type(spec, qp.type);
        sv_qp_spec.vqp_num(spec, qp.virtualQpNum);
        return spec;
    }

    private long openReal(final QpHandle handle) {
        return openReal(handle.xrcd, backend.now().qpNum(handle.qp.real), handle.virtual);
    }

    private long openReal(final Xrcd xrcd, final int realQpNum, final long virtual) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment attr = ibv_qp_open_attr.allocate(arena);
            ibv_qp_open_attr.comp_mask(attr, verbs_h.IBV_QP_OPEN_ATTR_NUM() | verbs_h.IBV_QP_OPEN_ATTR_XRCD()
                    | verbs_h.IBV_QP_OPEN_ATTR_TYPE() | verbs_h.IBV_QP_OPEN_ATTR_CONTEXT());
            ibv_qp_open_attr.qp_num(attr, realQpNum);
            ibv_qp_open_attr.xrcd(attr, MemorySegment.ofAddress(xrcd.real));
            ibv_qp_open_attr.qp_context(attr, MemorySegment.ofAddress(virtual));
            ibv_qp_open_attr.qp_type(attr, verbs_h.IBV_QPT_XRC_RECV());
            return backend.now().openQp(xrcd.context.real, attr);
        }
    }

    /** Opens the handles of a real queue pair that was made anew; the one that it was made with is there. */
    public void reopen(final Qp qp) {
        for (final QpHandle handle : qp.handles) {
            handle.real = handle.virtual == qp.maker() ? qp.real : openReal(handle);
            VerbsException.check(library.qpBind(handle.virtual, handle.real));
        }
    }

    /** Those that are spoken for after their context was closed; as {@link SharedDomains#keys}. */
    public static Map<Integer, String> leftDomains(final Native library, final Backend backend, final Model model) throws Refusal {
        return keys(library, backend, model, xrcd -> xrcd.contextClosed);
    }

    /** The XRC domains of a context that other processes may have open, too: as {@link SharedDomains#keys}. */
    public static Map<Integer, String> sharedDomains(final Native library, final Backend backend, final Model model,
            final Context context) throws Refusal {
        return keys(library, backend, model, xrcd -> xrcd.context == context);
    }

    private static Map<Integer, String> keys(final Native library, final Backend backend, final Model model,
            final Predicate<Xrcd> which) throws Refusal {
        return SharedDomains.keys(model.domains().stream().filter(which).toList(), c -> device(library, backend, c));
    }

    /**
     * At the closed gate: forgets the messages of queue pairs that nobody has any more. All who share the domains do so before
     * any of them forgets that it had these queue pairs.
     */
    public static void forgetForeignQps(final Native library, final Model model, final SharedDomains domains) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment foreignQps = sv_foreign_qp.allocateArray(shadowverbs_h.SV_MAX_FOREIGN_QPS(), arena);
            for (final int domain : domains.numbers()) {
                for (int left = library.xrcdForeignQps(domain, foreignQps) - 1; left >= 0; left--) {
                    final int number = sv_foreign_qp.qp_num(sv_foreign_qp.asSlice(foreignQps, left));
                    if (!domains.receivers(domain).contains(number)) {
                        library.xrcdForget(domain, number);
                    }
                }
            }
        }
    }

    /** At the closed gate, when all have come so far: forgets what nobody can ask for any more. */
    public void forgetEnded(final SharedDomains domains) {
        for (final int domain : domains.numbers()) {
            model.keepEnded(domain, domains.named(model.endedQueues(domain)), domains.receivers(domain));
        }
        model.domainsForgotten().forEach(this::free);
    }

    /** What queue pairs of other processes have brought is to be known of each; there must be room for a few more. */
    public static void refuseManyForeignQps(final Native library, final Model model) throws Refusal {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment foreignQps = sv_foreign_qp.allocateArray(shadowverbs_h.SV_MAX_FOREIGN_QPS(), arena);
            for (final Xrcd xrcd : model.domains()) {
                final int count = !model.hearsForeignQps(xrcd.domain) ? 0 : library.xrcdForeignQps(xrcd.domain, foreignQps);
                if (count < 0 || count > shadowverbs_h.SV_MAX_FOREIGN_QPS() / 2) {
                    throw new Refusal("too many queue pairs of other processes have brought messages to XRC's shared receive"
                            + " queues to know what each has brought: that cannot be checkpointed");
                }
            }
        }
    }

    /** What domains are shared through on this host. Null: over ib2tcp a domain is of one process, whatever its file. */
    public static String device(final Native library, final Backend backend, final Context context) {
        // When only its file stands for a domain, the device may not be in use any more.
        final long real = BackendName.overTcp(backend.name()) ? 0 : library.deviceReal(context.vdevice);
        return real == 0 ? null : backend.deviceName(real);
    }

    /** The numbers of shared receive queues that requests of a queue pair that sends have named; null: too many. */
    public static int[] targets(final Native library, final Qp qp) {
        try (Arena arena = Arena.ofConfined()) {
            final MemorySegment numbers = arena.allocate(ValueLayout.JAVA_INT, shadowverbs_h.SV_MAX_TARGETS());
            final int count = library.qpTargets(qp.virtual, numbers);
            return count < 0 ? null : numbers.asSlice(0, (long) count * Integer.BYTES).toArray(ValueLayout.JAVA_INT);
        }
    }

    /** Gives C the numbers of the peer's shared receive queues that do not mean themselves. */
    public static void pushSrqNumbers(final Native library, final Model model, final Qp qp) {
        final QpAttributes a = qp.attributes;
        final AddressBook.Destination found = !a.connected() ? null
                : model.book().find(a.destLid(), a.destGid(), a.destQpNum(), model.masks);
        final ExceptionSet numbers = found == null ? ExceptionSet.EMPTY : found.srqNums;
        final long old = qp.srqNumberMap;
        qp.srqNumberMap = 0;
        if (numbers.size() > 0) {
            qp.srqNumberMap = library.idmapNew(longs(numbers.virtuals()), longs(numbers.reals()));
            if (qp.srqNumberMap == 0) {
                throw new VerbsException(VerbsErrno.ENOMEM, "no memory for " + numbers.size() + " SRQ numbers");
            }
        }
        if (qp.srqNumberMap != old) {
            library.qpSetSrqs(qp.virtual, qp.srqNumberMap);
            library.idmapFree(old);
        }
    }

    private static long[] longs(final int[] ids) {
        final long[] longs = new long[ids.length];
        for (int i = 0; i < ids.length; i++) {
            longs[i] = ids[i] & 0xffff_ffffL;
        }
        return longs;
    }
}
