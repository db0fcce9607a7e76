// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import java.util.Arrays;
import org.shadowverbs.ib2tcp.queue.Completion;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.queue.DoorbellListener;
import org.shadowverbs.ib2tcp.queue.Ring;
import org.shadowverbs.ib2tcp.system.Address;
import org.shadowverbs.ib2tcp.system.Events;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.GlobalRoute;

/** A queue pair: what both its halves know. */
public final class QueuePair implements DoorbellListener {
    /** Transports: enum ibv_qp_type. */
    public static final int RC = 2;
    public static final int UC = 3;
    public static final int UD = 4;
    public static final int XRC_SEND = 9;
    public static final int XRC_RECV = 10;

    public static final int RESET = 0;
    public static final int INIT = 1;
    public static final int RTR = 2;
    public static final int RTS = 3;
    public static final int SQD = 4;
    public static final int SQE = 5;
    public static final int ERR = 6;

    /** Asynchronous events: enum ibv_event_type. */
    public static final int EVENT_REQ_ERR = 2;
    public static final int EVENT_ACCESS_ERR = 3;
    public static final int EVENT_SQ_DRAINED = 5;
    public static final int EVENT_LAST_WQE_REACHED = 16;

    public final Device device;
    /** Address of the struct sv_tcp_qp. */
    public final long address;
    /** Its bit in the doorbell. */
    public final int bell;
    public final int number;
    public final int type;
    /** Its protection domain; 0 for an XRC receiver. */
    public final long domain;
    /** For an XRC receiver: number of the domain of its shared receive queues; else 0. */
    public final int xrcDomain;
    public final boolean signalAll;
    /** Null of a receiver of XRC. */
    public final CompletionQueue sendQueue;
    /** Null of XRC. */
    public final CompletionQueue recvQueue;
    /** Null: its receives are its own, or, of XRC, those of the queue that a request names. */
    public final SharedQueue shared;
    public final Events async;
    public final Ring send;
    final Ring recv;
    public final Receives receives;
    public final Requester requester;
    public final Responder responder;

    // As ibv_modify_qp has set them.
    public int state;
    public int access;
    public int peerNumber;
    public long peerPrefix;
    public long peerId;
    public int sendSequence;
    public int recvSequence;
    public int maxReads;
    public int maxPeerReads;
    public int retries;
    public int rnrRetries;
    public int timeout;
    public int minRnrTimer;
    /** The Q_Key of a datagram queue pair. */
    public int qkey;
    /** Whether the application wants to know when the send queue is drained. */
    public boolean drainEvent;
    /** The protection domain of the memory that the peer means; of XRC that of the queue which its request names. */
    public long remoteDomain;
    /** Addresses of the structs that stand for it: its own, and those of ibv_open_qp. */
    private long[] handles;
    private final Completion completion = new Completion();

    public QueuePair(final Device device, final long address, final int bell, final int type, final long domain,
            final int xrcDomain, final boolean signalAll, final CompletionQueue sendQueue, final CompletionQueue recvQueue,
            final SharedQueue shared, final Events async) {
        this.device = device;
        this.address = address;
        this.handles = new long[] {address};
        this.bell = bell;
        this.number = device.number(bell);
        this.type = type;
        this.domain = domain;
        this.remoteDomain = domain;
        this.xrcDomain = xrcDomain;
        this.signalAll = signalAll;
        this.sendQueue = sendQueue;
        this.recvQueue = recvQueue;
        this.shared = shared;
        this.async = async;
        send = new Ring(address + Layouts.QP_SEND, address + Layouts.QP_SEND_TAIL, address + Layouts.QP_SEND_HEAD);
        recv = new Ring(address + Layouts.QP_RECV, address + Layouts.QP_RECV_TAIL, address + Layouts.QP_RECV_HEAD);
        receives = new Receives(this, shared);
        requester = device.requester(this);
        responder = device.responder(this);
    }

    public boolean reliable() {
        return type == RC || type == XRC_SEND || type == XRC_RECV;
    }

    public void addHandle(final long handle) {
        handles = Arrays.copyOf(handles, handles.length + 1);
        handles[handles.length - 1] = handle;
    }

    /** @return whether it was the last */
    public boolean removeHandle(final long handle) {
        handles = Arrays.stream(handles).filter(h -> h != handle).toArray();
        return handles.length == 0;
    }

    /** Tells all handles. @param type {@code enum ibv_event_type} */
    public void event(final int type) {
        for (final long handle : handles) {
            async.send(handle, type);
        }
    }

    private boolean failAsked() {
        boolean asked = false;
        for (final long handle : handles) {
            asked |= Memory.acquire(handle + Layouts.QP_FAIL_ASKED) != 0;
        }
        return asked;
    }

    boolean receives() {
        return state == RTR || state == RTS || state == SQD || state == SQE;
    }

