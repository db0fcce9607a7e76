// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp;

/** A reliable connected queue pair: what both its halves know. */
final class QueuePair {
    static final int RESET = 0;
    static final int INIT = 1;
    static final int RTR = 2;
    static final int RTS = 3;
    static final int SQD = 4;
    static final int ERR = 6;

    /** Of the asynchronous events: enum ibv_event_type. */
    static final int EVENT_REQ_ERR = 2;
    static final int EVENT_ACCESS_ERR = 3;
    static final int EVENT_SQ_DRAINED = 5;

    final Device device;
    /** Of the struct sv_tcp_qp. */
    final long address;
    final int number;
    final long domain;
    final boolean signalAll;
    final CompletionQueue sendQueue;
    final CompletionQueue recvQueue;
    final Events async;
    final Ring send;
    final Ring recv;
    final Requester requester;
    final Responder responder;

    // As ibv_modify_qp has set them.
    int state;
    int access;
    int peerNumber;
    long peerPrefix;
    long peerId;
    int sendSequence;
    int recvSequence;
    int maxReads;
    int maxPeerReads;
    int retries;
    int rnrRetries;
    int timeout;
    int minRnrTimer;

    QueuePair(final Device device, final long address, final int number, final long domain, final boolean signalAll,
            final CompletionQueue sendQueue, final CompletionQueue recvQueue, final Events async) {
        this.device = device;
        this.address = address;
        this.number = number;
        this.domain = domain;
        this.signalAll = signalAll;
        this.sendQueue = sendQueue;
        this.recvQueue = recvQueue;
        this.async = async;
        send = new Ring(address + Layouts.QP_SEND, address + Layouts.QP_SEND_TAIL, address + Layouts.QP_SEND_HEAD);
        recv = new Ring(address + Layouts.QP_RECV, address + Layouts.QP_RECV_TAIL, address + Layouts.QP_RECV_HEAD);
        requester = new Requester(this);
        responder = new Responder(this);
    }

    boolean receives() {
        return state == RTR || state == RTS || state == SQD;
    }

    /** Requests have been posted, or a receive that was waited for. */
    void rung() {
        if (Memory.acquire(address + Layouts.QP_FAIL_ASKED) != 0 && state != RESET && state != ERR) {
            enter(ERR);
        } else if (state == ERR) {
            flush();
        } else {
            requester.proceed();
            responder.receivePosted();
        }
    }

    /** After a transition that ibv_modify_qp has asked for. */
    void enter(final int next) {
        final int before = state;
        state = next;
        Memory.i32(address + Layouts.QP_STATE, next);
        switch (next) {
            case RESET:
                forget();
                send.clear();
                recv.clear();
                Memory.volatileSet(address + Layouts.QP_RECV_WANTED, 0);
                Memory.volatileSet(address + Layouts.QP_FAIL_ASKED, 0);
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
                requester.proceed();
                break;
            case ERR:
                forget();
                requester.reset();
                flush();
                break;
            default:
                break;
        }
    }

    /** The send request at the head has failed, and with it the queue pair. */
    void fail(final int status) {
        requester.complete(status);
        enter(ERR);
    }

    /** A queue pair in the error state completes all that it holds, and what is posted later. */
    private void flush() {
        Memory.volatileSet(address + Layouts.QP_RECV_WANTED, 1);
        while (!send.isEmpty()) {
            requester.complete(CompletionQueue.WR_FLUSH_ERR);
        }
        while (!recv.isEmpty()) {
            completeReceive(CompletionQueue.WR_FLUSH_ERR, 0, 0, 0, false);
        }
    }

    /** The receive at the head, taken by a message of that opcode (of {@link Frame}) or flushed. */
    void completeReceive(final int status, final int opcode, final int bytes, final int imm, final boolean solicited) {
        final long wrId = Memory.i64(recv.first() + Layouts.RECV_WR_ID);
        recv.remove(); // first: who sees the completion may post at once
        recvQueue.push(wrId, status,
                opcode == Frame.WRITE_IMM ? CompletionQueue.OPCODE_RECV_WITH_IMM : CompletionQueue.OPCODE_RECV, bytes,
                imm, opcode == Frame.WRITE_IMM || opcode == Frame.SEND_IMM, number, peerNumber, solicited);
    }

    /** No connection holds anything of it any more. */
    void forget() {
        device.forget(this);
    }
}
