// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.UnknownFieldSet;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The sockets in an image of open files, by the bytes that CRIU writes. */
class SocketImagesTest {
    private static final int INET = 2;
    private static final int INET6 = 10;
    private static final int TCP = 6;
    private static final int UDP = 17;
    private static final long DROP_ALL = 6L << 48;

    @TempDir
    private Path folder;

    @BeforeEach
    void inventory() throws IOException {
        image("inventory.img", List.of(varint(1, 1L)), 0x58313116);
    }

    private void image(final String name, final List<UnknownFieldSet> entries, final int... magic) throws IOException {
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (final int number : magic) {
            out.write(word(number));
        }
        for (final UnknownFieldSet entry : entries) {
            out.write(word(entry.getSerializedSize()));
            out.write(entry.toByteArray());
        }
        Files.write(folder.resolve(name), out.toByteArray());
    }

    private static byte[] word(final int value) {
        return ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(value).array();
    }

    private void files(final UnknownFieldSet... entries) throws IOException {
        image("files.img", List.of(entries), 0x54564319, 0x56303138);
    }

    private static UnknownFieldSet varint(final int field, final long value) {
        return set(field, UnknownFieldSet.Field.newBuilder().addVarint(value).build());
    }

    private static UnknownFieldSet set(final int field, final UnknownFieldSet.Field value) {
        return UnknownFieldSet.newBuilder().addField(field, value).build();
    }

    private static UnknownFieldSet message(final int field, final UnknownFieldSet message) {
        return set(field, UnknownFieldSet.Field.newBuilder().addLengthDelimited(message.toByteString()).build());
    }

    private static UnknownFieldSet all(final UnknownFieldSet... parts) {
        final UnknownFieldSet.Builder all = UnknownFieldSet.newBuilder();
        for (final UnknownFieldSet part : parts) {
            all.mergeFrom(part);
        }
        return all.build();
    }

    private static UnknownFieldSet address(final int field, final String text) throws IOException {
        final ByteBuffer bytes = ByteBuffer.wrap(raw(text)).order(ByteOrder.LITTLE_ENDIAN);
        final UnknownFieldSet.Field.Builder words = UnknownFieldSet.Field.newBuilder();
        while (bytes.hasRemaining()) {
            words.addVarint(Integer.toUnsignedLong(bytes.getInt()));
        }
        return set(field, words.build());
    }

    /** "::ffff:a.b.c.d" is an IPv4 address to Java. */
    private static byte[] raw(final String text) throws IOException {
        final byte[] address = InetAddress.ofLiteral(text).getAddress();
        if (!text.startsWith("::ffff:")) {
            return address;
        }
        final byte[] mapped = new byte[16];
        mapped[10] = -1;
        mapped[11] = -1;
        System.arraycopy(address, 0, mapped, 12, 4);
        return mapped;
    }

    private static UnknownFieldSet socket(final int family, final int protocol, final String local, final int localPort,
            final String remote, final int remotePort, final UnknownFieldSet options) throws IOException {
        return message(4, all(varint(1, 77), varint(2, 99), varint(3, family), varint(5, protocol), varint(6, 1), varint(7, localPort),
                varint(8, remotePort), address(11, local), address(12, remote), message(14, options), varint(999, 5)));
    }

    private static UnknownFieldSet entry(final UnknownFieldSet socket) {
        return all(varint(1, 4), varint(2, 77), socket);
    }

    private List<TcpConnection> asking;

    /** Inode of a socket that asked whether the other end is alive. */
    private static final long ASKS = 88;
    private static final long SYN_SENT = 2;
    private static final UnknownFieldSet OPTIONS = varint(1, 4096);
    private static final UnknownFieldSet HELD = all(OPTIONS,
            set(16, UnknownFieldSet.Field.newBuilder().addFixed64(DROP_ALL).build()));

    /** The socket as one with another inode and state. */
    private static UnknownFieldSet with(final UnknownFieldSet socket, final long inode, final long state, final UnknownFieldSet options)
            throws IOException {
        return message(4, UnknownFieldSet.newBuilder(UnknownFieldSet.parseFrom(socket.getField(4).getLengthDelimitedList().getFirst()))
                .clearField(2).mergeFrom(varint(2, inode)).clearField(6).mergeFrom(varint(6, state))
                .clearField(14).mergeFrom(message(14, options)).build());
    }

    private byte[] moved(final SocketMoves moves) throws IOException {
        final Path to = folder.resolve("moved.img");
        asking = SocketImages.move(folder, moves, Set.of(ASKS), to);
        return Files.readAllBytes(to);
    }

    private byte[] expected(final UnknownFieldSet... entries) throws IOException {
        files(entries);
        return Files.readAllBytes(folder.resolve("files.img"));
    }

    @Test
    void whatDoesNotMoveIsTheSameByteForByte() throws IOException {
        final UnknownFieldSet file = all(varint(1, 1), varint(2, 3), message(3, varint(8, 9)));
        files(file, entry(socket(INET, TCP, "10.0.0.1", 40000, "10.0.0.2", 80, OPTIONS)));
        assertArrayEquals(Files.readAllBytes(folder.resolve("files.img")), moved(SocketMoves.NONE));
    }

