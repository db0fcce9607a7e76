// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

import java.lang.foreign.MemorySegment;

/**
 * The functions of the preload library, name for name; {@code native/include/shadowverbs.h} says what each does.
 * Pointers are addresses. What returns an int here returns 0 or an errno value, unless the header says otherwise.
 * Most are one call; what takes or gives more than numbers and addresses is the implementation's.
 */
public interface Native {
    /**
     * Calls a function of C.
     *
     * @param arguments at most {@link Downcall#ARGUMENTS}
     * @return its result; one that is narrower in C is to be cast
     */
    long call(NativeFunction function, long... arguments);

    default int abiVersion() {
        return (int) call(NativeFunction.SV_ABI_VERSION);
    }

    default void driverReady(final int err) {
        call(NativeFunction.SV_DRIVER_READY, err);
    }

    void say(String line);

    /** The array of requests. */
    MemorySegment mailbox();

    default int mailboxTake(final int timeoutMillis) {
        return (int) call(NativeFunction.SV_MAILBOX_TAKE, timeoutMillis);
    }

    default void mailboxAnswer(final int slot) {
        call(NativeFunction.SV_MAILBOX_ANSWER, slot);
    }

    default void gateAnnounce(final boolean on) {
        call(NativeFunction.SV_GATE_ANNOUNCE, on ? 1 : 0);
    }

    /** @return null, or who is still inside a verb */
    String gateClose(long timeoutNanos);

    default void gateOpen() {
        call(NativeFunction.SV_GATE_OPEN);
    }

    /** @return null, or which thread is still in a section that is kept free of checkpoints; they stay closed then, too */
    String sectionsClose(long timeoutNanos);

    default void sectionsPass() {
        call(NativeFunction.SV_SECTIONS_PASS);
    }

    default void sectionsOpen() {
        call(NativeFunction.SV_SECTIONS_OPEN);
    }

    /** @return null, or what the program's callbacks have against a checkpoint */
    String programBefore(long timeoutNanos);

    /** @param outcome as in shadowverbs_program.h */
    default void programAfter(final int outcome) {
        call(NativeFunction.SV_PROGRAM_AFTER, outcome);
    }

    /** @param why a problem, with an errno value and a result of -1; else empty */
    void programAnswer(long call, int result, int err, String why);

    /** Memory that has been freed goes back to the kernel, and into no image. */
    default void memoryTrim() {
        call(NativeFunction.SV_MEMORY_TRIM);
    }

    /** A socket that holds the files of the connection manager; or -ENOENT, there are none; or another negative errno. */
    default int cmSend() {
        return (int) call(NativeFunction.SV_CM_SEND);
    }

    default int cmDetach(final int socket) {
        return (int) call(NativeFunction.SV_CM_DETACH, socket);
    }

    /** A socket for who holds them, or a negative errno value. */
    default int cmReceiver() {
        return (int) call(NativeFunction.SV_CM_RECEIVER);
    }

    /** @param socket the receiver's; -1: nobody holds them any more */
    default int cmReattach(final int socket) {
        return (int) call(NativeFunction.SV_CM_REATTACH, socket);
    }

    /** How many event channels were lost that the program has done more with than to look. */
    default int cmLostInUse() {
        return (int) call(NativeFunction.SV_CM_LOST_IN_USE);
    }

    /** Tokens of connections that were lost and that nobody has ended. */
    long[] cmLost();

    default void cmEnded(final long token, final int status) {
        call(NativeFunction.SV_CM_ENDED, token, status);
    }

    default void timersStop() {
        call(NativeFunction.SV_TIMERS_STOP);
    }

    default void timersStart() {
        call(NativeFunction.SV_TIMERS_START);
    }

    void setMasks(int qpNum, int key, int lid, long gid);

    long keymapNew(int[] virtuals, int[] reals);

    default void keymapFree(final long map) {
        call(NativeFunction.SV_KEYMAP_FREE, map);
    }

    default long deviceFor(final long realDevice) {
        return call(NativeFunction.SV_DEVICE_FOR, realDevice);
    }

    default long deviceReal(final long vdevice) {
        return call(NativeFunction.SV_DEVICE_REAL, vdevice);
    }

    default void deviceBind(final long vdevice, final long real) {
        call(NativeFunction.SV_DEVICE_BIND, vdevice, real);
    }

    /** In network order, as in the attributes. */
    default long deviceGuid(final long device) {
        return call(NativeFunction.SV_DEVICE_GUID, device);
    }

