// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.nativelib;

import java.lang.foreign.MemorySegment;

/**
 * The functions of the preload library, name for name; {@code native/include/shadowverbs.h} says what each does.
 * Pointers are addresses. What returns an int here returns 0 or an errno value, unless the header says otherwise.
 */
public interface Native {
    int abiVersion();

    void driverReady(int err);

    void say(String line);

    /** The array of requests. */
    MemorySegment mailbox();

    int mailboxTake(int timeoutMillis);

    void mailboxAnswer(int slot);

    void gateAnnounce(boolean on);

    /** @return null, or who is still inside a verb */
    String gateClose(long timeoutNanos);

    void gateOpen();

    /** Memory that has been freed goes back to the kernel, and into no image. */
    void memoryTrim();

    /** A socket that holds the files of the connection manager; or -ENOENT, there are none; or another negative errno. */
    int cmSend();

    int cmDetach(int socket);

    /** A socket for who holds them, or a negative errno value. */
    int cmReceiver();

    /** @param socket the receiver's; -1: nobody holds them any more */
    int cmReattach(int socket);

    /** How many event channels were lost that the program has done more with than to look. */
    int cmLostInUse();

    /** Tokens of connections that were lost and that nobody has ended. */
    long[] cmLost();

    void cmEnded(long token, int status);

    void timersStop();

    void timersStart();

    void setMasks(int qpNum, int key, int lid, long gid);

    long keymapNew(int[] virtuals, int[] reals);

    void keymapFree(long map);

    long deviceFor(long realDevice);

    long deviceReal(long vdevice);

    void deviceBind(long vdevice, long real);

    /** In network order, as in the attributes. */
    long deviceGuid(long device);

    long contextAlloc(long vdevice);

    int contextOpen(long vcontext, long real);

    int contextBind(long vcontext, long real);

    void contextSetLkeys(long vcontext, long map);

    void contextFree(long vcontext);

    long pdAlloc(long vcontext);

    void pdBind(long vpd, long real);

    void pdFree(long vpd);

    long mrAlloc(long vpd, long addr, long length, int vlkey, int vrkey);

    void mrBind(long vmr, long real);

    void mrFree(long vmr);

    long dmAlloc(long vcontext, long length);

    int dmBind(long vdm, long real);

    void dmFree(long vdm);

    long mwAlloc(long vpd, int type, int vrkey);

    void mwBind(long vmw, long real);

    void mwFree(long vmw);

    int mwRealRkey(long vmw, int vrkey);

    int mwBound(long vmw);

    /** @return the virtual queue pair, or 0 */
    long mwQp(long vmw);

    int mwRebind(long vmw, long vqp);

    void mwUnbind(long vmw);

    long channelAlloc(long vcontext);

    int channelBind(long vchannel, long real);

    void channelFree(long vchannel);

    long cqAlloc(long vcontext);

    int cqOpen(long vcq, MemorySegment spec);

    int cqBind(long vcq, long real);

    void cqResized(long vcq, int cqe);

    void cqFree(long vcq);

    /**
     * @param reals an array of {@code count} pointers; null with 0
     * @param makers an index among these of 16 bits for each range of {@link org.shadowverbs.ids.NumberRanges}; null: the first
     */
    int ahBind(long vah, MemorySegment reals, int count, long map, MemorySegment makers);

    long ahAlloc(long vpd);

    void ahFree(long vah);

    long idmapNew(long[] keys, long[] values);

    void idmapFree(long map);

    /**
     * @param routes structs sv_route, one after the other
     * @param names likewise structs sv_route_name
     */
    long routesNew(long[] routes, long[] names);

    void routesFree(long routes);

    void contextSetSources(long vcontext, long map, long routes);

    /** @param fd of the file that names the domain, or -1 */
    long xrcdAlloc(long vcontext, int fd);

    int xrcdDomain(long vxrcd);

    void xrcdBind(long vxrcd, long real);

    void xrcdFree(long vxrcd);

    long srqAlloc(long vpd);

    int srqOpen(long vsrq, MemorySegment spec);

    void srqBind(long vsrq, long real);

    void srqFree(long vsrq);

    /** @param vpd 0 of an XRC receive queue pair */
    long qpAlloc(long vcontext, long vpd);

