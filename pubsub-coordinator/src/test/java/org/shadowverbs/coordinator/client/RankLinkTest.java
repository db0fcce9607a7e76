// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class RankLinkTest {
    /** The rank tries again then; a refusal would be for good. */
    @Test
    void anAgentThatIsKilledRefusesNobody(@TempDir final Path folder) throws Exception {
        final Path socket = folder.resolve("agent.sock");
        try (ServerSocketChannel agent = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            agent.bind(UnixDomainSocketAddress.of(socket));
            final Thread killed = Thread.ofPlatform().start(() -> {
                try (SocketChannel rank = agent.accept()) {
                    rank.read(ByteBuffer.allocate(1)); // closing with the rest unread resets the connection
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
            assertThrows(LinkLostException.class, () -> RankLink.connect(socket,
                    new RankHello("u", 1, 1, "p", 0, RankHello.State.FRESH, -1), Duration.ofSeconds(30), (from, what) -> { }));
            killed.join();
        }
    }
}
