// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.reattach;

import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.bindings.verbs.verbs_h;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.driver.backend.ChosenBackend;
import org.shadowverbs.driver.model.Ah;
import org.shadowverbs.driver.model.Channel;
import org.shadowverbs.driver.model.Context;
import org.shadowverbs.driver.model.Cq;
import org.shadowverbs.driver.model.Dm;
import org.shadowverbs.driver.model.Model;
import org.shadowverbs.driver.model.Mr;
import org.shadowverbs.driver.model.MulticastGroup;
import org.shadowverbs.driver.model.Mw;
import org.shadowverbs.driver.model.Pd;
import org.shadowverbs.driver.model.Qp;
import org.shadowverbs.driver.model.QpHandle;
import org.shadowverbs.driver.model.Refusal;
import org.shadowverbs.driver.model.Registration;
import org.shadowverbs.driver.model.Srq;
import org.shadowverbs.driver.model.Used;
import org.shadowverbs.driver.model.Xrcd;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.ProcessMaps;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.driver.verbs.CompletionVerbs;
import org.shadowverbs.driver.verbs.QueuePairVerbs;
import org.shadowverbs.driver.verbs.SharedReceiveVerbs;
import org.shadowverbs.driver.verbs.WindowVerbs;
import org.shadowverbs.driver.xrc.XrcVerbs;

/** Destroys every real object of the process, and makes them all anew behind the same virtual ones. Gate closed. */
public final class RealObjects {
    private static final int EFAULT = 14;

    private final Native library;
    private final ChosenBackend backend;
    private final Model model;
    private final QueuePairVerbs queuePairs;
    private final WindowVerbs windows;
    private final XrcVerbs xrc;
    private Runnable progress = () -> { };

    public RealObjects(final Native library, final ChosenBackend backend, final Model model,
            final QueuePairVerbs queuePairs) {
        this.library = library;
        this.backend = backend;
        this.model = model;
        this.queuePairs = queuePairs;
        this.xrc = new XrcVerbs(library, backend, model, queuePairs.receivers());
        this.windows = new WindowVerbs(library, backend, model);
    }

    /** @param hook called after each object that was made or destroyed: of large memory that takes its time */
    public void watched(final Runnable hook) {
        progress = hook;
    }

    WindowVerbs windows() {
        return windows;
    }

    public XrcVerbs xrc() {
        return xrc;
    }

    /**
     * For an image that is made while they stay: takes all events, and notes what is on the devices alone.
     *
     * @return what went wrong first, or null
     */
    String hold() {
        String trouble = takeEvents();
        for (final Srq srq : model.srqs.inOrder()) {
            trouble = first(trouble, "query a shared receive queue", SharedReceiveVerbs.noteLimit(backend.now(), srq));
            library.srqGoOn(srq.virtual);
        }
        for (final Cq cq : model.cqs.inOrder()) {
            trouble = first(trouble, "arm a completion queue", library.cqGoOn(cq.virtual));
        }
        for (final Dm dm : model.dms.inOrder()) {
            trouble = first(trouble, "save the contents of device memory", library.dmSave(dm.virtual));
        }
        return trouble;
    }

    /** The image is made, or will not be, and they have stayed. */
    void release() {
        for (final Dm dm : model.dms.inOrder()) {
            library.dmForget(dm.virtual);
        }
    }

    /**
     * In a process that was restored from an image with open devices: gives back what is left of the real objects in this process.
     * Nothing reaches a device.
     */
    public void abandon() {
        String trouble = null;
        for (final Context context : model.contexts.inOrder()) {
            if (context.real != 0) {
                trouble = first(trouble, "leave device " + context.deviceName, library.contextLost(context.virtual));
            }
        }
        trouble = destroy(trouble, true);
        library.lostOver();
        if (trouble != null) {
            library.say(trouble + "; some memory of it stays in use");
        }
    }

    /**
     * Takes all events, then destroys from queue pairs up to devices. Goes on past an object that will not be destroyed.
     *
     * @return what went wrong first, or null
     */
    public String destroy() {
        return destroy(takeEvents(), false);
    }