    default long contextAlloc(final long vdevice) {
        return call(NativeFunction.SV_CONTEXT_ALLOC, vdevice);
    }

    default int contextOpen(final long vcontext, final long real) {
        return (int) call(NativeFunction.SV_CONTEXT_OPEN, vcontext, real);
    }

    default int contextBind(final long vcontext, final long real) {
        return (int) call(NativeFunction.SV_CONTEXT_BIND, vcontext, real);
    }

    default void contextSetLkeys(final long vcontext, final long map) {
        call(NativeFunction.SV_CONTEXT_SET_LKEYS, vcontext, map);
    }

    default void contextFree(final long vcontext) {
        call(NativeFunction.SV_CONTEXT_FREE, vcontext);
    }

    default long pdAlloc(final long vcontext) {
        return call(NativeFunction.SV_PD_ALLOC, vcontext);
    }

    default void pdBind(final long vpd, final long real) {
        call(NativeFunction.SV_PD_BIND, vpd, real);
    }

    default void pdFree(final long vpd) {
        call(NativeFunction.SV_PD_FREE, vpd);
    }

    default long mrAlloc(final long vpd, final long addr, final long length, final int vlkey, final int vrkey) {
        return call(NativeFunction.SV_MR_ALLOC, vpd, addr, length, vlkey, vrkey);
    }

    default void mrBind(final long vmr, final long real) {
        call(NativeFunction.SV_MR_BIND, vmr, real);
    }

    default void mrFree(final long vmr) {
        call(NativeFunction.SV_MR_FREE, vmr);
    }

    default long dmAlloc(final long vcontext, final long length) {
        return call(NativeFunction.SV_DM_ALLOC, vcontext, length);
    }

    default int dmSave(final long vdm) {
        return (int) call(NativeFunction.SV_DM_SAVE, vdm);
    }

    default void dmForget(final long vdm) {
        call(NativeFunction.SV_DM_FORGET, vdm);
    }

    default int dmBind(final long vdm, final long real) {
        return (int) call(NativeFunction.SV_DM_BIND, vdm, real);
    }

    default void dmFree(final long vdm) {
        call(NativeFunction.SV_DM_FREE, vdm);
    }

    default long mwAlloc(final long vpd, final int type, final int vrkey) {
        return call(NativeFunction.SV_MW_ALLOC, vpd, type, vrkey);
    }

    default void mwBind(final long vmw, final long real) {
        call(NativeFunction.SV_MW_BIND, vmw, real);
    }

    default void mwFree(final long vmw) {
        call(NativeFunction.SV_MW_FREE, vmw);
    }

    default int mwRealRkey(final long vmw, final int vrkey) {
        return (int) call(NativeFunction.SV_MW_REAL_RKEY, vmw, vrkey);
    }

    default int mwBound(final long vmw) {
        return (int) call(NativeFunction.SV_MW_BOUND, vmw);
    }

    /** @return the virtual queue pair, or 0 */
    default long mwQp(final long vmw) {
        return call(NativeFunction.SV_MW_QP, vmw);
    }

    default int mwRebind(final long vmw, final long vqp) {
        return (int) call(NativeFunction.SV_MW_REBIND, vmw, vqp);
    }

    default void mwUnbind(final long vmw) {
        call(NativeFunction.SV_MW_UNBIND, vmw);
    }

    default long channelAlloc(final long vcontext) {
        return call(NativeFunction.SV_CHANNEL_ALLOC, vcontext);
    }

    default int channelBind(final long vchannel, final long real) {
        return (int) call(NativeFunction.SV_CHANNEL_BIND, vchannel, real);
    }

    default void channelFree(final long vchannel) {
        call(NativeFunction.SV_CHANNEL_FREE, vchannel);
    }

    default long cqAlloc(final long vcontext) {
        return call(NativeFunction.SV_CQ_ALLOC, vcontext);
    }

    default int cqOpen(final long vcq, final MemorySegment spec) {
        return (int) call(NativeFunction.SV_CQ_OPEN, vcq, spec.address());
    }

    default int cqGoOn(final long vcq) {
        return (int) call(NativeFunction.SV_CQ_GO_ON, vcq);
    }

    default void srqGoOn(final long vsrq) {
        call(NativeFunction.SV_SRQ_GO_ON, vsrq);
    }

    default void qpGoOn(final long vqp) {
        call(NativeFunction.SV_QP_GO_ON, vqp);
    }

    default boolean contextAttachable(final long vcontext) {
        return (int) call(NativeFunction.SV_CONTEXT_ATTACHABLE, vcontext) != 0;
    }

