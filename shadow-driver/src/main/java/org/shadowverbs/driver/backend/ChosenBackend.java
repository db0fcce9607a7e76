// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import java.lang.foreign.MemorySegment;
import java.util.Map;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;

/**
 * The backend that is in use now: which one changes at a restart, when no real object is left of the one before. A process that
 * could not be reattached has virtual objects with nothing behind them, 0: these can be destroyed, and all else fails with
 * EIO, as on a device that was taken away.
 */
public final class ChosenBackend implements Backend {
    private final Native library;
    private volatile Backend chosen;
    private boolean restored;
    private String secret = "";
    private String address = "";

    /** @param name see {@link BackendName}; null or empty: the HCA */
    public ChosenBackend(final Native library, final String name) {
        this.library = library;
        choose(name == null || name.isEmpty() ? BackendName.HCA : name);
    }

    /** For tests. */
    ChosenBackend(final Native library, final Backend chosen) {
        this.library = library;
        this.chosen = chosen;
    }

    /** Gate closed, or no device opened yet. @throws VerbsException there is no such backend */
    @Override
    public void choose(final String name) {
        if (chosen != null && chosen.name().equals(name)) {
            return;
        }
        switch (name) {
            case BackendName.HCA:
                select(false, false);
                chosen = new HcaBackend(library);
                break;
            case BackendName.TCP:
            case BackendName.TCP_INFINIBAND:
                final boolean infiniband = name.equals(BackendName.TCP_INFINIBAND);
                select(true, infiniband);
                chosen = new Ib2TcpBackend(library, infiniband);
                if (restored) {
                    chosen.restored(secret, address);
                }
                break;
            default:
                throw new VerbsException(VerbsErrno.EINVAL, "there is no backend " + name);
        }
    }

    @Override
    public void restored(final String secretNow, final String addressNow) {
        restored = true;
        secret = secretNow;
        address = addressNow;
        chosen.restored(secretNow, addressNow);
    }

    @Override
    public String listener() {
        return chosen.listener();
    }

    @Override
    public void settle() {
        chosen.settle();
    }

    @Override
    public void numbersFrom(final int range) {
        chosen.numbersFrom(range);
    }

    @Override
    public int numberRange() {
        return chosen.numberRange();
    }

    /** At the start the library has read the same environment. */
    private void select(final boolean tcp, final boolean lids) {
        if (chosen != null) {
            library.tcpSelect(tcp, lids);
        }
    }

    private static long live(final long real) {
        if (real == 0) {
            throw new VerbsException(VerbsErrno.EIO);
        }
        return real;
    }

    @Override
    public String name() {
        return chosen.name();
    }

    @Override
    public long[] devices() {
        return chosen.devices();
    }

    @Override
    public String deviceName(final long device) {
        return chosen.deviceName(live(device));
    }

    @Override
    public long openDevice(final long device) {
        return chosen.openDevice(live(device));
    }

    @Override
    public int closeDevice(final long context) {
        return context == 0 ? 0 : chosen.closeDevice(context);
    }

    @Override
    public int queryDevice(final long context, final MemorySegment attr) {
        return chosen.queryDevice(live(context), attr);
    }

    @Override
    public Map<String, Long> limits(final long context) {
        return chosen.limits(live(context));
    }

    @Override
    public int queryDeviceEx(final long context, final MemorySegment attr) {
        return chosen.queryDeviceEx(live(context), attr);
    }

    @Override
    public int queryPort(final long context, final int port, final MemorySegment attr) {
        return chosen.queryPort(live(context), port, attr);
    }

    @Override
    public int sourceLid() {
        return chosen.sourceLid();
    }

    @Override
    public boolean addressedByGid() {
        return chosen.addressedByGid();
    }

    @Override
    public boolean lidsAreOurs() {
        return chosen.lidsAreOurs();
    }

    @Override
    public void lid(final int lid) {
        chosen.lid(lid);
    }

    @Override
    public int queryGid(final long context, final int port, final int index, final MemorySegment gid) {
        return chosen.queryGid(live(context), port, index, gid);
    }

    @Override
    public int queryGidEx(final long context, final int port, final int index, final MemorySegment entry,
            final int flags) {
        return chosen.queryGidEx(live(context), port, index, entry, flags);
    }

    @Override
    public int queryGidTable(final long context, final MemorySegment entries, final int maxEntries) {
        return chosen.queryGidTable(live(context), entries, maxEntries);
    }

    @Override
    public int queryPkey(final long context, final int port, final int index, final long pkey) {
        return chosen.queryPkey(live(context), port, index, pkey);
    }

    @Override
    public int pkeyIndex(final long context, final int port, final int pkey) {
        return chosen.pkeyIndex(live(context), port, pkey);
    }

    @Override
    public int completionVectors(final long context) {
        return chosen.completionVectors(live(context));
    }

    @Override
    public long allocPd(final long context) {
        return chosen.allocPd(live(context));
    }

    @Override
    public int deallocPd(final long pd) {
        return pd == 0 ? 0 : chosen.deallocPd(pd);
    }

    @Override
    public long regMr(final long pd, final long address, final long length, final long iova, final int access) {
        return chosen.regMr(live(pd), address, length, iova, access);
    }

    @Override
    public int reregMr(final long mr, final int flags, final long pd, final long address, final long length,
            final int access) {
        return chosen.reregMr(live(mr), flags, pd, address, length, access);
    }

