// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import java.lang.foreign.MemorySegment;
import java.util.Map;
import org.shadowverbs.bindings.verbs.ibv_context;
import org.shadowverbs.bindings.verbs.ibv_mr;
import org.shadowverbs.bindings.verbs.ibv_mw;
import org.shadowverbs.bindings.verbs.ibv_qp;
import org.shadowverbs.coordinator.client.BackendName;
import org.shadowverbs.driver.nativelib.Structs;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.NumberRanges;

/**
 * Where real objects come from: a verbs library with its devices. All pointers are of real objects. What returns a
 * pointer throws {@link VerbsException} with the library's errno; what returns an int gives 0 or the errno value.
 * The structs are those of {@code infiniband/verbs.h}. {@link ChosenBackend} says which one is in use.
 */
public interface Backend {
    /**
     * Entries that the real queue has more than the application asked for: for the completions of the drain's own
     * requests, markers and landings, of which no more are under way at a time.
     */
    int CQ_ROOM = 32;

    /**
     * What has nothing behind it is 0: objects of a process that could not be reattached. These can be ended, and all else
     * fails, as on a device that was taken away.
     *
     * @param real an object that a verb is about
     * @throws VerbsException EIO: there is nothing behind it
     */
    static void live(final long real) {
        if (real == 0) {
            throw new VerbsException(VerbsErrno.EIO);
        }
    }

    /** See {@link BackendName}. */
    String name();

    /**
     * The process was restored, on another host perhaps; no device is open.
     *
     * @param secret the job's from now on; empty: it is the one that was known
     * @param address that this process is to be reached at; empty: nobody has said
     */
    default void restored(final String secret, final String address) {
        // An HCA has no use for either.
    }

    /** Address and port at which its device listens, IPv4, while one is open; empty: there is none, or it does not listen. */
    default String listener() {
        return "";
    }

    /** The process is about to end. */
    default void settle() {
        // An HCA does what it has to do by itself.
    }

    /**
     * Of which range of {@link NumberRanges} the numbers of new queue pairs are, from the next first opened device on.
     *
     * @param range {@link NumberRanges#NONE}: of any
     */
    default void numbersFrom(final int range) {
        // An HCA gives each number once, to whichever process.
    }

    /** That range while a device is open; {@link NumberRanges#NONE}: the device's numbers are those of all its processes. */
    default int numberRange() {
        return NumberRanges.NONE;
    }

    /** The devices of this host, as of now; valid until the next call. */
    long[] devices();

    String deviceName(long device);

    long openDevice(long device);

    int closeDevice(long context);

    int queryDevice(long context, MemorySegment attr);

    /** What a queue pair, region or piece of device memory made anew cannot exceed, see {@code Limits.byName}. */
    Map<String, Long> limits(long context);

    /** @param attr of {@code sizeof(struct ibv_device_attr_ex)} */
    int queryDeviceEx(long context, MemorySegment attr);

    int queryPort(long context, int port, MemorySegment attr);

    /** What completions of datagrams call this process's port by when it has no lid; 0: by nothing. */
    int sourceLid();

    /** Whether a port is reached by its GID only, whatever its link layer is. */
    default boolean addressedByGid() {
        return false;
    }

    /** Whether ports have the lids that {@link #lid} gives them, and nobody but the job knows which port has which. */
    default boolean lidsAreOurs() {
        return false;
    }

    /** Gives the port of the device, which is open, its lid. */
    default void lid(final int lid) {
        throw new VerbsException(VerbsErrno.EOPNOTSUPP, name() + " has lids of its own");
    }

    int queryGid(long context, int port, int index, MemorySegment gid);

    int queryGidEx(long context, int port, int index, MemorySegment entry, int flags);

    /** @return entries filled, or a negative errno value */
    int queryGidTable(long context, MemorySegment entries, int maxEntries);

    int queryPkey(long context, int port, int index, long pkey);

    /** @return the index, or a negative errno value */
    int pkeyIndex(long context, int port, int pkey);

    default int completionVectors(final long context) {
        live(context);
        return ibv_context.num_comp_vectors(Structs.at(context, ibv_context.sizeof()));
    }

    long allocPd(long context);

    int deallocPd(long pd);

    long regMr(long pd, long address, long length, long iova, int access);

    long allocNullMr(long pd);

    long regDmMr(long pd, long dm, long offset, long length, int access);

    long regDmabufMr(long pd, long offset, long length, long iova, int fd, int access);

    long allocMw(long pd, int type);

    int deallocMw(long mw);

    default int mwRkey(final long mw) {
        live(mw);
        return ibv_mw.rkey(Structs.at(mw, ibv_mw.sizeof()));
    }

    /** @param attr struct ibv_alloc_dm_attr */
    long allocDm(long context, MemorySegment attr);

    int freeDm(long dm);

    /** @return what ibv_rereg_mr returns; errno in {@link org.shadowverbs.driver.nativelib.Downcall#errno} */
    int reregMr(long mr, int flags, long pd, long address, long length, int access);

    int deregMr(long mr);

    default int lkey(final long mr) {
        live(mr);
        return ibv_mr.lkey(Structs.at(mr, ibv_mr.sizeof()));
    }

    default int rkey(final long mr) {
        live(mr);
        return ibv_mr.rkey(Structs.at(mr, ibv_mr.sizeof()));
    }

    long createChannel(long context);

    int destroyChannel(long channel);

    long createCq(long context, int cqe, long cqContext, long channel, int vector);

    /** @param attr struct ibv_cq_init_attr_ex */
    long createCqEx(long context, MemorySegment attr);

    int resizeCq(long cq, int cqe);

    /** @param attr struct ibv_modify_cq_attr */
    int modifyCq(long cq, MemorySegment attr);

    int destroyCq(long cq);

    long createAh(long pd, MemorySegment attr);

    int destroyAh(long ah);

    /** @param attr struct ibv_xrcd_init_attr */
    long openXrcd(long context, MemorySegment attr);

    int closeXrcd(long xrcd);

    /** @param initAttr struct ibv_srq_init_attr_ex; its sizes are updated */
    long createSrqEx(long context, MemorySegment initAttr);

    /** The number of a queue of XRC. */
    int srqNum(long srq);

    /** @param initAttr struct ibv_srq_init_attr; its sizes are updated */
    long createSrq(long pd, MemorySegment initAttr);

    int modifySrq(long srq, MemorySegment attr, int mask);

    int querySrq(long srq, MemorySegment attr);

    int destroySrq(long srq);

    /** @param initAttr struct ibv_qp_init_attr; its cap is updated */
    long createQp(long pd, MemorySegment initAttr);

    /** @param initAttr struct ibv_qp_init_attr_ex; its cap is updated */
    long createQpEx(long context, MemorySegment initAttr);

    /** @param attr struct ibv_qp_open_attr */
    long openQp(long context, MemorySegment attr);

    default int qpNum(final long qp) {
        live(qp);
        return ibv_qp.qp_num(Structs.at(qp, ibv_qp.sizeof()));
    }

    /** @param gid union ibv_gid */
    int attachMcast(long qp, MemorySegment gid, int lid);

    int detachMcast(long qp, MemorySegment gid, int lid);

    int queryQp(long qp, MemorySegment attr, int mask, MemorySegment initAttr);

    int modifyQp(long qp, MemorySegment attr, int mask);

    /** @param attr struct ibv_qp_rate_limit_attr */
    int modifyQpRateLimit(long qp, MemorySegment attr);

    int destroyQp(long qp);
}