    default int contextLost(final long vcontext) {
        return (int) call(NativeFunction.SV_CONTEXT_LOST, vcontext);
    }

    default void lostOver() {
        call(NativeFunction.SV_LOST_OVER);
    }

    default int cqBind(final long vcq, final long real) {
        return (int) call(NativeFunction.SV_CQ_BIND, vcq, real);
    }

    default void cqResized(final long vcq, final int cqe) {
        call(NativeFunction.SV_CQ_RESIZED, vcq, cqe);
    }

    default void cqFree(final long vcq) {
        call(NativeFunction.SV_CQ_FREE, vcq);
    }

    /**
     * @param reals an array of {@code count} pointers; null with 0
     * @param makers an index among these of 16 bits for each range of {@link org.shadowverbs.ids.NumberRanges}; null: the first
     */
    default int ahBind(final long vah, final MemorySegment reals, final int count, final long map,
            final MemorySegment makers) {
        return (int) call(NativeFunction.SV_AH_BIND, vah, reals == null ? 0 : reals.address(), count, map,
                makers == null ? 0 : makers.address());
    }

    default long ahAlloc(final long vpd) {
        return call(NativeFunction.SV_AH_ALLOC, vpd);
    }

    default void ahFree(final long vah) {
        call(NativeFunction.SV_AH_FREE, vah);
    }

    long idmapNew(long[] keys, long[] values);

    default void idmapFree(final long map) {
        call(NativeFunction.SV_IDMAP_FREE, map);
    }

    /**
     * @param routes structs sv_route, one after the other
     * @param names likewise structs sv_route_name
     */
    long routesNew(long[] routes, long[] names);

    default void routesFree(final long routes) {
        call(NativeFunction.SV_ROUTES_FREE, routes);
    }

    default void contextSetSources(final long vcontext, final long map, final long routes) {
        call(NativeFunction.SV_CONTEXT_SET_SOURCES, vcontext, map, routes);
    }

    /** @param fd of the file that names the domain, or -1 */
    default long xrcdAlloc(final long vcontext, final int fd) {
        return call(NativeFunction.SV_XRCD_ALLOC, vcontext, fd);
    }

    default int xrcdDomain(final long vxrcd) {
        return (int) call(NativeFunction.SV_XRCD_DOMAIN, vxrcd);
    }

    default void xrcdBind(final long vxrcd, final long real) {
        call(NativeFunction.SV_XRCD_BIND, vxrcd, real);
    }

    default void xrcdFree(final long vxrcd) {
        call(NativeFunction.SV_XRCD_FREE, vxrcd);
    }

    default long srqAlloc(final long vpd) {
        return call(NativeFunction.SV_SRQ_ALLOC, vpd);
    }

    default int srqOpen(final long vsrq, final MemorySegment spec) {
        return (int) call(NativeFunction.SV_SRQ_OPEN, vsrq, spec.address());
    }

    default void srqBind(final long vsrq, final long real) {
        call(NativeFunction.SV_SRQ_BIND, vsrq, real);
    }

    default void srqFree(final long vsrq) {
        call(NativeFunction.SV_SRQ_FREE, vsrq);
    }

    /** @param vpd 0 of an XRC receive queue pair */
    default long qpAlloc(final long vcontext, final long vpd) {
        return call(NativeFunction.SV_QP_ALLOC, vcontext, vpd);
    }

    default int qpOpen(final long vqp, final MemorySegment spec) {
        return (int) call(NativeFunction.SV_QP_OPEN, vqp, spec.address());
    }

    default int qpBind(final long vqp, final long real) {
        return (int) call(NativeFunction.SV_QP_BIND, vqp, real);
    }

    default void qpState(final long vqp, final int state) {
        call(NativeFunction.SV_QP_STATE, vqp, state);
    }

    default void qpPeer(final long vqp, final int destVqpNum, final int destVlid) {
        call(NativeFunction.SV_QP_PEER, vqp, destVqpNum, destVlid);
    }

    default void qpSetRkeys(final long vqp, final long map) {
        call(NativeFunction.SV_QP_SET_RKEYS, vqp, map);
    }

    default void qpSetSrqs(final long vqp, final long map) {
        call(NativeFunction.SV_QP_SET_SRQS, vqp, map);
    }

    /** The XRC receive queue pair lives on in other processes; to be followed by {@link #qpFree}. */
    default void qpLeave(final long vqp) {
        call(NativeFunction.SV_QP_LEAVE, vqp);
    }

    default void qpFree(final long vqp) {
        call(NativeFunction.SV_QP_FREE, vqp);
    }