    /** Requests have been posted, or a receive that was waited for. */
    @Override
    public void onDoorbell() {
        if (failAsked() && state != RESET && state != ERR) {
            enter(ERR);
        } else if (state == ERR) {
            flush();
        } else {
            if (state == SQE) {
                flushSends();
            } else {
                requester.proceed();
            }
            responder.receivePosted();
        }
    }

    /** After a transition that ibv_modify_qp has asked for. */
    public void enter(final int next) {
        final int before = state;
        state = next;
        Memory.i32(address + Layouts.QP_STATE, next);
        switch (next) {
            case RESET:
                device.forget(this);
                device.regions.unbind(this);
                send.clear();
                recv.clear();
                receives.reset();
                Memory.volatileSet(address + Layouts.QP_RECV_WANTED, 0);
                for (final long handle : handles) {
                    Memory.volatileSet(handle + Layouts.QP_FAIL_ASKED, 0);
                }
                requester.reset();
                responder.reset();
                break;
            case RTR:
                if (before == INIT) {
                    responder.start();
                }
                break;
            case RTS:
                if (before == RTR) {
                    requester.start();
                }
                requester.proceed();
                break;
            case SQD:
                if (before != SQD) {
                    requester.hold();
                }
                requester.proceed();
                break;
            case SQE:
                device.forgetSends(this);
                requester.reset();
                flushSends();
                break;
            case ERR:
                device.forget(this);
                requester.reset();
                if (receives.taken()) {
                    failReceive(CompletionQueue.WR_FLUSH_ERR);
                }
                receives.reset();
                flush();
                if (shared != null && before != ERR) {
                    event(EVENT_LAST_WQE_REACHED);
                }
                break;
            default:
                break;
        }
    }

    /** The send request at the head has failed, and with it the queue pair, or of an unreliable one the send queue. */
    public void fail(final int status) {
        completeSend(status);
        enter(reliable() ? ERR : SQE);
    }

    /** A queue pair in the error state completes all that it holds, and what is posted later. */
    private void flush() {
        Memory.volatileSet(address + Layouts.QP_RECV_WANTED, 1);
        flushSends();
        while (!recv.isEmpty()) {
            final long wrId = Memory.i64(recv.first() + Layouts.RECV_WR_ID);
            recv.remove();
            completion.start(wrId, CompletionQueue.WR_FLUSH_ERR, CompletionQueue.OPCODE_RECV, 0);
            recvQueue.push(completion, number);
        }
    }

    private void flushSends() {
        while (!send.isEmpty()) {
            completeSend(CompletionQueue.WR_FLUSH_ERR);
        }
    }

    /** Completes the send request at the head. */
    public void completeSend(final int status) {
        final long request = send.first();
        final boolean shown = status != CompletionQueue.SUCCESS || signalAll
                || (Memory.i32(request + Layouts.SEND_FLAGS) & Requester.FLAG_SIGNALED) != 0;
        completion.start(Memory.i64(request + Layouts.SEND_WR_ID), status,
                Requester.COMPLETED[Memory.i32(request + Layouts.SEND_OPCODE)],
                (int) Memory.i64(request + Layouts.SEND_LENGTH));
        send.remove(); // first: who sees the completion may post at once
        if (shown) {
            sendQueue.push(completion, number);
        }
    }

    /** The receive at hand could not take its message. */
    public void failReceive(final int status) {
        completion.start(receives.complete(), status, CompletionQueue.OPCODE_RECV, 0);
        receives.completionQueue().push(completion, number);
    }

    /** The receive at hand has taken the message of that frame, which came from a process with that interface id. */
    public void completeReceive(final long header, final long sourceId) {
        final int opcode = Frame.opcode(header);
        final Completion c = completion;
        c.start(receives.complete(), CompletionQueue.SUCCESS,
                opcode == Frame.WRITE_IMM ? CompletionQueue.OPCODE_RECV_WITH_IMM : CompletionQueue.OPCODE_RECV,
                (int) Frame.length(header));
        if (opcode == Frame.WRITE_IMM || opcode == Frame.SEND_IMM) {
            c.imm = Frame.immediate(header);
            c.flags = Completion.WITH_IMM;
        } else if (opcode == Frame.SEND_INV) {
            c.imm = Frame.rkey(header);
            c.flags = Completion.WITH_INV;
        }
        c.sourceNumber = Frame.source(header);
        c.solicited = (Frame.flags(header) & Frame.SOLICITED) != 0;
        if (type == UD) {
            c.bytes += GlobalRoute.SIZE;
            c.flags |= Completion.GRH;
            c.sourceLid = Frame.lid(header) != 0 ? Frame.lid(header) : Address.sourceLid(sourceId);
            c.serviceLevel = Frame.serviceLevel(header);
        }
        receives.completionQueue().push(c, number);
    }
}