    @Override
    public int deregMr(final long mr) {
        return mr == 0 ? 0 : chosen.deregMr(mr);
    }

    @Override
    public int lkey(final long mr) {
        return chosen.lkey(live(mr));
    }

    @Override
    public int rkey(final long mr) {
        return chosen.rkey(live(mr));
    }

    @Override
    public long createChannel(final long context) {
        return chosen.createChannel(live(context));
    }

    @Override
    public int destroyChannel(final long channel) {
        return channel == 0 ? 0 : chosen.destroyChannel(channel);
    }

    @Override
    public long createCq(final long context, final int cqe, final long cqContext, final long channel,
            final int vector) {
        return chosen.createCq(live(context), cqe, cqContext, channel, vector);
    }

    @Override
    public int resizeCq(final long cq, final int cqe) {
        return chosen.resizeCq(live(cq), cqe);
    }

    @Override
    public int destroyCq(final long cq) {
        return cq == 0 ? 0 : chosen.destroyCq(cq);
    }

    @Override
    public long createQp(final long pd, final MemorySegment initAttr) {
        return chosen.createQp(live(pd), initAttr);
    }

    @Override
    public long createQpEx(final long context, final MemorySegment initAttr) {
        return chosen.createQpEx(live(context), initAttr);
    }

    @Override
    public int qpNum(final long qp) {
        return chosen.qpNum(live(qp));
    }

    @Override
    public int attachMcast(final long qp, final MemorySegment gid, final int lid) {
        return chosen.attachMcast(live(qp), gid, lid);
    }

    @Override
    public int detachMcast(final long qp, final MemorySegment gid, final int lid) {
        return qp == 0 ? 0 : chosen.detachMcast(qp, gid, lid);
    }

    @Override
    public int queryQp(final long qp, final MemorySegment attr, final int mask, final MemorySegment initAttr) {
        return chosen.queryQp(live(qp), attr, mask, initAttr);
    }

    @Override
    public int modifyQp(final long qp, final MemorySegment attr, final int mask) {
        return chosen.modifyQp(live(qp), attr, mask);
    }

    @Override
    public int modifyQpRateLimit(final long qp, final MemorySegment attr) {
        return chosen.modifyQpRateLimit(live(qp), attr);
    }

    @Override
    public int destroyQp(final long qp) {
        return qp == 0 ? 0 : chosen.destroyQp(qp);
    }

    @Override
    public long allocNullMr(final long pd) {
        return chosen.allocNullMr(live(pd));
    }

    @Override
    public long regDmMr(final long pd, final long dm, final long offset, final long length, final int access) {
        return chosen.regDmMr(live(pd), dm, offset, length, access);
    }

    @Override
    public long regDmabufMr(final long pd, final long offset, final long length, final long iova, final int fd,
            final int access) {
        return chosen.regDmabufMr(live(pd), offset, length, iova, fd, access);
    }

    @Override
    public long allocDm(final long context, final MemorySegment attr) {
        return chosen.allocDm(live(context), attr);
    }

    @Override
    public int freeDm(final long dm) {
        return dm == 0 ? 0 : chosen.freeDm(dm);
    }

    @Override
    public long createCqEx(final long context, final MemorySegment attr) {
        return chosen.createCqEx(live(context), attr);
    }

    @Override
    public int modifyCq(final long cq, final MemorySegment attr) {
        return chosen.modifyCq(live(cq), attr);
    }

    @Override
    public long allocMw(final long pd, final int type) {
        return chosen.allocMw(live(pd), type);
    }

    @Override
    public int deallocMw(final long mw) {
        return mw == 0 ? 0 : chosen.deallocMw(mw);
    }

    @Override
    public int mwRkey(final long mw) {
        return chosen.mwRkey(live(mw));
    }

    @Override
    public long openXrcd(final long context, final MemorySegment attr) {
        return chosen.openXrcd(live(context), attr);
    }

    @Override
    public int closeXrcd(final long xrcd) {
        return xrcd == 0 ? 0 : chosen.closeXrcd(xrcd);
    }

    @Override
    public long openQp(final long context, final MemorySegment attr) {
        return chosen.openQp(live(context), attr);
    }

    @Override
    public long createSrqEx(final long context, final MemorySegment initAttr) {
        return chosen.createSrqEx(live(context), initAttr);
    }

    @Override
    public int srqNum(final long srq) {
        return chosen.srqNum(live(srq));
    }

    @Override
    public long createSrq(final long pd, final MemorySegment initAttr) {
        return chosen.createSrq(live(pd), initAttr);
    }

    @Override
    public int modifySrq(final long srq, final MemorySegment attr, final int mask) {
        return chosen.modifySrq(live(srq), attr, mask);
    }

    @Override
    public int querySrq(final long srq, final MemorySegment attr) {
        return chosen.querySrq(live(srq), attr);
    }

    @Override
    public int destroySrq(final long srq) {
        return srq == 0 ? 0 : chosen.destroySrq(srq);
    }

    @Override
    public long createAh(final long pd, final MemorySegment attr) {
        return chosen.createAh(live(pd), attr);
    }

    @Override
    public int destroyAh(final long ah) {
        return ah == 0 ? 0 : chosen.destroyAh(ah);
    }
}
