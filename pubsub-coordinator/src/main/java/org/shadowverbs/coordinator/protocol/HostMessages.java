// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** What goes between agents and the coordinator, and between the command line and the coordinator. */
public final class HostMessages {
    /** The messages by the type of their frames. */
    static final Map<Byte, Class<? extends Message>> TYPES = Map.ofEntries(
            Map.entry(FrameType.AGENT_HELLO, AgentHello.class),
            Map.entry(FrameType.AGENT_WELCOME, AgentWelcome.class),
            Map.entry(FrameType.RANK_JOINED, RankJoined.class),
            Map.entry(FrameType.RANK_NUMBER, RankNumber.class),
            Map.entry(FrameType.FROM_RANK, FromRank.class),
            Map.entry(FrameType.TO_RANKS, ToRanks.class),
            Map.entry(FrameType.HOST_CONTRIBUTES, HostContribution.class),
            Map.entry(FrameType.HOST_RANKS, HostRanks.class),
            Map.entry(FrameType.RANK_GONE, RankGone.class),
            Map.entry(FrameType.TREE_STATE, TreeState.class),
            Map.entry(FrameType.PREPARE, Prepare.class),
            Map.entry(FrameType.PREPARED, Prepared.class),
            Map.entry(FrameType.FREEZE, Freeze.class),
            Map.entry(FrameType.FROZEN, Frozen.class),
            Map.entry(FrameType.HOLD_SOCKETS, HoldSockets.class),
            Map.entry(FrameType.SOCKETS_HELD, SocketsHeld.class),
            Map.entry(FrameType.ACCEPT, Accept.class),
            Map.entry(FrameType.ACCEPTED, Accepted.class),
            Map.entry(FrameType.MAKE_AGAIN, MakeAgain.class),
            Map.entry(FrameType.SAVE, Save.class),
            Map.entry(FrameType.SAVED, Saved.class),
            Map.entry(FrameType.PRE_COPY, PreCopy.class),
            Map.entry(FrameType.PRE_COPIED, PreCopied.class),
            Map.entry(FrameType.SEAL, Seal.class),
            Map.entry(FrameType.SEALED, Sealed.class),
            Map.entry(FrameType.THAW, Thaw.class),
            Map.entry(FrameType.THAWED, Thawed.class),
            Map.entry(FrameType.RELEASE, Release.class),
            Map.entry(FrameType.RELEASED, Released.class),
            Map.entry(FrameType.STEP_PROGRESS, StepProgress.class),
            Map.entry(FrameType.STEP_FAILED, StepFailed.class),
            Map.entry(FrameType.TERMINATE, Terminate.class),
            Map.entry(FrameType.QUIT, Quit.class),
            Map.entry(FrameType.RESTORED, Restored.class),
            Map.entry(FrameType.INSPECT, Inspect.class),
            Map.entry(FrameType.INSPECTED, Inspected.class),
            Map.entry(FrameType.SAY, Say.class),
            Map.entry(FrameType.COMMAND, Command.class),
            Map.entry(FrameType.LINE, Line.class),
            Map.entry(FrameType.RESULT, Result.class));

    private HostMessages() {
    }

    /**
     * A rank as its agent knows it. {@code hostPid} is its pid on the agent's side; {@code rank} is -1 until it has a
     * number; {@code state} is the number of a {@link MemberState}.
     */
    public record Member(String uid, int rank, long pid, long hostPid, long treeRootPid, String program, long epoch,
            byte state) {
    }

    /** A process that was launched, and all its descendants. */
    public record Tree(long hostPid, List<String> argv, String cwd) {
    }

    /**
     * First message of an agent, and again to a coordinator that was started anew: all that it must know to
     * go on. {@code epoch} and {@code attempt}: the highest seen; {@code restored}: the members come from images of
     * that epoch. {@code command} starts the agent anew should it be lost; empty where its processes end with it.
     * {@code addresses}: those of its host.
     */
    public record AgentHello(int version, String secret, String agentId, String host, long pid, String job,
            long epoch, int attempt, boolean restored, List<Member> members, List<Tree> trees,
            Map<String, String> settings, List<String> command, List<NetAddress> addresses) implements Message {
        /** The setting that a restart brings: the backend, as in a verdict. */
        public static final String BACKEND = "backend";
        /** The setting that tells a spare host: it has no part in the job before another is lost. */
        public static final String SPARE = "spare";

        /** The same of an agent that has nothing of the job. */
        public AgentHello withoutProcesses() {
            return new AgentHello(version, secret, agentId, host, pid, job, epoch, attempt, restored, List.of(), List.of(), settings,
                    command, addresses);
        }
    }

