// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.List;
import java.util.ArrayList;
import java.util.Map;
import java.util.Set;

/** What goes between a rank and its agent; inside FROM_RANK and TO_RANKS also between agent and coordinator. */
public final class RankMessages {
    private RankMessages() {
    }

    /** First message of a rank. {@code state}: 0 fresh, 1 reattaching after a checkpoint, an abort or a restart. */
    public record Hello(int version, String secret, String uid, long pid, long treeRootPid, String program, long epoch,
            byte state) implements Message {
        @Override
        public byte type() {
            return FrameType.HELLO;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(version);
            Fields.string(out, secret);
            Fields.string(out, uid);
            out.writeLong(pid);
            out.writeLong(treeRootPid);
            Fields.string(out, program);
            out.writeLong(epoch);
            out.writeByte(state);
        }

        static Hello read(final DataInput in) throws IOException {
            return new Hello(in.readInt(), Fields.string(in), Fields.string(in), in.readLong(), in.readLong(),
                    Fields.string(in), in.readLong(), in.readByte());
        }
    }

    /** {@code attempt}: of the reattachment that goes on, which the rank's contributions belong to. */
    public record Welcome(int rank, String job, long epoch, int attempt, int deadlineSeconds, String verdictPipe)
            implements Message {
        @Override
        public byte type() {
            return FrameType.WELCOME;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(rank);
            Fields.string(out, job);
            out.writeLong(epoch);
            out.writeInt(attempt);
            out.writeInt(deadlineSeconds);
            Fields.string(out, verdictPipe);
        }

        static Welcome read(final DataInput in) throws IOException {
            return new Welcome(in.readInt(), Fields.string(in), in.readLong(), in.readInt(), in.readInt(),
                    Fields.string(in));
        }
    }

    /** The answer to any hello that can't be accepted; the connection is closed after it. */
    public record Refused(String reason) implements Message {
        @Override
        public byte type() {
            return FrameType.REFUSED;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, reason);
        }