    int qpOpen(long vqp, MemorySegment spec);

    int qpBind(long vqp, long real);

    void qpState(long vqp, int state);

    void qpPeer(long vqp, int destVqpNum, int destVlid);

    void qpSetRkeys(long vqp, long map);

    void qpSetSrqs(long vqp, long map);

    /** The XRC receive queue pair lives on in other processes; to be followed by {@link #qpFree}. */
    void qpLeave(long vqp);

    void qpFree(long vqp);

    /** From here on the library behind the preload is ib2tcp, or libibverbs. */
    void tcpSelect(boolean on, boolean lids);

    int realQueryPort(long realContext, int port, MemorySegment attr);

    int realQueryDeviceEx(long realContext, MemorySegment attr);

    /** @return the region; 0 with {@link Downcall#errno} */
    long realRegMr(long realPd, long addr, long length, long iova, int access);

    /** @return the region; 0 with {@link Downcall#errno} */
    long realAllocNullMr(long realPd);

    /** @return the memory; 0 with {@link Downcall#errno} */
    long realAllocDm(long realContext, MemorySegment attr);

    int realFreeDm(long realDm);

    /** @return the region; 0 with {@link Downcall#errno} */
    long realRegDmMr(long realPd, long realDm, long offset, long length, int access);

    /** @return the window; 0 with {@link Downcall#errno} */
    long realAllocMw(long realPd, int type);

    int realDeallocMw(long realMw);

    /** @return the completion queue; 0 with {@link Downcall#errno} */
    long realCreateCqEx(long realContext, MemorySegment attr);

    int realModifyCq(long realCq, MemorySegment attr);

    int realModifyQpRateLimit(long realQp, MemorySegment attr);

    /** @return the domain; 0 with {@link Downcall#errno} */
    long realOpenXrcd(long realContext, MemorySegment attr);

    int realCloseXrcd(long realXrcd);

    /** @return the handle; 0 with {@link Downcall#errno} */
    long realOpenQp(long realContext, MemorySegment attr);

    /** @return the shared receive queue; 0 with {@link Downcall#errno} */
    long realCreateSrqEx(long realContext, MemorySegment attr);

    /** @param number an int */
    int realGetSrqNum(long realSrq, MemorySegment number);

    /** @return the queue pair; 0 with {@link Downcall#errno} */
    long realCreateQpEx(long realContext, MemorySegment attr);

    void qpBookmark(long vqp, MemorySegment bookmark);

    /** @return completions moved, or a negative errno value */
    int cqDrain(long vcq);

    int qpSent(long vqp, long position, MemorySegment sent);

    /** @return how many, or -1: more than SV_MAX_TARGETS */
    int qpTargets(long vqp, MemorySegment numbers);

    /**
     * @param foreignQps room for SV_MAX_FOREIGN_QPS of struct sv_foreign_qp
     * @return how many, or -1: more
     */
    int xrcdForeignQps(int domain, MemorySegment foreignQps);

    void xrcdForget(int domain, int qpNum);

    int qpRetire(long vqp, long position);

    int qpPostMarker(long vqp);

    int qpPostLanding(long vqp, long length);

    void srqBookmark(long vsrq, MemorySegment bookmark);

    int srqPostLanding(long vsrq, long length);

    int qpErrorsWithdraw(long vqp);

    int qpErrorsDeliver(long vqp);

    int channelDrain(long vchannel);

    int contextDrain(long vcontext);

    int qpReplayReceives(long vqp, MemorySegment position);

    int srqReplay(long vsrq, MemorySegment position);

    int qpReplaySends(long vqp, MemorySegment position);

    int qpFail(long vqp);

    /** @return the line without its end; null at end of file */
    String readLine(int fd);

    /** Opens a FIFO whose other end is open already. */
    int openForReading(String path);

    void close(int fd);

    /** @return a descriptor of ours for the same file */
    int duplicate(int fd);

    int processId();

    /**
     * Lets this thread, and those it starts from now on, be woken out of a blocking read when another closes the socket:
     * Java does that by a signal, and the thread that made the JVM had all signals blocked.
     */
    void unblockWakeUpSignal();
}
