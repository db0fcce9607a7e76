// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.process.HostImages;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.protocol.HostMessages.Freeze;
import org.shadowverbs.coordinator.protocol.HostMessages.Frozen;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepare;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepared;
import org.shadowverbs.coordinator.protocol.HostMessages.Save;
import org.shadowverbs.coordinator.protocol.HostMessages.Saved;
import org.shadowverbs.coordinator.protocol.HostMessages.Seal;
import org.shadowverbs.coordinator.protocol.HostMessages.Sealed;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSockets;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.Message;

/** An agent of a host with one program and no ranks that does nothing, and says that it has done all of a checkpoint. */
class FakeAgent {
    static final long BYTES = 5;

    final String name;
    final FrameChannel channel;

    /** @param epoch that its program was restored from; 0: it was launched */
    FakeAgent(final int port, final String name, final long epoch, final List<NetAddress> addresses) throws IOException {
        this.name = name;
        channel = FrameChannel.connect(new InetSocketAddress("localhost", port), 5_000);
        channel.write(new AgentHello(FrameType.VERSION, "", "agent-" + name, name, 1, "", epoch, 0, false, List.of(),
                List.of(new Tree(1, List.of("program"), "/")), Map.of(), List.of(), addresses));
        assertTrue(channel.read() instanceof AgentWelcome);
    }

    /** Answers from now on. */
    final void start() {
        Thread.ofPlatform().daemon().start(() -> {
            try {
                for (;;) {
                    answer(channel.read());
                }
            } catch (IOException e) {
                channel.close(); // the coordinator has ended
            }
        });
    }

    void answer(final Message message) throws IOException {
        switch (message) {
            case Prepare m -> channel.write(new Prepared(m.epoch()));
            case Freeze m -> channel.write(new Frozen(m.epoch(), List.of(), 1, TcpSockets.NONE));
            case Save m -> channel.write(new Saved(m.epoch(), BYTES));
            case Seal m -> channel.write(new Sealed(m.epoch(), BYTES, part()));
            case Thaw m -> channel.write(new Thawed(m.epoch()));
            default -> { }
        }
    }

    /** What the manifest says of its images. */
    final String part() throws IOException {
        return ManifestFile.toJson(new Manifest.HostPart(name, "host-" + name, List.of(), List.of(),
                new HostImages("fake", name, "0", "cpu", List.of(), List.of(), BYTES, 1, 1), List.of()));
    }
}
