// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.UnknownFieldSet;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;

/**
 * The sockets in CRIU's image of open files, which can be given other addresses and ports. Fields are named by their numbers, as
 * docs/IMAGES.md lists them, and what is not named goes through as it is.
 */
final class SocketImages {
    /** The image of open files. */
    static final String FILES = "files.img";

    private static final String INVENTORY = "inventory.img";
    private static final int IMAGE_MAGIC = 0x54564319;
    private static final int FILES_MAGIC = 0x56303138;
    private static final int INVENTORY_MAGIC = 0x58313116;

    // inventory_entry
    private static final int IMG_VERSION = 1;
    /** CRIU's since its release 1.4; before, sockets were in files of their own. */
    private static final List<Long> KNOWN_VERSIONS = List.of(1L, 2L);

    // file_entry
    private static final int FILE_SOCKET = 4;

    // inet_sk_entry
    private static final int SOCKET_INODE = 2;
    private static final int SOCKET_FAMILY = 3;
    private static final int SOCKET_PROTOCOL = 5;
    private static final int SOCKET_STATE = 6;
    private static final int SOCKET_SOURCE_PORT = 7;
    private static final int SOCKET_DESTINATION_PORT = 8;
    private static final int SOCKET_SOURCE = 11;
    private static final int SOCKET_DESTINATION = 12;
    private static final int SOCKET_OPTIONS = 14;

    // sk_opts_entry
    private static final int OPTION_FILTER = 16;
    private static final int OPTION_KEEPALIVE = 19;
    /** The one instruction that tcp-hold.c attaches: return 0. CRIU writes it as one number, with the code on top. */
    private static final List<Long> DROP_ALL = List.of(0x06L << 48);

