// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.EOFException;
import java.io.IOException;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.concurrent.locks.ReentrantLock;

/** Frames over a stream socket, Unix or TCP. One thread reads; any thread writes, and any closes, which ends reads and writes. */
public final class FrameChannel implements AutoCloseable {
    private final SocketChannel channel;
    private final ReentrantLock writing = new ReentrantLock();
    private final ByteBuffer in = ByteBuffer.allocate(16 << 10).flip();
    /** Why this side has closed it, or why it could not be written to; null: neither. */
    private volatile String problem;

    public FrameChannel(final SocketChannel channel) {
        this.channel = channel;
    }

    public static FrameChannel connect(final Path socket) throws IOException {
        final SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        return connect(channel, UnixDomainSocketAddress.of(socket));
    }

    /**
     * Connects over TCP.
     *
     * @throws java.net.SocketTimeoutException the address has not answered in that time
     */
    public static FrameChannel connect(final java.net.InetSocketAddress address, final int timeoutMillis)
            throws IOException {
        final SocketChannel channel = SocketChannel.open();
        try {
            channel.socket().connect(address, timeoutMillis);
            return overTcp(channel);
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    /** Frames over a TCP connection, whichever side has made it. It breaks soon after the other host has: {@link DeadHost}. */
    public static FrameChannel overTcp(final SocketChannel channel) throws IOException {
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        DeadHost.breaks(channel);
        return new FrameChannel(channel);
    }

    private static FrameChannel connect(final SocketChannel channel, final SocketAddress address) throws IOException {
        try {
            channel.connect(address);
            return new FrameChannel(channel);
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    /** It breaks when the other host's kernel has acknowledged nothing for so long, while something was sent. */
    public void breaksAfter(final int millis) throws IOException {
        DeadHost.breaks(channel, millis);
    }

    /** Whether that is why a connection has broken, by what the exception says; else the other side's process has ended it. */
    public static boolean isOtherHostLost(final String why) {
        return DeadHost.isReason(why);
    }

    /** The next message; {@link EOFException} when the other side has closed between two frames. */
    public Message read() throws IOException {
        try {
            return readFrame();
        } catch (ClosedChannelException e) {
            if (problem != null) {
                throw new IOException(problem, e);
            }
            throw e;
        }
    }

    private Message readFrame() throws IOException {
        fill(4, true);
        final int length = in.getInt();
        if (length <= 0 || length > FrameType.MAX_FRAME) {
            throw new ProtocolException("frame of " + length + " bytes");
        }
        final byte[] frame = new byte[Math.min(length, 1 << 20)];
        return Codec.decode(length <= frame.length ? take(frame) : takeLong(length));
    }

    private byte[] take(final byte[] frame) throws IOException {
        int at = Math.min(in.remaining(), frame.length);
        in.get(frame, 0, at);
        while (at < frame.length) {
            final int n = channel.read(ByteBuffer.wrap(frame, at, frame.length - at));
            if (n < 0) {
                throw new ProtocolException("connection closed within a frame");
            }
            at += n;
        }
        return frame;
    }

    /** Grows with what really arrives, so that a length alone allocates nothing. */
    private byte[] takeLong(final int length) throws IOException {
        byte[] all = new byte[0];
        while (all.length < length) {
            final byte[] part = take(new byte[Math.min(length - all.length, Math.max(1 << 20, all.length))]);
            final byte[] longer = java.util.Arrays.copyOf(all, all.length + part.length);
            System.arraycopy(part, 0, longer, all.length, part.length);
            all = longer;
        }
        return all;
    }

    private void fill(final int bytes, final boolean betweenFrames) throws IOException {
        while (in.remaining() < bytes) {
            in.compact();
            final int n;
            try {
                n = channel.read(in);
            } finally {
                in.flip();
            }
            if (n < 0) {
                if (betweenFrames && !in.hasRemaining()) {
                    // The kernel says once why a connection broke, to who writes if he asks first.
                    throw new EOFException(problem == null ? "connection closed" : problem);
                }
                throw new ProtocolException("connection closed within a frame");
            }
        }
    }

    public void write(final Message message) throws IOException {
        write(Codec.frame(message)); // a rank does not load what Codec.frames looks for
    }

    /** Writes a whole frame, in the parts that {@link Codec#frames} makes. */
    void write(final byte[]... parts) throws IOException {
        writing.lock();
        try {
            for (final byte[] part : parts) {
                final ByteBuffer bytes = ByteBuffer.wrap(part);
                while (bytes.hasRemaining()) {
                    channel.write(bytes);
                }
            }
        } catch (ClosedChannelException e) {
            throw e;
        } catch (IOException e) {
            problem = e.getMessage();
            throw e;
        } finally {
            writing.unlock();
        }
    }

    public boolean isOpen() {
        return channel.isOpen();
    }

    public SocketChannel channel() {
        return channel;
    }

    /** Closes it; who reads gets an IOException that says why. */
    void fail(final String why) {
        problem = why;
        close();
    }

    @Override
    public void close() {
        try {
            channel.close();
        } catch (IOException e) {
            // Nothing is left to be done with it.
            return;
        }
    }
}