    /** {@code backend}: of a job that was restarted, as in a verdict; else empty. */
    public record AgentWelcome(String job, long epoch, int deadlineSeconds, String backend, long number, String key, String store)
            implements Message {
    }

    /** A rank has said hello to its agent. */
    public record RankJoined(Member member) implements Message {
    }

    /** The answer to RANK_JOINED; with a {@code refusal} that is not empty the rank is turned away. */
    public record RankNumber(String uid, int rank, long epoch, int attempt, int deadlineSeconds, String refusal)
            implements Message {
    }

    /** A frame of a rank (type and body), passed on. */
    public record FromRank(String uid, byte[] frame) implements Message {
    }

    /**
     * What ranks of a host bring to an exchange, in one message: {@code uids} of them all, {@code against} of those
     * that do not agree, and what they wait for ({@code notes}, of those that have said it). Published values and
     * wishes are those of all.
     */
    public record HostContribution(long epoch, int attempt, byte phase, int round, List<String> uids,
            Set<String> against, Map<String, String> notes, Map<String, byte[]> publish, Set<String> want)
            implements Message {
    }

    /**
     * Those ranks have detached ({@code done} false), or opened their gates, the last of them this many nanoseconds ago.
     */
    public record HostRanks(long epoch, boolean done, long openNanos, List<String> uids) implements Message {
    }

    /** A frame (type and body) for those ranks of the agent, or for all when the list is empty. */
    public record ToRanks(List<String> uids, byte[] frame) implements Message {
    }

    /**
     * A rank has left. {@code how}: 0 said goodbye, 1 its process is gone without, 2 its link broke and the
     * process lives. {@code status}: 0 to 255, or 128 and its signal; -1: nobody knows.
     */
    public record RankGone(String uid, byte how, int status, String text) implements Message {
    }

    /** A launched process has come or gone. {@code settings} are what its launch asked for. */
    public record TreeState(Tree tree, boolean alive, Map<String, String> settings) implements Message {
    }

    /** An address of a host, numeric, and the network interface that has it. */
    public record NetAddress(String device, String address) {
    }

    /**
     * One end of a TCP connection. {@code holder}: the process that has it, for messages; empty: none has. {@code state}: the kernel's
     * number of its state.
     */
    public record TcpSocket(String holder, String local, int localPort, String remote, int remotePort, int state) {
    }

    /**
     * The ends of TCP connections on one host whose other ends are on other hosts. {@code leaving}: of the job's processes;
     * {@code foreign}: to hosts of the job, that are not theirs; {@code waiting}: those of them that have come to a listener of the job
     * and that nobody has accepted yet, with the process that listens as the holder.
     */
    public record TcpSockets(List<TcpSocket> leaving, List<TcpSocket> foreign, List<TcpSocket> waiting) {
        /** Of a host that has none. */
        public static final TcpSockets NONE = new TcpSockets(List.of(), List.of(), List.of());
    }

    /**
     * A checkpoint begins: do what shortens the time that the processes stand still. {@code folder} and {@code plan} are those that
     * SAVE will have; an empty folder: nothing comes of the checkpoint, so undo it.
     */
    public record Prepare(long epoch, String folder, Plan plan) implements Message {
    }

    /** The answer: what could be done is done. */
    public record Prepared(long epoch) implements Message {
    }

    /**
     * Make the processes stand still; give up after so long. {@code attached}: ranks have their devices open. {@code addresses}: of
     * the job's other hosts.
     */
    public record Freeze(long epoch, int deadlineSeconds, boolean attached, Set<String> addresses) implements Message {
    }

    /** They stand still. {@code sockets}: between this host and others. */
    public record Frozen(long epoch, List<String> trees, long nanos, TcpSockets sockets) implements Message {
    }

    /** From now on no TCP connection of the job's takes in anything, and none comes to a listener. */
    public record HoldSockets(long epoch) implements Message {
    }

    /** {@code sockets}: as in {@link Frozen}, and they do not change any more. */
    public record SocketsHeld(long epoch, TcpSockets sockets) implements Message {
    }

    /** Accept what has come from other hosts and waits, or tell of the next part of it: the clients' hosts make it again. */
    public record Accept(long epoch) implements Message {
    }

    /**
     * A TCP connection between two hosts that no program has accepted: its ends as its client has them, the {@code sequence} number of
     * the byte that the listener's end expects next, -1 when nothing has come there, and what it has had.
     */
    public record UnacceptedSocket(String local, int localPort, String remote, int remotePort, long sequence, byte[] data) {
    }

