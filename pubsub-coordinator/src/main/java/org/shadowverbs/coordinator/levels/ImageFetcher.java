// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.levels;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.NetAddress;
import org.shadowverbs.coordinator.protocol.LevelMessages.Fetch;
import org.shadowverbs.coordinator.protocol.LevelMessages.Holder;
import org.shadowverbs.coordinator.protocol.LevelMessages.Piece;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.ProtocolException;
import org.shadowverbs.coordinator.protocol.RankMessages.Refused;

/** Files of another host, by a connection to the {@link ImageServer} of its agent. */
public final class ImageFetcher implements ImageCopy.Source {
    private static final int CONNECT_MILLIS = 3_000;

    private final Holder holder;
    private final FrameChannel channel;

    /** Connects to it, by the first of its host's addresses that answers. */
    public ImageFetcher(final Holder holder) throws IOException {
        this.holder = holder;
        FrameChannel connected = null;
        IOException failure = new IOException("it has no address");
        for (final NetAddress address : holder.addresses()) {
            try {
                connected = FrameChannel.connect(new InetSocketAddress(address.address(), holder.port()), CONNECT_MILLIS);
                break;
            } catch (java.nio.channels.ClosedByInterruptException e) {
                throw e;
            } catch (IOException e) {
                failure = e;
            }
        }
        if (connected == null) {
            throw new IOException("the agent of host " + holder.host() + " can't be reached: " + failure.getMessage(), failure);
        }
        channel = connected;
    }

    @Override
    public void read(final String path, final ImageCopy.Sink sink) throws IOException {
        channel.write(new Fetch(FrameType.VERSION, holder.token(), path));
        long left;
        do {
            final Message message = channel.read();
            if (message instanceof Refused refused) {
                throw new IOException("host " + holder.host() + ": " + refused.reason());
            }
            if (!(message instanceof Piece piece)) {
                throw new ProtocolException("message of type " + message.type() + " instead of a piece of an image");
            }
            sink.take(ByteBuffer.wrap(piece.data()));
            left = piece.left();
        } while (left > 0);
    }

    @Override
    public void close() {
        channel.close();
    }
}
