// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;

/** What goes between the coordinator and each {@code restart} of a job that is restored on several hosts. */
public final class RestartMessages {
    /** The messages by the type of their frames. */
    static final Map<Byte, Class<? extends Message>> TYPES = Map.ofEntries(
            Map.entry(FrameType.RESTART_JOIN, RestartJoin.class),
            Map.entry(FrameType.RESTART_SHARE, RestartShare.class),
            Map.entry(FrameType.RESTART_END, RestartEnd.class));

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
     * @param addresses those of this host
     */
    public record RestartJoin(int version, String secret, String host, long pid, int hosts, String checkpoint,
            String checksum, List<Portion> portions, List<String> from, List<NetAddress> addresses) implements Message {
    }

    /** The portions that a host is to restore, by their place in RESTART_JOIN. */
    public record Share(String host, List<Integer> portions, List<NetAddress> addresses) {
    }

    /** What each host restores; {@code own}: the place of the host that this is for. */
    public record RestartShare(int own, List<Share> shares) implements Message {
    }

    /** The end of the restart: from the coordinator for all, or from a host that can't do its share. */
    public record RestartEnd(String problem) implements Message {
    }
}
