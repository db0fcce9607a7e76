// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.levels;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.HexFormat;
import org.shadowverbs.coordinator.protocol.Acceptor;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.LevelMessages.Fetch;
import org.shadowverbs.coordinator.protocol.LevelMessages.Piece;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.ProtocolException;

/**
 * Gives the images of this host to the agents of other hosts. Images hold the job's memory: who asks must show a token that only the
 * coordinator is told, and that it tells the job's agents alone. Only files below the job's folder are given.
 */
public final class ImageServer implements AutoCloseable {
    private static final int BACKLOG = 64;
    private static final int TOKEN_BYTES = 32;

    private final Acceptor acceptor;
    private final int port;
    private final String token;
    private volatile Path root;

    /** Begins to listen, at any free port. */
    public ImageServer(final EventLog log) throws IOException {
        final byte[] random = new byte[TOKEN_BYTES];
        new SecureRandom().nextBytes(random);
        token = HexFormat.of().formatHex(random);
        final ServerSocketChannel listener = ServerSocketChannel.open();
        try {
            listener.bind(new InetSocketAddress(0), BACKLOG);
            port = ((InetSocketAddress) listener.getLocalAddress()).getPort();
        } catch (IOException | RuntimeException e) {
            listener.close();
            throw e;
        }
        acceptor = new Acceptor(listener, log, FrameChannel::overTcp, this::serve);
        acceptor.open();
    }

    /** Gives what is below that folder from now on, and nothing else. */
    public void serve(final Path folder) {
        root = folder;
    }

    public int port() {
        return port;
    }

    /** What is to be shown; for the coordinator. */
    public String token() {
        return token;
    }

    private void serve(final Message first, final FrameChannel channel) throws IOException {
        Message message = first;
        for (;;) {
            if (!(message instanceof Fetch fetch)) {
                throw new ProtocolException("message of type " + message.type() + " where images are fetched");
            }
            check(fetch);
            give(fetch.path(), channel);
            try {
                message = channel.read();
            } catch (EOFException e) {
                return;
            }
        }
    }

    private void check(final Fetch fetch) throws ProtocolException {
        if (fetch.version() != FrameType.VERSION) {
            throw new ProtocolException("peer of protocol version " + fetch.version() + ", this agent has version " + FrameType.VERSION);
        }
        if (!MessageDigest.isEqual(fetch.token().getBytes(StandardCharsets.UTF_8), token.getBytes(StandardCharsets.UTF_8))) {
            throw new ProtocolException("wrong token for images");
        }
    }

    private void give(final String path, final FrameChannel channel) throws IOException {
        final Path below = root;
        final Path file = below == null ? null : below.resolve(path).normalize();
        if (file == null || !file.startsWith(below) || !Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
            throw new ProtocolException("image " + path + " is not on this host");
        }
        final long bytes = Files.size(file);
        final long[] left = {bytes};
        try (ImageCopy.Source source = ImageCopy.from(below)) {
            source.read(below.relativize(file).toString(), piece -> {
                left[0] -= piece.remaining();
                if (piece.hasRemaining() || bytes == 0) {
                    channel.write(new Piece(left[0], Arrays.copyOfRange(piece.array(), piece.position(), piece.limit())));
                }
            });
        }
        if (left[0] != 0) {
            throw new ProtocolException("image " + path + " has changed while it was read");
        }
    }

    @Override
    public void close() throws IOException {
        acceptor.close();
    }
}
