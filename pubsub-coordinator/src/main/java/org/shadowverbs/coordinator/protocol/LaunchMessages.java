// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.util.List;
import java.util.Map;

/** What {@code launch} says to the agent before it becomes the program. */
public final class LaunchMessages {
    /** The messages by the type of their frames. */
    static final Map<Byte, Class<? extends Message>> TYPES = Map.ofEntries(
            Map.entry(FrameType.REGISTER_TREE, RegisterTree.class),
            Map.entry(FrameType.REGISTERED, Registered.class));

    private LaunchMessages() {
    }

    /** {@code settings}: ckptdir, interval and the like, only those that were given. */
    public record RegisterTree(int version, String secret, long pid, List<String> argv, String cwd,
            Map<String, String> settings) implements Message {
    }

    public record Registered(String job) implements Message {
    }
}
