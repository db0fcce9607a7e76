// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.lang.foreign.MemorySegment;

/** The backend that is in use now: which one changes at a restart, when no real object is left of the one before. */
final class ChosenBackend implements Backend {
    private final Native library;
    private volatile Backend chosen;
    private boolean restored;
    private String secret = "";
    private String address = "";

    /** @param name "hca", "ib2tcp", or null for the first */
    ChosenBackend(final Native library, final String name) {
        this.library = library;
        choose(name == null || name.isEmpty() ? HcaBackend.NAME : name);
    }

    /** Gate closed, or no device opened yet. @throws VerbsException there is no such backend */
    @Override
    public void choose(final String name) {
        if (chosen != null && chosen.name().equals(name)) {
            return;
        }
        switch (name) {
            case HcaBackend.NAME:
                select(false);
                chosen = new HcaBackend(library);
                break;
            case Ib2TcpBackend.NAME:
                select(true);
                chosen = new Ib2TcpBackend(library);
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
    public void settle() {
        chosen.settle();
    }

    /** At the start the library has read the same environment. */
    private void select(final boolean tcp) {
        if (chosen != null) {
            library.tcpSelect(tcp);
        }
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
        return chosen.deviceName(device);
    }

    @Override
    public long openDevice(final long device) {
        return chosen.openDevice(device);
    }

    @Override
    public int closeDevice(final long context) {
        return chosen.closeDevice(context);
    }

    @Override
    public int queryDevice(final long context, final MemorySegment attr) {
        return chosen.queryDevice(context, attr);
    }

    @Override
    public int queryDeviceEx(final long context, final MemorySegment attr) {
        return chosen.queryDeviceEx(context, attr);
    }

    @Override
    public int queryPort(final long context, final int port, final MemorySegment attr) {
        return chosen.queryPort(context, port, attr);
    }

    @Override
    public int sourceLid() {
        return chosen.sourceLid();
    }

    @Override
    public int queryGid(final long context, final int port, final int index, final MemorySegment gid) {
        return chosen.queryGid(context, port, index, gid);
    }

    @Override
    public int queryGidEx(final long context, final int port, final int index, final MemorySegment entry,
            final int flags) {
        return chosen.queryGidEx(context, port, index, entry, flags);
    }

    @Override
    public int queryGidTable(final long context, final MemorySegment entries, final int maxEntries) {
        return chosen.queryGidTable(context, entries, maxEntries);
    }

    @Override
    public int queryPkey(final long context, final int port, final int index, final long pkey) {
        return chosen.queryPkey(context, port, index, pkey);
    }

    @Override
    public int pkeyIndex(final long context, final int port, final int pkey) {
        return chosen.pkeyIndex(context, port, pkey);
    }

    @Override
    public int completionVectors(final long context) {
        return chosen.completionVectors(context);
    }

    @Override
    public long allocPd(final long context) {
        return chosen.allocPd(context);
    }

    @Override
    public int deallocPd(final long pd) {
        return chosen.deallocPd(pd);
    }

    @Override
    public long regMr(final long pd, final long address, final long length, final long iova, final int access) {
        return chosen.regMr(pd, address, length, iova, access);
    }

    @Override
    public int reregMr(final long mr, final int flags, final long pd, final long address, final long length,
            final int access) {
        return chosen.reregMr(mr, flags, pd, address, length, access);
    }

    @Override
    public int deregMr(final long mr) {
        return chosen.deregMr(mr);
    }

    @Override
    public int lkey(final long mr) {
        return chosen.lkey(mr);
    }

    @Override
    public int rkey(final long mr) {
        return chosen.rkey(mr);
    }

    @Override
    public long createChannel(final long context) {
        return chosen.createChannel(context);
    }

    @Override
    public int destroyChannel(final long channel) {
        return chosen.destroyChannel(channel);
    }

    @Override
    public long createCq(final long context, final int cqe, final long cqContext, final long channel,
            final int vector) {
        return chosen.createCq(context, cqe, cqContext, channel, vector);
    }

    @Override
    public int resizeCq(final long cq, final int cqe) {
        return chosen.resizeCq(cq, cqe);
    }

    @Override
    public int destroyCq(final long cq) {
        return chosen.destroyCq(cq);
    }

    @Override
    public long createQp(final long pd, final MemorySegment initAttr) {
        return chosen.createQp(pd, initAttr);
    }

    @Override
    public long createQpEx(final long context, final MemorySegment initAttr) {
        return chosen.createQpEx(context, initAttr);
    }

    @Override
    public int qpNum(final long qp) {
        return chosen.qpNum(qp);
    }

    @Override
    public int attachMcast(final long qp, final MemorySegment gid, final int lid) {
        return chosen.attachMcast(qp, gid, lid);
    }

    @Override
    public int detachMcast(final long qp, final MemorySegment gid, final int lid) {
        return chosen.detachMcast(qp, gid, lid);
    }

    @Override
    public int queryQp(final long qp, final MemorySegment attr, final int mask, final MemorySegment initAttr) {
        return chosen.queryQp(qp, attr, mask, initAttr);
    }

    @Override
    public int modifyQp(final long qp, final MemorySegment attr, final int mask) {
        return chosen.modifyQp(qp, attr, mask);
    }

    @Override
    public int modifyQpRateLimit(final long qp, final MemorySegment attr) {
        return chosen.modifyQpRateLimit(qp, attr);
    }

    @Override
    public int destroyQp(final long qp) {
        return chosen.destroyQp(qp);
    }

    @Override
    public long allocNullMr(final long pd) {
        return chosen.allocNullMr(pd);
    }

    @Override
    public long regDmMr(final long pd, final long dm, final long offset, final long length, final int access) {
        return chosen.regDmMr(pd, dm, offset, length, access);
    }

    @Override
    public long regDmabufMr(final long pd, final long offset, final long length, final long iova, final int fd,
            final int access) {
        return chosen.regDmabufMr(pd, offset, length, iova, fd, access);
    }

    @Override
    public long allocDm(final long context, final MemorySegment attr) {
        return chosen.allocDm(context, attr);
    }

    @Override
    public int freeDm(final long dm) {
        return chosen.freeDm(dm);
    }

    @Override
    public long createCqEx(final long context, final MemorySegment attr) {
        return chosen.createCqEx(context, attr);
    }

    @Override
    public int modifyCq(final long cq, final MemorySegment attr) {
        return chosen.modifyCq(cq, attr);
    }

    @Override
    public long allocMw(final long pd, final int type) {
        return chosen.allocMw(pd, type);
    }

    @Override
    public int deallocMw(final long mw) {
        return chosen.deallocMw(mw);
    }

    @Override
    public int mwRkey(final long mw) {
        return chosen.mwRkey(mw);
    }

    @Override
    public long openXrcd(final long context, final MemorySegment attr) {
        return chosen.openXrcd(context, attr);
    }

    @Override
    public int closeXrcd(final long xrcd) {
        return chosen.closeXrcd(xrcd);
    }

    @Override
    public long openQp(final long context, final MemorySegment attr) {
        return chosen.openQp(context, attr);
    }

    @Override
    public long createSrqEx(final long context, final MemorySegment initAttr) {
        return chosen.createSrqEx(context, initAttr);
    }

    @Override
    public int srqNum(final long srq) {
        return chosen.srqNum(srq);
    }

    @Override
    public long createSrq(final long pd, final MemorySegment initAttr) {
        return chosen.createSrq(pd, initAttr);
    }

    @Override
    public int modifySrq(final long srq, final MemorySegment attr, final int mask) {
        return chosen.modifySrq(srq, attr, mask);
    }

    @Override
    public int querySrq(final long srq, final MemorySegment attr) {
        return chosen.querySrq(srq, attr);
    }

    @Override
    public int destroySrq(final long srq) {
        return chosen.destroySrq(srq);
    }

    @Override
    public long createAh(final long pd, final MemorySegment attr) {
        return chosen.createAh(pd, attr);
    }

    @Override
    public int destroyAh(final long ah) {
        return chosen.destroyAh(ah);
    }
}
