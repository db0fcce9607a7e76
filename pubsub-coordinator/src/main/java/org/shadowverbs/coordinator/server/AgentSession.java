// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.shadowverbs.coordinator.protocol.Codec;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.HostMessages.ToRanks;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.LevelMessages.Holder;
import org.shadowverbs.coordinator.protocol.LevelMessages.ImagesAt;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.Outbox;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.Watch;

/** The connection of one agent. What it knows is guarded by the job's lock; sending and closing are for any thread. */
final class AgentSession {
    private final String id;
    private final String host;
    private final long pid;
    private final List<String> command;
    private final List<NetAddress> addresses;
    private final boolean spare;
    private final FrameChannel channel;
    private final Outbox outbox;

    /** Launched processes, by the pid they have on the agent's side. */
    final Map<Long, Tree> trees = new HashMap<>();
    /** The keys that its ranks have asked for in all rounds of a drain so far. */
    final Set<String> wanted = new HashSet<>();
    /** Its connection is gone; it, or another one on its host, may come back for a while. */
    boolean lost;
    /** The processes of the job on its host have been restored there, and end with it. */
    boolean bound;
    /** It still has processes that the job has gone on without. */
    boolean stale;
    /** How many launching commands stay on its host until the job ends. */
    int launchers;
    /** Its ranks that ran, attached to their devices, when it was lost. */
    final Set<String> leftRunning = new HashSet<>();
    /** Where other agents fetch images from it; null: nowhere. */
    private Holder holder;
    /** How far it is with the step that it was last told to do. */
    Step step;

    AgentSession(final AgentHello hello, final FrameChannel channel) {
        id = hello.agentId();
        host = hello.host();
        pid = hello.pid();
        command = hello.command();
        addresses = hello.addresses();
        spare = hello.settings().containsKey(AgentHello.SPARE);
        this.channel = channel;
        outbox = new Outbox(channel, "agent " + hello.host());
        for (final Tree tree : hello.trees()) {
            trees.put(tree.hostPid(), tree);
        }
    }

    String id() {
        return id;
    }

    String host() {
        return host;
    }

    /** Those of its host. */
    List<NetAddress> addresses() {
        return addresses;
    }

    /** Whether its host is kept for when another is lost. */
    boolean spare() {
        return spare;
    }

    /** Other agents fetch images from it there. */
    void imagesAt(final ImagesAt m) {
        holder = new Holder(host, addresses, m.port(), m.token());
    }

    /** Where other agents fetch images from it; null: nowhere. */
    Holder holder() {
        return holder;
    }

    long pid() {
        return pid;
    }

    /** What starts it anew; empty where the processes of the job end with it. */
    List<String> command() {
        return command;
    }

    /** It is lost when its host's kernel has acknowledged nothing for so long. */
    void watch(final int lostAfterMillis) {
        try {
            channel.breaksAfter(lostAfterMillis);
            send(new Watch(lostAfterMillis));
        } catch (IOException e) {
            close(); // it is closed already, which whoever reads from it will see
        }
    }

    void send(final Message message) {
        if (!lost) {
            outbox.send(message);
        }
    }

    /** To those of its ranks, or to all when the list is empty. */
    void toRanks(final List<String> uids, final Message message) {
        toRanks(uids, bare(message));
    }

    /** @param message type and body; it may go to several agents */
    void toRanks(final List<String> uids, final byte[] message) {
        send(new ToRanks(uids, message));
    }

    /** Type and body, without the length. */
    static byte[] bare(final Message message) {
        final byte[] frame = Codec.frame(message);
        return java.util.Arrays.copyOfRange(frame, 4, frame.length);
    }

    void closeAfterSending() {
        outbox.closeAfterSending();
    }

    void close() {
        outbox.close();
        channel.close();
    }

    void join(final long millis) throws InterruptedException {
        outbox.join(millis);
    }

    /** FREEZE, SAVE or THAW, and its answer once that is there. */
    static final class Step {
        final String host;
        final String name;
        final long epoch;
        /** When it was last known to go on, by the epoch's clock, and how far it had come. */
        long heard;
        long done;
        Message answer;

        Step(final String name, final long epoch, final String host, final long now) {
            heard = now;
            this.host = host;
            this.name = name;
            this.epoch = epoch;
        }
    }
}
