// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;

/**
 * The receive that a queue pair's next message goes to. In its own queue it is the one at the head until the message is
 * complete; of a shared one it is taken when the message begins, and stays with the queue pair when the connection breaks:
 * what has been written to it by then is the beginning of the same message. With XRC each message names its shared queue.
 */
public final class Receives {
    private final QueuePair qp;
    private SharedQueue shared;
    private long held;
    private boolean awaited;

    /** @param shared null: the queue pair has its own queue, or, of XRC, none has been named yet */
    Receives(final QueuePair qp, final SharedQueue shared) {
        this.qp = qp;
        this.shared = shared;
    }

    /** The next message names this queue. */
    public void from(final SharedQueue queue) {
        if (queue != shared) {
            reset();
            shared = queue;
        }
    }

    /** A queue that messages have named ends. @return whether a message for it is unfinished */
    boolean leave(final SharedQueue queue) {
        if (queue != shared) {
            return false;
        }
        final boolean midst = taken();
        reset();
        shared = null;
        return midst;
    }

    /** Where its completion goes. */
    CompletionQueue completionQueue() {
        return shared == null || shared.completionQueue == null ? qp.recvQueue : shared.completionQueue;
    }

    /** The protection domain that its lkeys belong to. */
    long domain() {
        return shared == null ? qp.domain : shared.domain;
    }

    /** Whether there is one. */
    public boolean present() {
        if (shared == null) {
            return !qp.recv.isEmpty();
        }
        if (held == 0) {
            held = shared.take();
        }
        return held != 0;
    }

    /** Whether there is one; else the responder is told of the next. */
    public boolean presentOrAwaited() {
        if (present()) {
            return true;
        }
        awaited = true;
        if (shared == null) {
            Memory.volatileSet(qp.address + Layouts.QP_RECV_WANTED, 1);
        } else {
            shared.await(qp);
        }
        if (!present()) {
            return false; // who posts from now on tells us
        }
        stopWaiting();
        return true;
    }

    /** Whether one was waited for that is there now. */
    public boolean arrived() {
        if (!awaited || (shared == null ? qp.recv.isEmpty() : shared.isEmpty())) {
            return false;
        }
        stopWaiting();
        return true;
    }

    private void stopWaiting() {
        if (!awaited) {
            return;
        }
        awaited = false;
        if (shared == null) {
            Memory.volatileSet(qp.address + Layouts.QP_RECV_WANTED, 0);
        } else {
            shared.forget(qp);
        }
    }

    private long current() {
        return shared == null ? qp.recv.first() : held;
    }

    long sges() {
        return current() + Layouts.RECV_SIZE;
    }

    int sgeCount() {
        return Memory.i32(current() + Layouts.RECV_NUM_SGE);
    }

    /** Its room. */
    public long bytes() {
        return MemoryRegions.total(sges(), sgeCount());
    }

    /** It is used up. @return its wr_id */
    long complete() {
        final long wrId = Memory.i64(current() + Layouts.RECV_WR_ID);
        if (shared == null) {
            qp.recv.remove();
        } else {
            shared.done(held);
            held = 0;
        }
        return wrId;
    }

    /** Whether one was taken out of a shared queue and not used up. */
    public boolean taken() {
        return held != 0;
    }

    /** No message will come any more. */
    public void reset() {
        stopWaiting();
        if (held != 0) {
            final long copy = held;
            held = 0;
            shared.giveBack(copy);
        }
    }
}