        static Refused read(final DataInput in) throws IOException {
            return new Refused(Fields.string(in));
        }
    }

    public record Checkpoint(long epoch, int deadlineSeconds, Map<String, String> options) implements Message {
        @Override
        public byte type() {
            return FrameType.CHECKPOINT;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            out.writeInt(deadlineSeconds);
            Fields.stringMap(out, options);
        }

        static Checkpoint read(final DataInput in) throws IOException {
            return new Checkpoint(in.readLong(), in.readInt(), Fields.stringMap(in));
        }
    }

    /** {@code attempt} counts the reattachments of an epoch: what was sent for one that was given up is dropped. */
    public record Contribute(long epoch, int attempt, byte phase, int round, Map<String, byte[]> publish,
            Set<String> want, boolean agree, String note) implements Message {
        @Override
        public byte type() {
            return FrameType.CONTRIBUTE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            out.writeInt(attempt);
            out.writeByte(phase);
            out.writeInt(round);
            Fields.byteMap(out, publish);
            Fields.strings(out, want);
            out.writeBoolean(agree);
            Fields.string(out, note);
        }

        static Contribute read(final DataInput in) throws IOException {
            return new Contribute(in.readLong(), in.readInt(), in.readByte(), in.readInt(), Fields.byteMap(in),
                    Fields.stringSet(in), Fields.flag(in), Fields.string(in));
        }
    }

    public record Answer(long epoch, int attempt, byte phase, int round, Map<String, byte[]> found,
            boolean unanimous, int ranks, List<Integer> departed) implements Message {
        @Override
        public byte type() {
            return FrameType.REPLY;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            out.writeInt(attempt);
            out.writeByte(phase);
            out.writeInt(round);
            Fields.byteMap(out, found);
            out.writeBoolean(unanimous);
            out.writeInt(ranks);
            Fields.ints(out, departed);
        }

        static Answer read(final DataInput in) throws IOException {
            return new Answer(in.readLong(), in.readInt(), in.readByte(), in.readInt(), Fields.byteMap(in),
                    Fields.flag(in), in.readInt(), Fields.ints(in));
        }
    }

    /** The checkpoint of this epoch is given up; with {@code reattach} every rank goes through the reattachment. */
    public record Abort(long epoch, int attempt, boolean reattach, String reason) implements Message {
        @Override
        public byte type() {
            return FrameType.ABORT;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            out.writeInt(attempt);
            out.writeBoolean(reattach);
            Fields.string(out, reason);
        }

        static Abort read(final DataInput in) throws IOException {
            return new Abort(in.readLong(), in.readInt(), Fields.flag(in), Fields.string(in));
        }
    }

    public record Detached(long epoch) implements Message {
        @Override
        public byte type() {
            return FrameType.DETACHED;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
        }

        static Detached read(final DataInput in) throws IOException {
            return new Detached(in.readLong());
        }
    }

    public record Done(long epoch) implements Message {
        @Override
        public byte type() {
            return FrameType.DONE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
        }

        static Done read(final DataInput in) throws IOException {
            return new Done(in.readLong());
        }
    }

    public record Fail(long epoch, byte phase, String message) implements Message {
        @Override
        public byte type() {
            return FrameType.FAIL;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            out.writeByte(phase);
            Fields.string(out, message);
        }

        static Fail read(final DataInput in) throws IOException {
            return new Fail(in.readLong(), in.readByte(), Fields.string(in));
        }
    }

    /** {@code waitingFor} names the object and the peer that a rank waits for: a deadline that passes repeats it. */
    public record Progress(long epoch, byte phase, long done, long total, String waitingFor) implements Message {
        @Override
        public byte type() {
            return FrameType.PROGRESS;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeLong(epoch);
            out.writeByte(phase);
            out.writeLong(done);
            out.writeLong(total);
            Fields.string(out, waitingFor);
        }

        static Progress read(final DataInput in) throws IOException {
            return new Progress(in.readLong(), in.readByte(), in.readLong(), in.readLong(), Fields.string(in));
        }
    }

    public record Goodbye(int status) implements Message {
        @Override
        public byte type() {
            return FrameType.GOODBYE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(status);
        }

        static Goodbye read(final DataInput in) throws IOException {
            return new Goodbye(in.readInt());
        }
    }

    public record Publish(Map<String, byte[]> values) implements Message {
        @Override
        public byte type() {
            return FrameType.PUBLISH;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.byteMap(out, values);
        }

        static Publish read(final DataInput in) throws IOException {
            return new Publish(Fields.byteMap(in));
        }
    }

    public record Lookup(int id, Set<String> keys) implements Message {
        @Override
        public byte type() {
            return FrameType.LOOKUP;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(id);
            Fields.strings(out, keys);
        }

        static Lookup read(final DataInput in) throws IOException {
            return new Lookup(in.readInt(), Fields.stringSet(in));
        }
    }

    public record Found(int id, Map<String, byte[]> values) implements Message {
        @Override
        public byte type() {
            return FrameType.FOUND;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(id);
            Fields.byteMap(out, values);
        }

        static Found read(final DataInput in) throws IOException {
            return new Found(in.readInt(), Fields.byteMap(in));
        }
    }

    public record Shutdown(String reason) implements Message {
        @Override
        public byte type() {
            return FrameType.SHUTDOWN;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, reason);
        }

        static Shutdown read(final DataInput in) throws IOException {
            return new Shutdown(Fields.string(in));
        }
    }

    /** The agent is to take a socket of the rank's, by its descriptor there, and to hold it while the image is made. */
    public record Hold(int socket) implements Message {
        @Override
        public byte type() {
            return FrameType.HOLD;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(socket);
        }

        static Hold read(final DataInput in) throws IOException {
            return new Hold(in.readInt());
        }
    }

    /** The agent is to send what it holds through this other socket of the rank's, and to hold it no more. */
    public record GiveBack(int socket) implements Message {
        @Override
        public byte type() {
            return FrameType.GIVE_BACK;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(socket);
        }

        static GiveBack read(final DataInput in) throws IOException {
            return new GiveBack(in.readInt());
        }
    }

    /** The answer to both; {@code problem} is empty when it was done. */
    public record Held(String problem) implements Message {
        @Override
        public byte type() {
            return FrameType.HELD;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, problem);
        }

        static Held read(final DataInput in) throws IOException {
            return new Held(Fields.string(in));
        }
    }

    /** Of one rank to another, by number: bytes that only they understand. Lost when that rank is not there. */
    public record Tell(int to, byte[] what) implements Message {
        @Override
        public byte type() {
            return FrameType.TELL;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(to);
            Fields.bytes(out, what);
        }

        static Tell read(final DataInput in) throws IOException {
            return new Tell(in.readInt(), Fields.bytes(in));
        }
    }

    /** What a TELL arrives as. */
    public record Told(int from, byte[] what) implements Message {
        @Override
        public byte type() {
            return FrameType.TOLD;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(from);
            Fields.bytes(out, what);
        }

        static Told read(final DataInput in) throws IOException {
            return new Told(in.readInt(), Fields.bytes(in));
        }
    }

    /** What others are to be told when the rank's process has ended, however; in place of what it left before. */
    public record LastWill(List<Tell> tells) implements Message {
        @Override
        public byte type() {
            return FrameType.LAST_WILL;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(tells.size());
            for (final Tell tell : tells) {
                tell.write(out);
            }
        }

        static LastWill read(final DataInput in) throws IOException {
            final int n = Fields.count(in, 8);
            final List<Tell> tells = new ArrayList<>(n);
            for (int i = 0; i < n; i++) {
                tells.add(Tell.read(in));
            }
            return new LastWill(tells);
        }
    }
}
