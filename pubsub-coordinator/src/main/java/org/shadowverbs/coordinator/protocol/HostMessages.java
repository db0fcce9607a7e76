// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What goes between agents and the coordinator, and between the command line and the coordinator. */
public final class HostMessages {
    private HostMessages() {
    }

    /**
     * A rank as its agent knows it. {@code hostPid} is its pid on the agent's side; {@code rank} is -1 until it has a
     * number; {@code state} is the number of a {@link MemberState}.
     */
    public record Member(String uid, int rank, long pid, long hostPid, long treeRootPid, String program, long epoch,
            byte state) {
        void write(final DataOutput out) throws IOException {
            Fields.string(out, uid);
            out.writeInt(rank);
            out.writeLong(pid);
            out.writeLong(hostPid);
            out.writeLong(treeRootPid);
            Fields.string(out, program);
            out.writeLong(epoch);
            out.writeByte(state);
        }

        static Member read(final DataInput in) throws IOException {
            return new Member(Fields.string(in), in.readInt(), in.readLong(), in.readLong(), in.readLong(),
                    Fields.string(in), in.readLong(), in.readByte());
        }
    }

    /** A process that was launched, and all its descendants. */
    public record Tree(long hostPid, List<String> argv, String cwd) {
        void write(final DataOutput out) throws IOException {
            out.writeLong(hostPid);
            Fields.strings(out, argv);
            Fields.string(out, cwd);
        }

        static Tree read(final DataInput in) throws IOException {
            return new Tree(in.readLong(), Fields.strings(in), Fields.string(in));
        }
    }

    /**
     * First message of an agent, and again to a coordinator that was started anew: all that it must know to
     * go on. {@code epoch} and {@code attempt}: the highest seen; {@code restored}: the members come from images of
     * that epoch. {@code command} starts the agent anew should it be lost; empty where its processes end with it.
     */
    public record AgentHello(int version, String secret, String agentId, String host, long pid, String job,
            long epoch, int attempt, boolean restored, List<Member> members, List<Tree> trees,
            Map<String, String> settings, List<String> command) implements Message {
        @Override
        public byte type() {
            return FrameType.AGENT_HELLO;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(version);
            Fields.string(out, secret);
            Fields.string(out, agentId);
            Fields.string(out, host);
            out.writeLong(pid);
            Fields.string(out, job);
            out.writeLong(epoch);
            out.writeInt(attempt);
            out.writeBoolean(restored);
            writeMembers(out, members);
            writeTrees(out, trees);
            Fields.stringMap(out, settings);
            Fields.strings(out, command);
        }

        static AgentHello read(final DataInput in) throws IOException {
            return new AgentHello(in.readInt(), Fields.string(in), Fields.string(in), Fields.string(in),
                    in.readLong(), Fields.string(in), in.readLong(), in.readInt(), Fields.flag(in), readMembers(in),
                    readTrees(in), Fields.stringMap(in), Fields.strings(in));
        }
    }

    public record AgentWelcome(String job, long epoch, int deadlineSeconds) implements Message {
        @Override
        public byte type() {
            return FrameType.AGENT_WELCOME;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, job);
            out.writeLong(epoch);
            out.writeInt(deadlineSeconds);
        }