    /** @return what went wrong first, or null */
    String takeEvents() {
        String trouble = null;
        for (final Channel channel : model.channels.inOrder()) {
            if (channel.real != 0) {
                trouble = first(trouble, "take the events of a completion channel",
                        library.channelDrain(channel.virtual));
            }
        }
        for (final Context context : model.contexts.inOrder()) {
            if (context.real != 0) {
                trouble = first(trouble, "take the events of device " + context.deviceName,
                        library.contextDrain(context.virtual));
            }
        }
        return trouble;
    }

    /** @param lost the device is gone: there is nothing to be asked of it */
    private String destroy(final String before, final boolean lost) {
        String trouble = before;
        for (final Qp qp : reversed(model.qps.inOrder())) {
            if (qp.real != 0) {
                library.qpBind(qp.virtual, 0);
                for (final MulticastGroup group : lost ? List.<MulticastGroup>of() : qp.groups) {
                    trouble = first(trouble, "detach " + qp.name() + " from a multicast group",
                            group.detach(backend.now(), qp.real));
                }
                trouble = first(trouble, "destroy a handle of " + qp.name(), closeHandles(qp));
                trouble = first(trouble, "destroy " + qp.name(), backend.now().destroyQp(qp.real));
                qp.real = 0;
                progress.run();
            }
        }
        for (final Ah ah : reversed(model.ahs.inOrder())) {
            if (ah.real != 0) {
                trouble = first(trouble, "destroy an address handle", queuePairs.datagrams().unbind(ah));
            }
        }
        for (final Srq srq : reversed(model.srqs.inOrder())) {
            if (srq.real != 0) {
                trouble = first(trouble, "query a shared receive queue",
                        lost ? 0 : SharedReceiveVerbs.noteLimit(backend.now(), srq));
                library.srqBind(srq.virtual, 0);
                trouble = first(trouble, "destroy a shared receive queue", backend.now().destroySrq(srq.real));
                srq.real = 0;
            }
        }
        for (final Xrcd xrcd : reversed(model.xrcds.inOrder())) {
            if (xrcd.real != 0) {
                library.xrcdBind(xrcd.virtual, 0);
                trouble = first(trouble, "close an XRC domain", backend.now().closeXrcd(xrcd.real));
                xrcd.real = 0;
            }
        }
        for (final Mw mw : reversed(model.mws.inOrder())) {
            if (mw.real != 0) {
                library.mwBind(mw.virtual, 0);
                trouble = first(trouble, "deallocate a memory window", backend.now().deallocMw(mw.real));
                mw.real = 0;
            }
        }
        for (final Cq cq : reversed(model.cqs.inOrder())) {
            if (cq.real != 0) {
                library.cqBind(cq.virtual, 0);
                trouble = first(trouble, "destroy a completion queue", backend.now().destroyCq(cq.real));
                cq.real = 0;
            }
        }
        for (final Channel channel : reversed(model.channels.inOrder())) {
            if (channel.real != 0) {
                library.channelBind(channel.virtual, 0);
                trouble = first(trouble, "destroy a completion channel", backend.now().destroyChannel(channel.real));
                channel.real = 0;
            }
        }
        for (final Mr mr : reversed(model.mrs.inOrder())) {
            if (mr.real != 0) {
                library.mrBind(mr.virtual, 0);
                trouble = first(trouble, "deregister memory", backend.now().deregMr(mr.real));
                mr.real = 0;
                progress.run();
            }
        }
        for (final Dm dm : reversed(model.dms.inOrder())) {
            if (dm.real != 0) {
                trouble = first(trouble, "save the contents of device memory", library.dmBind(dm.virtual, 0));
                trouble = first(trouble, "free device memory", backend.now().freeDm(dm.real));
                dm.real = 0;
            }
        }
        for (final Pd pd : reversed(model.pds.inOrder())) {
            if (pd.real != 0) {
                library.pdBind(pd.virtual, 0);
                trouble = first(trouble, "deallocate a protection domain",
                        pd.below != null ? 0 : backend.now().deallocPd(pd.real));
                pd.real = 0;
            }
        }
        for (final Context context : reversed(model.contexts.inOrder())) {
            if (context.real != 0) {
                library.contextBind(context.virtual, 0);
                trouble = first(trouble, "close device " + context.deviceName, backend.now().closeDevice(context.real));
                context.real = 0;
                library.deviceBind(context.vdevice, 0);
            }
        }
        // What is not open either: after a restart the real devices are others.
        for (final long device : backend.now().devices()) {
            library.deviceBind(library.deviceFor(device), 0);
        }
        return trouble;
    }