    /** What waited. {@code more}: there is more of it, to be asked for. */
    public record Accepted(long epoch, List<UnacceptedSocket> sockets, boolean more) implements Message {
    }

    /** Their clients are on this host: have them make the connections again, when all goes on and after a restart. No answer. */
    public record MakeAgain(long epoch, List<UnacceptedSocket> sockets) implements Message {
    }

    /**
     * How images are made. {@code name}: of the folder that the checkpoint will have; {@code base}: of the one before, which is safe, or
     * empty; {@code fullEvery}: one of so many checkpoints is whole; {@code local}: where each host keeps its images first, as the user
     * named it, or empty.
     */
    public record Plan(String name, String base, int fullEvery, String local) {
    }

    /** While the processes run: copy what can be copied of them, into a folder that the agent makes below this one. */
    public record PreCopy(long epoch, String folder, Plan plan, int deadlineSeconds) implements Message {
    }

    /** {@code bytes}: how much was copied; 0 where writes cannot be counted, so that it would be of no use. */
    public record PreCopied(long epoch, long bytes) implements Message {
    }

    /** Save into a folder that the agent makes below this one; give up when nothing is done for so long. */
    public record Save(long epoch, String folder, Plan plan, int deadlineSeconds) implements Message {
    }

    /** All is written, and no process is needed for it any more. {@code note}: why not where the host keeps images first, or empty. */
    public record Saved(long epoch, long bytes, String note) implements Message {
        public Saved(final long epoch, final long bytes) {
            this(epoch, bytes, "");
        }
    }

    /** Make safe what was written; give up when nothing is done for so long. {@code compression}: as a user names it. */
    public record Seal(long epoch, String compression, int deadlineSeconds) implements Message {
    }

    /**
     * {@code images}: the host's part of the manifest, JSON; empty for a host with no process of the job. {@code root}: the folder of
     * checkpoints on that host where they are; empty: they are in the checkpoint's own folder.
     */
    public record Sealed(long epoch, long bytes, String images, String root) implements Message {
        public Sealed(final long epoch, final long bytes, final String images) {
            this(epoch, bytes, images, "");
        }
    }

    /** Let the processes run on and tell them {@code outcome} (resumed, aborted), or end them. */
    public record Thaw(long epoch, int attempt, String outcome, String reason, boolean kill) implements Message {
    }

    /** {@code readNanos}: of a restore, how long the images were read and verified; else 0. */
    public record Thawed(long epoch, long readNanos) implements Message {
        public Thawed(final long epoch) {
            this(epoch, 0);
        }
    }

    /** The processes of all hosts are restored: let them run. */
    public record Release(long epoch) implements Message {
    }

    public record Released(long epoch) implements Message {
    }

    /** The step goes on; {@code done}: how far it has come, in bytes. */
    public record StepProgress(long epoch, String step, long done) implements Message {
    }

    /**
     * {@code step}: PRE_COPY, FREEZE, HOLD, ACCEPT, SAVE, SEAL, THAW, RELEASE, END or RECOVER; {@code passes}: what it has failed for
     * passes by itself.
     */
    public record StepFailed(long epoch, String step, String reason, boolean passes) implements Message {
        public StepFailed(final long epoch, final String step, final String reason) {
            this(epoch, step, reason, false);
        }
    }

    /** Send this signal to all processes of the job on this host. */
    public record Terminate(int signal) implements Message {
    }

    public record Quit(String reason) implements Message {
    }

    /** What a restart has come to: all ranks are connected again and run, or, with a problem, what was restored is to end. */
    public record Restored(String problem) implements Message {
    }

    /**
     * Look at the processes of the job without stopping them. {@code listeners}: where the ranks' devices over TCP listen.
     * {@code folder}: one that exists, in which or below which checkpoints go. {@code addresses}: of the job's other hosts.
     */
    public record Inspect(long id, Set<String> listeners, String folder, Set<String> addresses) implements Message {
    }

    /** {@code problems}: what a checkpoint would be refused for on this host now; {@code sockets}: as in {@link Frozen}. */
    public record Inspected(long id, List<String> problems, TcpSockets sockets) implements Message {
    }

    /** A line for the standard error of the program that was launched first on this host, or of the command that stands in for one. */
    public record Say(String line) implements Message {
    }

    /** What a user asks for. */
    public record Command(int version, String secret, String name, Map<String, String> arguments) implements Message {
    }

    /** A line for the user while a command runs. */
    public record Line(String text) implements Message {
    }

    /** The end of a command: its exit status, the line or lines to print, and the same as one JSON object. */
    public record Result(int status, String text, String json) implements Message {
    }
}