    /** From here on the library behind the preload is ib2tcp, or libibverbs. */
    default void tcpSelect(final boolean on, final boolean lids) {
        call(NativeFunction.SV_TCP_SELECT, !on ? 0 : lids ? 2 : 1);
    }

    default long qpWork(final long vqp) {
        return call(NativeFunction.SV_QP_WORK, vqp);
    }

    default void qpBookmark(final long vqp, final MemorySegment bookmark) {
        call(NativeFunction.SV_QP_BOOKMARK, vqp, bookmark.address());
    }

    /** @return completions moved, or a negative errno value */
    default int cqDrain(final long vcq) {
        return (int) call(NativeFunction.SV_CQ_DRAIN, vcq);
    }

    default int qpSent(final long vqp, final long position, final MemorySegment sent) {
        return (int) call(NativeFunction.SV_QP_SENT, vqp, position, sent.address());
    }

    /** @return how many, or -1: more than SV_MAX_TARGETS */
    default int qpTargets(final long vqp, final MemorySegment numbers) {
        return (int) call(NativeFunction.SV_QP_TARGETS, vqp, numbers.address());
    }

    /**
     * @param foreignQps room for SV_MAX_FOREIGN_QPS of struct sv_foreign_qp
     * @return how many, or -1: more
     */
    default int xrcdForeignQps(final int domain, final MemorySegment foreignQps) {
        return (int) call(NativeFunction.SV_XRCD_FOREIGN_QPS, domain, foreignQps.address());
    }

    default void xrcdForget(final int domain, final int qpNum) {
        call(NativeFunction.SV_XRCD_FORGET, domain, qpNum);
    }

    default int qpRetire(final long vqp, final long position) {
        return (int) call(NativeFunction.SV_QP_RETIRE, vqp, position);
    }

    default int qpPostMarker(final long vqp) {
        return (int) call(NativeFunction.SV_QP_POST_MARKER, vqp);
    }

    default int qpPostLanding(final long vqp, final long length) {
        return (int) call(NativeFunction.SV_QP_POST_LANDING, vqp, length);
    }

    default void srqBookmark(final long vsrq, final MemorySegment bookmark) {
        call(NativeFunction.SV_SRQ_BOOKMARK, vsrq, bookmark.address());
    }

    default int srqPostLanding(final long vsrq, final long length) {
        return (int) call(NativeFunction.SV_SRQ_POST_LANDING, vsrq, length);
    }

    default int qpErrorsWithdraw(final long vqp) {
        return (int) call(NativeFunction.SV_QP_ERRORS_WITHDRAW, vqp);
    }

    default int qpErrorsDeliver(final long vqp) {
        return (int) call(NativeFunction.SV_QP_ERRORS_DELIVER, vqp);
    }

    default int channelDrain(final long vchannel) {
        return (int) call(NativeFunction.SV_CHANNEL_DRAIN, vchannel);
    }

    default int contextDrain(final long vcontext) {
        return (int) call(NativeFunction.SV_CONTEXT_DRAIN, vcontext);
    }

    default int qpReplayReceives(final long vqp, final MemorySegment position) {
        return (int) call(NativeFunction.SV_QP_REPLAY_RECEIVES, vqp, position.address());
    }

    default int srqReplay(final long vsrq, final MemorySegment position) {
        return (int) call(NativeFunction.SV_SRQ_REPLAY, vsrq, position.address());
    }

    default int qpReplaySends(final long vqp, final MemorySegment position) {
        return (int) call(NativeFunction.SV_QP_REPLAY_SENDS, vqp, position.address());
    }

    default int qpFail(final long vqp) {
        return (int) call(NativeFunction.SV_QP_FAIL, vqp);
    }

    /** @return the line without its end; null at end of file */
    String readLine(int fd);

    /** Opens a FIFO whose other end is open already. */
    int openForReading(String path);

    void close(int fd);

    /** @return a descriptor of ours for the same file */
    int duplicate(int fd);

    int processId();

    /**
     * Has the kernel count pages of this process as written, as if each were written to with what it holds: also those that a
     * device has written to past the page tables. Pages that the process may not write to are left out.
     */
    void countAsWritten(long address, long length);

    /** @return a descriptor by which another process may have writes of this one counted (userfaultfd(2)); -1: there is none */
    int writesDescriptor();

    /**
     * Lets this thread, and those it starts from now on, be woken out of a blocking read when another closes the socket:
     * Java does that by a signal, and the thread that made the JVM had all signals blocked.
     */
    void unblockWakeUpSignal();
}
