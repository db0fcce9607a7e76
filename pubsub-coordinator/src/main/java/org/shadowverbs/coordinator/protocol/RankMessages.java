// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** What goes between a rank and its agent; inside FROM_RANK and TO_RANKS also between agent and coordinator. */
public final class RankMessages {
    /** The messages by the type of their frames. */
    static final Map<Byte, Class<? extends Message>> TYPES = Map.ofEntries(
            Map.entry(FrameType.HELLO, Hello.class),
            Map.entry(FrameType.WELCOME, Welcome.class),
            Map.entry(FrameType.REFUSED, Refused.class),
            Map.entry(FrameType.ASK_CHECKPOINT, AskCheckpoint.class),
            Map.entry(FrameType.ASKED, Asked.class),
            Map.entry(FrameType.CHECKPOINT, Checkpoint.class),
            Map.entry(FrameType.CONTRIBUTE, Contribute.class),
            Map.entry(FrameType.REPLY, Answer.class),
            Map.entry(FrameType.ABORT, Abort.class),
            Map.entry(FrameType.DETACHED, Detached.class),
            Map.entry(FrameType.DONE, Done.class),
            Map.entry(FrameType.FAIL, Fail.class),
            Map.entry(FrameType.PROGRESS, Progress.class),
            Map.entry(FrameType.GOODBYE, Goodbye.class),
            Map.entry(FrameType.PUBLISH, Publish.class),
            Map.entry(FrameType.LOOKUP, Lookup.class),
            Map.entry(FrameType.FOUND, Found.class),
            Map.entry(FrameType.SHUTDOWN, Shutdown.class),
            Map.entry(FrameType.HOLD, Hold.class),
            Map.entry(FrameType.GIVE_BACK, GiveBack.class),
            Map.entry(FrameType.HELD, Held.class),
            Map.entry(FrameType.NOTIFY, Notify.class),
            Map.entry(FrameType.NOTIFIED, Notified.class),
            Map.entry(FrameType.EXIT_MESSAGES, ExitMessages.class),
            Map.entry(FrameType.CHECK, Check.class),
            Map.entry(FrameType.ASK_WORK, AskWork.class),
            Map.entry(FrameType.WORK, Work.class),
            Map.entry(FrameType.CHECKED, Checked.class));

    private RankMessages() {
    }

    /**
     * First message of a rank. {@code state}: 0 fresh, 1 reattaching after a checkpoint, an abort or a restart. {@code writes}: a
     * descriptor of the process, a userfaultfd, which the agent takes a copy of before it answers; -1: none.
     */
    public record Hello(int version, String secret, String uid, long pid, long treeRootPid, String program, long epoch,
            byte state, int writes) implements Message {
    }

    /** {@code attempt}: of the reattachment that goes on, which the rank's contributions belong to. */
    public record Welcome(int rank, String job, long epoch, int attempt, int deadlineSeconds, String verdictPipe)
            implements Message {
    }

    /** The answer to any hello that can't be accepted; the connection is closed after it. */
    public record Refused(String reason) implements Message {
    }

    /**
     * The program wants a checkpoint: by itself, or with that many processes together ({@code processes} above 0). It is asked again
     * while the call waits. {@code epoch}: the last that the rank has gone through. {@code written}: the one in whose image it is in
     * that call; 0: there is none.
     */
    public record AskCheckpoint(long call, int processes, long epoch, long written) implements Message {
    }

    /** The answer: the checkpoint of {@code safe} is safe, which ends the call; or, with 0, it was heard, or has a {@code problem}. */
    public record Asked(long call, long safe, String problem) implements Message {
    }

    public record Checkpoint(long epoch, int deadlineSeconds, Map<String, String> options) implements Message {
    }

    /** {@code attempt} counts the reattachments of an epoch: what was sent for one that was given up is dropped. */
    public record Contribute(long epoch, int attempt, byte phase, int round, Map<String, byte[]> publish,
            Set<String> want, boolean agree, String note) implements Message {
    }

    /** {@code runs}: the numbers of the {@code ranks} that took part, as first and last of each run without a gap. */
    public record Answer(long epoch, int attempt, byte phase, int round, Map<String, byte[]> found,
            boolean unanimous, int ranks, List<Integer> runs, List<Integer> departed) implements Message {
    }

    /** The checkpoint of this epoch is given up; with {@code reattach} every rank goes through the reattachment. */
    public record Abort(long epoch, int attempt, boolean reattach, String reason) implements Message {
    }

    public record Detached(long epoch) implements Message {
    }

    /** @param openNanos for how many nanoseconds the gate has been open */
    public record Done(long epoch, long openNanos) implements Message {
    }

    public record Fail(long epoch, byte phase, String message) implements Message {
    }

    /** {@code waitingFor} names the object and the peer that a rank waits for: a deadline that passes repeats it. */
    public record Progress(long epoch, byte phase, long done, long total, String waitingFor) implements Message {
    }

    public record Goodbye(int status) implements Message {
    }

    public record Publish(Map<String, byte[]> values) implements Message {
    }

    public record Lookup(int id, Set<String> keys) implements Message {
    }

    public record Found(int id, Map<String, byte[]> values) implements Message {
    }

    public record Shutdown(String reason) implements Message {
    }

    /** The agent is to take a socket of the rank's, by its descriptor there, and to hold it while the image is made. */
    public record Hold(int socket) implements Message {
    }

    /** The agent is to send what it holds through this other socket of the rank's, and to hold it no more. */
    public record GiveBack(int socket) implements Message {
    }

    /** The answer to both; {@code problem} is empty when it was done. */
    public record Held(String problem) implements Message {
    }

    /** From one rank to another, by number: bytes that only they understand. Lost when that rank is not there. */
    public record Notify(int to, byte[] what) implements Message {
    }

    /** What a NOTIFY arrives as. */
    public record Notified(int from, byte[] what) implements Message {
    }

    /** What others are to be told when the rank's process has ended, however; in place of what it left before. */
    public record ExitMessages(List<Notify> messages) implements Message {
    }

    /** Would a checkpoint be possible now, as far as this rank knows? It answers with the same {@code id}. */
    public record Check(long id) implements Message {
    }

    /**
     * {@code problems}: what a checkpoint would be refused for. {@code own}: the keys that the rank's queue pairs, living and
     * destroyed, would be published under. {@code listener}: where its device over TCP listens; empty when it has none.
     */
    public record Checked(long id, List<String> problems, Set<String> own, List<Peer> peers, String listener)
            implements Message {
    }

    /** A queue pair that needs a peer in the job: one that is published under one of the keys. */
    public record Peer(String queuePair, List<String> keys) {
    }

    /** How much work has the application done? */
    public record AskWork(long id) implements Message {
    }

    /** {@code work}: a number that changes whenever the application posts a request, or sees a completion. */
    public record Work(long id, long work) implements Message {
    }
}