    /** All but that which is the queue pair's real object. @return 0, or the last error */
    private int closeHandles(final Qp qp) {
        int err = 0;
        for (final QpHandle handle : qp.handles) {
            library.qpBind(handle.virtual, 0);
            if (handle.real != 0 && handle.real != qp.real) {
                err = Math.max(err, backend.now().destroyQp(handle.real));
            }
            handle.real = 0;
        }
        return err;
    }

    private static String first(final String trouble, final String what, final int err) {
        return trouble != null || err <= 0 ? trouble : "cannot " + what + ": " + VerbsErrno.name(err);
    }

    private static <R> List<R> reversed(final List<R> list) {
        java.util.Collections.reverse(list);
        return list;
    }

    /** Makes everything anew, up to queue pairs in RESET. Virtual objects and ids stay what they are. */
    public void create() throws Refusal {
        openDevices();
        for (final Pd pd : model.pds.inOrder()) {
            try {
                pd.real = pd.below != null ? pd.below.real : backend.now().allocPd(pd.context.real);
            } catch (VerbsException e) {
                throw new Refusal("cannot allocate a protection domain: " + VerbsErrno.name(e.errno()));
            }
            library.pdBind(pd.virtual, pd.real);
        }
        for (final Dm dm : model.dms.inOrder()) {
            try {
                dm.createReal(backend.now());
            } catch (VerbsException e) {
                throw new Refusal("cannot allocate " + dm.length + " bytes of device memory: "
                        + VerbsErrno.name(e.errno()));
            }
            check("put back the contents of device memory", library.dmBind(dm.virtual, dm.real));
        }
        registerMemory();
        for (final Mw mw : model.mws.inOrder()) {
            try {
                windows.recreate(mw);
            } catch (VerbsException e) {
                throw new Refusal("cannot allocate a memory window: " + VerbsErrno.name(e.errno()));
            }
        }
        for (final Channel channel : model.channels.inOrder()) {
            try {
                channel.real = backend.now().createChannel(channel.context.real);
            } catch (VerbsException e) {
                throw new Refusal("cannot create a completion channel: " + VerbsErrno.name(e.errno()));
            }
            check("bind a completion channel", library.channelBind(channel.virtual, channel.real));
        }
        for (final Cq cq : model.cqs.inOrder()) {
            final int vector = cq.context.completionVectors > 0 ? cq.completionVector % cq.context.completionVectors
                    : 0;
            try {
                cq.createReal(backend.now(), vector);
            } catch (VerbsException e) {
                throw new Refusal("cannot create a completion queue of " + cq.cqe + " entries"
                        + (cq.wcFlags == 0 ? "" : " and wc_flags 0x" + Long.toHexString(cq.wcFlags)) + ": "
                        + VerbsErrno.name(e.errno()));
            }
            CompletionVerbs.moderate(backend.now(), cq);
            check("bind a completion queue", library.cqBind(cq.virtual, cq.real));
            progress.run();
        }
        for (final Xrcd xrcd : model.xrcds.inOrder()) {
            try {
                xrc.recreate(xrcd);
            } catch (VerbsException e) {
                throw new Refusal("cannot open an XRC domain anew: " + VerbsErrno.name(e.errno()));
            }
        }
        for (final Srq srq : model.srqs.inOrder()) {
            try {
                SharedReceiveVerbs.recreate(library, backend.now(), srq);
            } catch (VerbsException e) {
                throw new Refusal("cannot create a shared receive queue of " + srq.maxWr + " receives anew: "
                        + VerbsErrno.name(e.errno()));
            }
        }
        for (final Qp qp : model.qps.inOrder()) {
            if (!qp.home) {
                continue; // another process makes it
            }
            try {
                queuePairs.recreate(qp);
                xrc.reopen(qp);
                progress.run();
            } catch (VerbsException e) {
                throw new Refusal("cannot create " + qp.name() + " anew (" + qp.maxSendWr + "+1 send requests, "
                        + qp.maxRecvWr + " receives): " + VerbsErrno.name(e.errno()));
            }
        }
    }

