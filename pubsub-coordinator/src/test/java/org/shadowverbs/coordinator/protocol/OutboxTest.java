// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.coordinator.protocol.HostMessages.FromRank;
import org.shadowverbs.coordinator.protocol.HostMessages.Terminate;
import org.shadowverbs.coordinator.protocol.HostMessages.ToRanks;
import org.shadowverbs.coordinator.protocol.RankMessages.Notify;

@Timeout(60)
class OutboxTest {
    private Path folder;
    private ServerSocketChannel listener;
    private FrameChannel near;
    private FrameChannel far;

    @BeforeEach
    void connect() throws IOException {
        folder = Files.createTempDirectory("sv-test");
        listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        listener.bind(UnixDomainSocketAddress.of(folder.resolve("socket")));
        near = FrameChannel.connect(folder.resolve("socket"));
        far = new FrameChannel(listener.accept());
    }

    @AfterEach
    void close() throws IOException {
        near.close();
        far.close();
        listener.close();
        Files.delete(folder.resolve("socket"));
        Files.delete(folder);
    }

    /** What is passed on within a message is not copied, and comes as if it had been. */
    @Test
    void aLongMessageInPartsIsTheSameAsInOne() throws Exception {
        try (Outbox outbox = new Outbox(near, "test")) {
            for (final int length : new int[] {0, 4095, 4096, 1 << 20}) {
                final byte[] frame = new byte[length];
                Arrays.fill(frame, (byte) length);
                outbox.send(new FromRank("a", frame));
                outbox.send(Codec.frame(new ToRanks(List.of("a", "b"), frame)));
                assertArrayEquals(frame, assertInstanceOf(FromRank.class, far.read()).frame());
                final ToRanks message = assertInstanceOf(ToRanks.class, far.read());
                assertArrayEquals(frame, message.frame());
                assertEquals(List.of("a", "b"), message.uids());
            }
        }
    }

    @Test
    void aMessageThatIsTooLongFailsWhereItIsSentAndNoOtherDoes() throws Exception {
        try (Outbox outbox = new Outbox(near, "test")) {
            outbox.send(new Terminate(1));
            assertEquals("message of type 44 has 67108874 bytes, more than 67108864",
                    assertThrows(IllegalArgumentException.class,
                            () -> outbox.send(new FromRank("a", new byte[FrameType.MAX_FRAME]))).getMessage());
            outbox.send(new Terminate(2));
            assertEquals(1, assertInstanceOf(Terminate.class, far.read()).signal());
            assertEquals(2, assertInstanceOf(Terminate.class, far.read()).signal());
        }
    }

    /** Else the agent could not pass it on, and would have to say so to a rank that waits for an answer. */
    @Test
    void aRanksMessageThatCouldNotBePassedOnFailsAtTheRank() {
        final Notify tooLong = new Notify(1, new byte[FrameType.MAX_PASSED_ON]);
        assertEquals("message of type 26 has 66060297 bytes, more than 66060288",
                assertThrows(IllegalArgumentException.class, () -> Codec.frame(tooLong)).getMessage());
    }

    @Test
    void aSenderThatFailsClosesTheLinkAndSaysWhy() throws Exception {
        try (FrameChannel never = new FrameChannel(SocketChannel.open(StandardProtocolFamily.UNIX));
                Outbox outbox = new Outbox(never, "test")) {
            outbox.send(new Terminate(1));
            outbox.join(60_000);
            assertFalse(never.isOpen());
            assertEquals("sending failed: java.nio.channels.NotYetConnectedException",
                    assertThrows(IOException.class, never::read).getMessage());
        }
    }
}
