// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** What goes between the coordinator and each {@code restart} of a job that is restored on several hosts. */
public final class RestartMessages {
    private RestartMessages() {
    }

    /**
     * What can be restored by itself: the programs of a source host, or those of them that are connected.
     *
     * @param host that it ran on
     * @param ranks their numbers
     * @param readable whether the host that says this has its images
     */
    public record Portion(String host, List<Integer> ranks, boolean readable) {
        void write(final DataOutput out) throws IOException {
            Fields.string(out, host);
            Fields.ints(out, ranks);
            out.writeBoolean(readable);
        }

        static Portion read(final DataInput in) throws IOException {
            return new Portion(Fields.string(in), Fields.ints(in), Fields.flag(in));
        }
    }

    /**
     * First message of a restart that is one of several.
     *
     * @param host this host's name
     * @param pid of the restart, which is the agent that its share comes by
     * @param hosts how many restarts there are to be
     * @param checkpoint the name of its folder
     * @param checksum of its manifest
     * @param portions all that the checkpoint has, in the manifest's order
     * @param from the source hosts that this host is to take over; empty: whatever is left
     */
    public record RestartJoin(int version, String secret, String host, long pid, int hosts, String checkpoint,
            String checksum, List<Portion> portions, List<String> from) implements Message {
        @Override
        public byte type() {
            return FrameType.RESTART_JOIN;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            out.writeInt(version);
            Fields.string(out, secret);
            Fields.string(out, host);
            out.writeLong(pid);
            out.writeInt(hosts);
            Fields.string(out, checkpoint);
            Fields.string(out, checksum);
            out.writeInt(portions.size());
            for (final Portion portion : portions) {
                portion.write(out);
            }
            Fields.strings(out, from);
        }

        static RestartJoin read(final DataInput in) throws IOException {
            return new RestartJoin(in.readInt(), Fields.string(in), Fields.string(in), in.readLong(), in.readInt(),
                    Fields.string(in), Fields.string(in), portions(in), Fields.strings(in));
        }

        private static List<Portion> portions(final DataInput in) throws IOException {
            final int n = Fields.count(in, 9);
            final List<Portion> list = new ArrayList<>(n);
            for (int i = 0; i < n; i++) {
                list.add(Portion.read(in));
            }
            return list;
        }
    }

    /** The portions that this host is to restore, by their place in RESTART_JOIN. */
    public record RestartShare(List<Integer> portions) implements Message {
        @Override
        public byte type() {
            return FrameType.RESTART_SHARE;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.ints(out, portions);
        }

        static RestartShare read(final DataInput in) throws IOException {
            return new RestartShare(Fields.ints(in));
        }
    }

    /** The end of the restart: from the coordinator for all, or from a host that can't do its share. */
    public record RestartEnd(String problem) implements Message {
        @Override
        public byte type() {
            return FrameType.RESTART_END;
        }

        @Override
        public void write(final DataOutput out) throws IOException {
            Fields.string(out, problem);
        }

        static RestartEnd read(final DataInput in) throws IOException {
            return new RestartEnd(Fields.string(in));
        }
    }
}
