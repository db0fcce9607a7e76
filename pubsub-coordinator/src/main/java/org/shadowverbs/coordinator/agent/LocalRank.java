// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import org.shadowverbs.coordinator.memory.WriteCount;
import org.shadowverbs.coordinator.client.Verdict;
import org.shadowverbs.coordinator.protocol.HostMessages.Member;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.Outbox;
import org.shadowverbs.coordinator.protocol.RankMessages.Detached;
import org.shadowverbs.coordinator.system.Libc;

/**
 * A rank of this host. Guarded by the agent's lock; only the thread of the steps reads without it what names a rank (number,
 * pids, pipe), of ranks that are detached, and of such none of that changes.
 */
final class LocalRank {
    final String uid;
    final long pid;
    final long treeRootPid;
    final String program;
    final VerdictPipe verdictPipe;
    long hostPid;
    long epoch;
    int number = -1;
    MemberState state;
    /** Its link while that is open. */
    Outbox link;
    /** Whether it has been welcomed on that link: the first that it hears. */
    boolean greeted;
    /** Down when all that came through the link has been dealt with. */
    CountDownLatch linkDone = new CountDownLatch(0);
    /** Whether it has been welcomed, so that the coordinator knows it. */
    boolean welcomed;
    boolean saidGoodbye;
    ProcessWatch watch;
    final HostAnswer.Wishes wishes = new HostAnswer.Wishes();
    /** The last message before it closes its link, until it has closed it. */
    Detached detached;
    /** The socket that it has given to be held while its image is made; -1: none. */
    int held = -1;
    /** What counts its writes, for as long as its process lives; null: they cannot be counted. */
    WriteCount writes;
    /** Set when an abort crossed the rank's way to detachment: it gets it from the pipe then. */
    Verdict pendingVerdict;

    LocalRank(final String uid, final long pid, final long hostPid, final long treeRootPid, final String program,
            final VerdictPipe verdictPipe) {
        this.uid = uid;
        this.pid = pid;
        this.hostPid = hostPid;
        this.treeRootPid = treeRootPid;
        this.program = program;
        this.verdictPipe = verdictPipe;
        this.state = MemberState.RUNNING;
    }

    Member member() {
        return new Member(uid, number, pid, hostPid, treeRootPid, program, epoch, (byte) state.ordinal());
    }

    /** To the rank, if its link is open. What comes before it is welcomed it learns from the welcome. */
    void send(final Message message) {
        if (link != null && greeted) {
            link.send(message);
        }
    }

    /** Likewise a whole frame, which others may get, too. */
    void send(final byte[] frame) {
        if (link != null && greeted) {
            link.send(frame);
        }
    }

    /** Its gates are closed and it comes back by itself, with another link: only the end of its process is its end. */
    boolean isAway() {
        return state == MemberState.DETACHED || state == MemberState.REATTACHING;
    }

    /** The name under which the process checkpointer knows it. */
    String rootName() {
        return "rank " + number;
    }

    /** Takes the rank's socket, with what is in it. */
    void hold(final int socket) throws IOException {
        letGo();
        held = Libc.descriptorOf(hostPid, socket);
    }

    /** Sends it what is held, through another socket of its own. */
    void giveBack(final int socket) throws IOException {
        if (held < 0) {
            throw new IOException("the agent holds nothing of this process");
        }
        final int receiver = Libc.descriptorOf(hostPid, socket);
        try {
            Libc.sendDescriptor(receiver, held);
        } finally {
            Libc.close(receiver);
        }
        letGo();
    }

    void letGo() throws IOException {
        if (held >= 0) {
            Libc.close(held);
            held = -1;
        }
    }

    /** Takes a copy of the descriptor by which its writes can be counted, unless there is one of the process already. */
    void takeWrites(final int descriptor) {
        if (descriptor >= 0 && writes == null) {
            try {
                writes = new WriteCount(Libc.descriptorOf(hostPid, descriptor));
            } catch (IOException | UnsupportedOperationException e) {
                writes = null; // an older kernel, or a process that we may not look into: its images are whole
            }
        }
    }

    void close() throws IOException {
        letGo();
        if (writes != null) {
            writes.close();
            writes = null;
        }
        if (link != null) {
            link.close();
            link = null;
        }
        verdictPipe.close();
    }
}