        static AgentWelcome read(final DataInput in) throws IOException {
            return new AgentWelcome(Fields.string(in), in.readLong(), in.readInt());
        }
    }

    /** A rank has said hello to its agent. */
    public record RankJoined(Member member) implements Message {
        @Override
        public byte type() {
            return FrameType.RANK_JOINED;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            member.write(out);
        }

        static RankJoined read(final DataInput in) throws IOException {
            return new RankJoined(Member.read(in));
        }
    }

    /** The answer to RANK_JOINED; with a {@code refusal} that is not empty the rank is turned away. */
    public record RankNumber(String uid, int rank, long epoch, int attempt, int deadlineSeconds, String refusal)
            implements Message {
        @Override
        public byte type() {
            return FrameType.RANK_NUMBER;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, uid);
            out.writeInt(rank);
            out.writeLong(epoch);
            out.writeInt(attempt);
            out.writeInt(deadlineSeconds);
            Fields.string(out, refusal);
        }

        static RankNumber read(final DataInput in) throws IOException {
            return new RankNumber(Fields.string(in), in.readInt(), in.readLong(), in.readInt(), in.readInt(),
                    Fields.string(in));
        }
    }

    /** A frame of a rank (type and body), passed on. */
    public record FromRank(String uid, byte[] frame) implements Message {
        @Override
        public byte type() {
            return FrameType.FROM_RANK;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, uid);
            Fields.bytes(out, frame);
        }

        static FromRank read(final DataInput in) throws IOException {
            return new FromRank(Fields.string(in), Fields.bytes(in));
        }
    }

    /** A frame (type and body) for those ranks of the agent, or for all when the list is empty. */
    public record ToRanks(List<String> uids, byte[] frame) implements Message {
        @Override
        public byte type() {
            return FrameType.TO_RANKS;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.strings(out, uids);
            Fields.bytes(out, frame);
        }

        static ToRanks read(final DataInput in) throws IOException {
            return new ToRanks(Fields.strings(in), Fields.bytes(in));
        }
    }

    /**
     * A rank has left. {@code how}: 0 said goodbye, 1 its process is gone without, 2 its link broke and the
     * process lives.
     */
    public record RankGone(String uid, byte how, int status, String text) implements Message {
        @Override
        public byte type() {
            return FrameType.RANK_GONE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, uid);
            out.writeByte(how);
            out.writeInt(status);
            Fields.string(out, text);
        }

        static RankGone read(final DataInput in) throws IOException {
            return new RankGone(Fields.string(in), in.readByte(), in.readInt(), Fields.string(in));
        }
    }

    /** A launched process has come or gone. {@code settings} are what its launch asked for. */
    public record TreeState(Tree tree, boolean alive, Map<String, String> settings) implements Message {
        @Override
        public byte type() {
            return FrameType.TREE_STATE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            tree.write(out);
            out.writeBoolean(alive);
            Fields.stringMap(out, settings);
        }

        static TreeState read(final DataInput in) throws IOException {
            return new TreeState(Tree.read(in), Fields.flag(in), Fields.stringMap(in));
        }
    }

    public record Freeze(long epoch) implements Message {
        @Override
        public byte type() {
            return FrameType.FREEZE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
        }

        static Freeze read(final DataInput in) throws IOException {
            return new Freeze(in.readLong());
        }
    }

    public record Frozen(long epoch, List<String> trees, long nanos) implements Message {
        @Override
        public byte type() {
            return FrameType.FROZEN;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            Fields.strings(out, trees);
            out.writeLong(nanos);
        }

        static Frozen read(final DataInput in) throws IOException {
            return new Frozen(in.readLong(), Fields.strings(in), in.readLong());
        }
    }

    /** Save into this folder, which the agent makes below the checkpoint's. */
    public record Save(long epoch, String folder) implements Message {
        @Override
        public byte type() {
            return FrameType.SAVE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            Fields.string(out, folder);
        }

        static Save read(final DataInput in) throws IOException {
            return new Save(in.readLong(), Fields.string(in));
        }
    }

    /** {@code images}: the host's part of the manifest, JSON. */
    public record Saved(long epoch, long bytes, String images) implements Message {
        @Override
        public byte type() {
            return FrameType.SAVED;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            out.writeLong(bytes);
            Fields.string(out, images);
        }

        static Saved read(final DataInput in) throws IOException {
            return new Saved(in.readLong(), in.readLong(), Fields.string(in));
        }
    }

    /** Let the processes run on and tell them {@code outcome} (resumed, aborted), or end them. */
    public record Thaw(long epoch, int attempt, String outcome, String reason, boolean kill) implements Message {
        @Override
        public byte type() {
            return FrameType.THAW;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            out.writeInt(attempt);
            Fields.string(out, outcome);
            Fields.string(out, reason);
            out.writeBoolean(kill);
        }

        static Thaw read(final DataInput in) throws IOException {
            return new Thaw(in.readLong(), in.readInt(), Fields.string(in), Fields.string(in), Fields.flag(in));
        }
    }

    public record Thawed(long epoch) implements Message {
        @Override
        public byte type() {
            return FrameType.THAWED;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
        }

        static Thawed read(final DataInput in) throws IOException {
            return new Thawed(in.readLong());
        }
    }

    /** {@code step}: FREEZE, SAVE or THAW. */
    public record StepFailed(long epoch, String step, String reason) implements Message {
        @Override
        public byte type() {
            return FrameType.STEP_FAILED;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            Fields.string(out, step);
            Fields.string(out, reason);
        }

        static StepFailed read(final DataInput in) throws IOException {
            return new StepFailed(in.readLong(), Fields.string(in), Fields.string(in));
        }
    }

    /** Send this signal to all processes of the job on this host. */
    public record Terminate(int signal) implements Message {
        @Override
        public byte type() {
            return FrameType.TERMINATE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(signal);
        }

        static Terminate read(final DataInput in) throws IOException {
            return new Terminate(in.readInt());
        }
    }

    public record Quit(String reason) implements Message {
        @Override
        public byte type() {
            return FrameType.QUIT;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, reason);
        }

        static Quit read(final DataInput in) throws IOException {
            return new Quit(Fields.string(in));
        }
    }

    /** What a user asks for. */
    public record Command(int version, String secret, String name, Map<String, String> arguments) implements Message {
        @Override
        public byte type() {
            return FrameType.COMMAND;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(version);
            Fields.string(out, secret);
            Fields.string(out, name);
            Fields.stringMap(out, arguments);
        }

        static Command read(final DataInput in) throws IOException {
            return new Command(in.readInt(), Fields.string(in), Fields.string(in), Fields.stringMap(in));
        }
    }

    /** A line for the user while a command runs. */
    public record Line(String text) implements Message {
        @Override
        public byte type() {
            return FrameType.LINE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, text);
        }

        static Line read(final DataInput in) throws IOException {
            return new Line(Fields.string(in));
        }
    }

    /** The end of a command: its exit status, the line or lines to print, and the same as one JSON object. */
    public record Result(int status, String text, String json) implements Message {
        @Override
        public byte type() {
            return FrameType.RESULT;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(status);
            Fields.string(out, text);
            Fields.string(out, json);
        }

        static Result read(final DataInput in) throws IOException {
            return new Result(in.readInt(), Fields.string(in), Fields.string(in));
        }
    }

    private static void writeMembers(final DataOutput out, final List<Member> list) throws IOException {
        out.writeInt(list.size());
        for (final Member one : list) {
            one.write(out);
        }
    }

    private static List<Member> readMembers(final DataInput in) throws IOException {
        final int n = Fields.count(in, 45);
        final List<Member> list = new ArrayList<>(n);
        for (int i = 0; i < n; i++) {
            list.add(Member.read(in));
        }
        return list;
    }

    private static void writeTrees(final DataOutput out, final List<Tree> list) throws IOException {
        out.writeInt(list.size());
        for (final Tree one : list) {
            one.write(out);
        }
    }

    private static List<Tree> readTrees(final DataInput in) throws IOException {
        final int n = Fields.count(in, 16);
        final List<Tree> list = new ArrayList<>(n);
        for (int i = 0; i < n; i++) {
            list.add(Tree.read(in));
        }
        return list;
    }
}