    private static final int IPPROTO_TCP = 6;
    // include/net/tcp_states.h
    private static final long SYN_SENT = 2;
    private static final long CLOSED = 7;
    private static final int VERSION_4_BYTES = 4;
    private static final int VERSION_6_BYTES = 16;
    private static final int AF_INET = 2;
    private static final byte[] MAPPED = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1};

    private SocketImages() {
    }

    /**
     * Writes the image of open files anew, with sockets where they are to be, and without what held their connections.
     *
     * @param images what CRIU has written
     * @param alive inodes of sockets that ask whether the other end is alive, which they did not while they were held
     * @param target the file to write
     * @return the connections of those, where they are to be: the image has them as they were while they were held, for nobody answers
     *     before all are there
     * @throws IOException if the image can't be read, or is one that this does not know
     */
    static List<TcpConnection> move(final Path images, final SocketMoves moves, final Set<Long> alive, final Path target)
            throws IOException {
        checkVersion(images);
        final ByteBuffer image = read(images.resolve(FILES), IMAGE_MAGIC, FILES_MAGIC);
        final List<TcpConnection> asking = new ArrayList<>();
        final ByteArrayOutputStream out = new ByteArrayOutputStream(image.capacity());
        out.write(image.array(), 0, image.position());
        while (image.hasRemaining()) {
            final byte[] entry = next(image, images.resolve(FILES));
            final byte[] moved = entry(UnknownFieldSet.parseFrom(entry), moves, alive, asking);
            out.write(ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN).putInt(moved.length).array());
            out.write(moved);
        }
        Files.write(target, out.toByteArray());
        return asking;
    }

    private static void checkVersion(final Path images) throws IOException {
        final ByteBuffer inventory = read(images.resolve(INVENTORY), INVENTORY_MAGIC);
        final UnknownFieldSet entry = UnknownFieldSet.parseFrom(next(inventory, images.resolve(INVENTORY)));
        final List<Long> versions = entry.getField(IMG_VERSION).getVarintList();
        if (versions.size() != 1 || !KNOWN_VERSIONS.contains(versions.getFirst())) {
            throw new IOException(images + " has images of version " + versions + "; sockets can be moved in those of versions "
                    + KNOWN_VERSIONS);
        }
    }

    /** Images begin with a number that all have but the inventory, and one of their own kind. */
    private static ByteBuffer read(final Path file, final int... magic) throws IOException {
        final ByteBuffer image = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
        for (final int expected : magic) {
            if (image.remaining() < Integer.BYTES || image.getInt() != expected) {
                throw new IOException(file + " is no image of CRIU's");
            }
        }
        return image;
    }

    private static byte[] next(final ByteBuffer image, final Path file) throws IOException {
        final int size = image.remaining() < Integer.BYTES ? -1 : image.getInt();
        if (size < 0 || size > image.remaining()) {
            throw new IOException(file + " is damaged: an entry of " + size + " bytes where there are " + image.remaining());
        }
        final byte[] entry = new byte[size];
        image.get(entry);
        return entry;
    }

    private static byte[] entry(final UnknownFieldSet entry, final SocketMoves moves, final Set<Long> alive,
            final List<TcpConnection> asking) throws IOException {
        if (!entry.hasField(FILE_SOCKET)) {
            return entry.toByteArray();
        }
        final UnknownFieldSet.Builder changed = UnknownFieldSet.newBuilder(entry);
        set(changed, FILE_SOCKET, message(socket(message(entry, FILE_SOCKET), moves, alive, asking)));
        return changed.build().toByteArray();
    }

    private static UnknownFieldSet socket(final UnknownFieldSet socket, final SocketMoves moves, final Set<Long> alive,
            final List<TcpConnection> asking) throws IOException {
        final String local = address(socket, SOCKET_SOURCE);
        final String remote = address(socket, SOCKET_DESTINATION);
        final int localPort = (int) number(socket, SOCKET_SOURCE_PORT);
        final int remotePort = (int) number(socket, SOCKET_DESTINATION_PORT);
        final TcpConnection moved;
        if (number(socket, SOCKET_PROTOCOL) != IPPROTO_TCP) {
            moved = new TcpConnection(moves.of(local), localPort, moves.of(remote), remotePort);
        } else if (remotePort != 0) {
            moved = moves.of(new TcpConnection(local, localPort, remote, remotePort));
        } else {
            final TcpListener listener = moves.of(new TcpListener(local, localPort));
            moved = new TcpConnection(listener.address(), listener.port(), remote, remotePort);
        }
        final UnknownFieldSet.Builder changed = UnknownFieldSet.newBuilder(socket);
        set(changed, SOCKET_SOURCE, address(socket, moved.localAddress()));
        set(changed, SOCKET_SOURCE_PORT, number(moved.localPort()));
        if (remotePort != 0) {
            set(changed, SOCKET_DESTINATION, address(socket, moved.remoteAddress()));
            set(changed, SOCKET_DESTINATION_PORT, number(moved.remotePort()));
        }
        final long state = number(socket, SOCKET_STATE);
        final boolean asks = alive.contains(number(socket, SOCKET_INODE));
        final boolean hasPeer = state != SYN_SENT && state != CLOSED; // else it asks nobody now
        if (asks && hasPeer) {
            asking.add(moved);
        }
        set(changed, SOCKET_OPTIONS, message(options(message(socket, SOCKET_OPTIONS), asks && !hasPeer)));
        return changed.build();
    }

    /** As they were before the connection was held. */
    private static UnknownFieldSet options(final UnknownFieldSet options, final boolean alive) {
        final UnknownFieldSet.Builder changed = UnknownFieldSet.newBuilder(options);
        if (options.getField(OPTION_FILTER).getFixed64List().equals(DROP_ALL)) {
            changed.clearField(OPTION_FILTER);
        }
        if (alive) {
            set(changed, OPTION_KEEPALIVE, number(1));
        }
        return changed.build();
    }

    private static void set(final UnknownFieldSet.Builder entry, final int field, final UnknownFieldSet.Field value) {
        entry.clearField(field).addField(field, value);
    }

    private static UnknownFieldSet message(final UnknownFieldSet entry, final int field) throws IOException {
        final List<ByteString> messages = entry.getField(field).getLengthDelimitedList();
        if (messages.size() != 1) {
            throw new IOException("a socket's image has " + messages.size() + " fields " + field + " where there is one");
        }
        try {
            return UnknownFieldSet.parseFrom(messages.getFirst());
        } catch (final InvalidProtocolBufferException e) {
            throw new IOException("a socket's image is damaged", e);
        }
    }

    private static UnknownFieldSet.Field message(final UnknownFieldSet message) {
        return UnknownFieldSet.Field.newBuilder().addLengthDelimited(message.toByteString()).build();
    }

    private static long number(final UnknownFieldSet entry, final int field) throws IOException {
        final List<Long> numbers = entry.getField(field).getVarintList();
        if (numbers.size() != 1) {
            throw new IOException("a socket's image has " + numbers.size() + " fields " + field + " where there is one");
        }
        return numbers.getFirst();
    }

    private static UnknownFieldSet.Field number(final long value) {
        return UnknownFieldSet.Field.newBuilder().addVarint(value).build();
    }

    /** CRIU writes an address as words in the order of the host's bytes, of which this makes the network's again. */
    private static String address(final UnknownFieldSet socket, final int field) throws IOException {
        final int size = number(socket, SOCKET_FAMILY) == AF_INET ? VERSION_4_BYTES : VERSION_6_BYTES;
        final List<Long> words = words(socket.getField(field));
        if (words.size() * Integer.BYTES < size) {
            throw new IOException("a socket's image has an address of " + words.size() + " words");
        }
        final ByteBuffer bytes = ByteBuffer.allocate(words.size() * Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        words.forEach(word -> bytes.putInt(word.intValue()));
        final byte[] address = new byte[size];
        bytes.get(0, address);
        return HostAddress.numeric(InetAddress.getByAddress(address));
    }

    /** Whoever wrote it may have packed them. */
    private static List<Long> words(final UnknownFieldSet.Field field) throws IOException {
        if (field.getLengthDelimitedList().isEmpty()) {
            return field.getVarintList();
        }
        final CodedInputStream packed = field.getLengthDelimitedList().getFirst().newCodedInput();
        final List<Long> words = new ArrayList<>();
        while (!packed.isAtEnd()) {
            words.add(packed.readUInt64());
        }
        return words;
    }

    private static UnknownFieldSet.Field address(final UnknownFieldSet socket, final String text) throws IOException {
        final byte[] plain = InetAddress.ofLiteral(text).getAddress();
        final boolean six = number(socket, SOCKET_FAMILY) != AF_INET;
        if (!six && plain.length != VERSION_4_BYTES) {
            throw new IOException("an IPv4 socket cannot be moved to " + text);
        }
        final ByteBuffer bytes = ByteBuffer.allocate(six ? VERSION_6_BYTES : VERSION_4_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        if (six && plain.length == VERSION_4_BYTES) {
            bytes.put(MAPPED);
        }
        bytes.put(plain).flip();
        final UnknownFieldSet.Field.Builder field = UnknownFieldSet.Field.newBuilder();
        IntStream.range(0, bytes.limit() / Integer.BYTES)
                .forEach(word -> field.addVarint(Integer.toUnsignedLong(bytes.getInt(word * Integer.BYTES))));
        return field.build();
    }
}
