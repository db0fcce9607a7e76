// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.List;
import java.util.Map;

/** What {@code launch} says to the agent before it becomes the program. */
public final class LaunchMessages {
    private LaunchMessages() {
    }

    /** {@code settings}: ckptdir, interval and the like, only those that were given. */
    public record RegisterTree(int version, String secret, long pid, List<String> argv, String cwd,
            Map<String, String> settings) implements Message {
        @Override
        public byte type() {
            return FrameType.REGISTER_TREE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(version);
            Fields.string(out, secret);
            out.writeLong(pid);
            Fields.strings(out, argv);
            Fields.string(out, cwd);
            Fields.stringMap(out, settings);
        }

        static RegisterTree read(final DataInput in) throws IOException {
            return new RegisterTree(in.readInt(), Fields.string(in), in.readLong(), Fields.strings(in),
                    Fields.string(in), Fields.stringMap(in));
        }
    }

    public record Registered(String job) implements Message {
        @Override
        public byte type() {
            return FrameType.REGISTERED;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, job);
        }

        static Registered read(final DataInput in) throws IOException {
            return new Registered(Fields.string(in));
        }
    }
}