    private void openDevices() throws Refusal {
        final List<Context> contexts = model.contexts.inOrder();
        final long[] devices;
        try {
            devices = backend.now().devices();
        } catch (VerbsException e) {
            throw new Refusal("cannot list the devices of this host: " + VerbsErrno.name(e.errno()));
        }
        for (final long device : devices) {
            library.deviceBind(library.deviceFor(device), device);
        }
        final Set<Long> taken = new HashSet<Long>();
        for (final Context context : contexts) {
            long device = library.deviceReal(context.vdevice);
            if (device == 0) {
                device = substitute(devices, taken, context);
                library.deviceBind(context.vdevice, device);
            }
            taken.add(device);
            try {
                context.real = backend.now().openDevice(device);
            } catch (VerbsException e) {
                throw new Refusal("cannot open device " + backend.now().deviceName(device) + ": "
                        + VerbsErrno.name(e.errno()));
            }
            context.completionVectors = backend.now().completionVectors(context.real);
            check("bind device " + context.deviceName, library.contextBind(context.virtual, context.real));
            final Map<String, Long> limits = backend.now().limits(context.real);
            final String beyond = Used.of(model, context, 0).beyond(limits, backend.now().deviceName(device),
                    !BackendName.overTcp(backend.now().name()));
            if (!beyond.isEmpty()) {
                throw new Refusal(beyond);
            }
            context.limits = limits;
        }
    }

    /** A device in place of one that this host does not have: one that stands for no other yet, if there is. */
    private long substitute(final long[] devices, final Set<Long> taken, final Context context) throws Refusal {
        if (devices.length == 0) {
            throw new Refusal("this host has no RDMA device to stand for " + context.deviceName);
        }
        for (final long device : devices) {
            if (!taken.contains(device)) {
                return device;
            }
        }
        return devices[0];
    }

    private void registerMemory() throws Refusal {
        final ProcessMaps maps;
        try {
            maps = ProcessMaps.read();
        } catch (IOException e) {
            throw new Refusal("cannot read /proc/self/maps: " + e.getMessage());
        }
        for (final Mr mr : model.mrs.inOrder()) {
            if (mr.dead) {
                continue;
            }
            final boolean onDemand = (mr.what.access & verbs_h.IBV_ACCESS_ON_DEMAND()) != 0;
            if (mr.what.kind == Registration.Kind.MEMORY && !onDemand
                    && !maps.cover(mr.what.address, mr.what.length)) {
                die(mr, "is no longer mapped");
                continue;
            }
            try {
                mr.real = mr.what.make(backend.now(), mr.pd.real);
            } catch (VerbsException e) {
                if (e.errno() == EFAULT) {
                    die(mr, "is no longer mapped");
                    continue;
                }
                if (mr.what.kind == Registration.Kind.DMABUF) {
                    die(mr, "is a dma-buf that is not there any more (" + VerbsErrno.name(e.errno()) + ")");
                    continue;
                }
                throw new Refusal("cannot register " + mr.what.length + " bytes of memory: "
                        + VerbsErrno.name(e.errno()));
            }
            library.mrBind(mr.virtual, mr.real);
            progress.run();
        }
    }

    private void die(final Mr mr, final String why) {
        mr.dead = true;
        library.say("the memory of a region (0x" + Long.toHexString(mr.what.address) + ", " + mr.what.length
                + " bytes) " + why + "; its keys are invalid from now on");
    }

    private static void check(final String what, final int err) throws Refusal {
        if (err != 0) {
            throw new Refusal("cannot " + what + ": " + VerbsErrno.name(err));
        }
    }
}