    @Test
    void theFilterThatHeldItIsGoneAndTheProgramsOwnIsNot() throws IOException {
        final UnknownFieldSet own = all(OPTIONS, set(16, UnknownFieldSet.Field.newBuilder().addFixed64(DROP_ALL + 1).build()));
        files(entry(socket(INET, TCP, "10.0.0.1", 1, "10.0.0.2", 2, HELD)),
                entry(socket(INET, TCP, "10.0.0.1", 3, "10.0.0.2", 4, own)));
        final byte[] moved = moved(SocketMoves.NONE);
        assertArrayEquals(expected(entry(socket(INET, TCP, "10.0.0.1", 1, "10.0.0.2", 2, OPTIONS)),
                entry(socket(INET, TCP, "10.0.0.1", 3, "10.0.0.2", 4, own))), moved);
    }

    /** Nobody answers before all are there: tcp-release.c makes it ask then. One that is being connected asks nobody. */
    @Test
    void oneThatAskedWhetherTheOtherEndIsAliveAsksAgainWhenAllAreThere() throws IOException {
        final UnknownFieldSet silent = all(OPTIONS, varint(19, 0));
        final UnknownFieldSet socket = socket(INET, TCP, "10.0.0.1", 1, "10.0.0.2", 2, silent);
        files(entry(socket), entry(with(socket, ASKS, 1, silent)), entry(with(socket, ASKS, SYN_SENT, silent)));
        final byte[] moved = moved(new SocketMoves(Map.of(), Map.of(), Map.of("10.0.0.2", "10.0.0.3")));
        assertEquals(List.of(new TcpConnection("10.0.0.1", 1, "10.0.0.3", 2)), asking);
        final UnknownFieldSet there = socket(INET, TCP, "10.0.0.1", 1, "10.0.0.3", 2, silent);
        assertArrayEquals(expected(entry(there), entry(with(there, ASKS, 1, silent)),
                entry(with(there, ASKS, SYN_SENT, all(OPTIONS, varint(19, 1))))), moved);
    }

    @Test
    void connectionsListenersAndOthersMoveEachByItsOwnRule() throws IOException {
        files(entry(socket(INET, TCP, "10.0.0.1", 1, "10.0.0.2", 2, OPTIONS)),
                entry(socket(INET, TCP, "0.0.0.0", 1024, "0.0.0.0", 0, OPTIONS)),
                entry(socket(INET, UDP, "10.0.0.1", 53, "0.0.0.0", 0, OPTIONS)),
                entry(socket(INET6, TCP, "::ffff:10.0.0.1", 5, "::ffff:10.0.0.2", 6, OPTIONS)),
                entry(socket(INET6, TCP, "fd00::1", 7, "fd00::2", 8, OPTIONS)));
        final byte[] moved = moved(new SocketMoves(
                Map.of(new TcpConnection("10.0.0.1", 1, "10.0.0.2", 2), new TcpConnection("10.1.0.1", 11, "10.1.0.2", 12)),
                Map.of(new TcpListener("0.0.0.0", 1024), new TcpListener("0.0.0.0", 61001)),
                Map.of("10.0.0.1", "10.1.0.1", "10.0.0.2", "10.1.0.2", "fd00:0:0:0:0:0:0:1", "fd01:0:0:0:0:0:0:1")));
        assertArrayEquals(expected(entry(socket(INET, TCP, "10.1.0.1", 11, "10.1.0.2", 12, OPTIONS)),
                entry(socket(INET, TCP, "0.0.0.0", 61001, "0.0.0.0", 0, OPTIONS)),
                entry(socket(INET, UDP, "10.1.0.1", 53, "0.0.0.0", 0, OPTIONS)),
                entry(socket(INET6, TCP, "::ffff:10.1.0.1", 5, "::ffff:10.1.0.2", 6, OPTIONS)),
                entry(socket(INET6, TCP, "fd01::1", 7, "fd00::2", 8, OPTIONS))), moved);
    }

    @Test
    void imagesThatAreNotKnownAreRefused() throws IOException {
        files();
        image("inventory.img", List.of(varint(1, 3L)), 0x58313116);
        assertTrue(assertThrows(IOException.class, () -> moved(SocketMoves.NONE)).getMessage().contains("version [3]"));
        image("inventory.img", List.of(varint(1, 2L)), 0x58313116);
        image("files.img", List.of(), 0x54564319, 1);
        assertTrue(assertThrows(IOException.class, () -> moved(SocketMoves.NONE)).getMessage()
                .endsWith("files.img is no image of CRIU's"));
        files(entry(socket(INET, TCP, "10.0.0.1", 1, "10.0.0.2", 2, OPTIONS)));
        final Path file = folder.resolve("files.img");
        final byte[] whole = Files.readAllBytes(file);
        Files.write(file, java.util.Arrays.copyOf(whole, whole.length - 1));
        assertTrue(assertThrows(IOException.class, () -> moved(SocketMoves.NONE)).getMessage().contains("is damaged"));
        files(entry(socket(INET, TCP, "10.0.0.1", 1, "10.0.0.2", 2, OPTIONS)));
        assertEquals("an IPv4 socket cannot be moved to fd00::1", assertThrows(IOException.class, () -> moved(
                new SocketMoves(Map.of(), Map.of(), Map.of("10.0.0.1", "fd00::1")))).getMessage());
    }
}
