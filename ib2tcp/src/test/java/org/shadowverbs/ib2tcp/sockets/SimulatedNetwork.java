// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Random;
import org.shadowverbs.ib2tcp.engine.Inbound;
import org.shadowverbs.ib2tcp.engine.Link;
import org.shadowverbs.ib2tcp.engine.MulticastWay;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** Links that deliver bytes in pieces of random size, and break when told to, with what is under way. */
public final class SimulatedNetwork {
    public final Random random;
    final ArrayList<SimulatedDevice> devices = new ArrayList<>();
    private final ArrayList<End> ends = new ArrayList<>();
    long time;
    /** Bytes, on all links. */
    long written;

    /** Of the job. */
    final String secret;
    /** Every multicast datagram that was sent. */
    final ArrayList<byte[]> multicasts = new ArrayList<>();
    private final ArrayList<Channels> channels = new ArrayList<>();

    public SimulatedNetwork(final long seed) {
        this(seed, "");
    }

    SimulatedNetwork(final long seed, final String secret) {
        this.secret = secret;
        random = new Random(seed);
    }

    public SimulatedDevice device() {
        final SimulatedDevice device = new SimulatedDevice(this, devices.size() + 1);
        devices.add(device);
        return device;
    }

    Link connect(final SimulatedDevice from, final int to) {
        if (to < 1 || to > devices.size()) {
            return null;
        }
        final End near = new End(from, to);
        final End far = new End(devices.get(to - 1), from.id);
        near.other = far;
        far.other = near;
        ends.add(near);
        ends.add(far);
        from.links.add(near);
        far.device.links.add(far);
        return near;
    }

    /** One end writes, or one reads. @return false: nothing is under way */
    public boolean step() throws ProtocolException {
        time += 1000;
        for (final SimulatedDevice device : devices) {
            device.timers.run(time);
        }
        for (final Channels way : channels) {
            if (way.deliver()) {
                return true;
            }
        }
        final int first = ends.isEmpty() ? 0 : random.nextInt(ends.size());
        for (int i = 0; i < ends.size(); i++) {
            final End end = ends.get((first + i) % ends.size());
            if (end.read() || end.write()) {
                return true;
            }
        }
        for (final End end : ends) {
            if (!end.stopped && end.taken < end.arriving.size()) {
                return true; // it did not want to read this time
            }
        }
        for (final SimulatedDevice device : devices) {
            if (!device.timers.isEmpty()) {
                time += device.timers.delay(time);
                return true;
            }
        }
        return false;
    }

    /** Ends read, as far as they want to. */
    void read() throws ProtocolException {
        for (final End end : ends) {
            end.read();
        }
    }

    /** Ends write, a piece each at most. */
    void write() {
        for (final End end : ends) {
            end.write();
        }
    }

    /** A process stands still: it does not read any more. */
    void stop(final SimulatedDevice device) {
        for (final End end : ends) {
            end.stopped |= end.device == device;
        }
    }

    /** It goes on. */
    void goOn(final SimulatedDevice device) {
        for (final End end : ends) {
            end.stopped &= end.device != device;
        }
    }

    /** Breaks a link: what was written and not read is lost. */
    void cut() {
        if (!ends.isEmpty()) {
            final End end = ends.get(random.nextInt(ends.size()));
            ends.remove(end);
            ends.remove(end.other);
            end.device.lost(end);
            end.other.device.lost(end.other);
        }
    }

    /** Goes on until all is quiet. */
    public void settle() throws ProtocolException {
        while (step()) {
            assertTrue(time < 1_000_000_000_000L, "it comes to an end");
        }
    }

    /** Multicast datagrams of one process. */
    final class Channels implements MulticastWay {
        private final SimulatedDevice device;
        private final boolean[] joined = new boolean[CHANNELS];
        private final ArrayDeque<byte[]> arriving = new ArrayDeque<>();

        Channels(final SimulatedDevice device) {
            this.device = device;
            channels.add(this);
        }

        @Override
        public void join(final int channel) {
            assertFalse(joined[channel]);
            joined[channel] = true;
        }

        @Override
        public void leave(final int channel) {
            assertTrue(joined[channel]);
            joined[channel] = false;
        }

        @Override
        public int send(final int channel, final long at, final int bytes) {
            multicasts.add(Memory.bytes(at, bytes));
            for (final Channels way : channels) {
                if (way.joined[channel]) {
                    way.arriving.add(multicasts.getLast());
                }
            }
            return 0;
        }

        boolean deliver() {
            if (arriving.isEmpty()) {
                return false;
            }
            final byte[] datagram = arriving.remove();
            final long at = device.posix.allocate(datagram.length);
            Memory.put(at, datagram);
            device.multicast.received(at, datagram.length);
            device.posix.free(at);
            return true;
        }
    }

    private final class End extends Link {
        private End other;
        /** Written by the other end. */
        private final ByteArrayOutputStream arriving = new ByteArrayOutputStream();
        private int taken;
        private boolean stopped;

        End(final SimulatedDevice device, final int peer) {
            super(device);
            peerPrefix = 0;
            peerId = peer;
        }

        @Override
        public boolean waits() {
            return other.stopped;
        }

        @Override
        public void wake() {
            // Every end is looked at in every step.
        }

        boolean write() {
            if (other.stopped || batch.isEmpty() && !fill()) {
                return false;
            }
            final Vectors vectors = batch.vectors();
            long left = 1 + random.nextInt((int) Math.min(vectors.bytes(), 1 + random.nextInt(200_000)));
            written += left;
            while (left > 0) {
                final int part = (int) Math.min(left, vectors.length(0));
                other.arriving.writeBytes(Memory.bytes(vectors.address(0), part));
                vectors.advance(part);
                left -= part;
            }
            if (batch.isEmpty()) {
                batch.clear();
            }
            return true;
        }

        boolean read() throws ProtocolException {
            if (stopped || taken == arriving.size() || random.nextInt(3) == 0) {
                return false;
            }
            final byte[] all = arriving.toByteArray();
            final int part = 1 + random.nextInt(Math.min(all.length - taken, Inbound.STAGING));
            final byte[] piece = java.util.Arrays.copyOfRange(all, taken, taken + part);
            int done = 0;
            while (done < part) {
                if (inbound.direct() && random.nextBoolean()) {
                    inbound.openTarget();
                    final int n = (int) Math.min(part - done, inbound.target.bytes());
                    scatter(inbound.target, piece, done, n);
                    inbound.readDirectly(n);
                    done += n;
                } else {
                    final long to = inbound.space();
                    final int n = Math.min(part - done, inbound.room());
                    Memory.put(to, java.util.Arrays.copyOfRange(piece, done, done + n));
                    inbound.read(n);
                    done += n;
                }
            }
            taken += part;
            if (taken == all.length) {
                arriving.reset();
                taken = 0;
            }
            return true;
        }

        private void scatter(final Vectors to, final byte[] from, final int start, final int count) {
            int at = start;
            for (int i = 0; at < start + count; i++) {
                final int part = (int) Math.min(start + count - at, to.length(i));
                Memory.put(to.address(i), java.util.Arrays.copyOfRange(from, at, at + part));
                at += part;
            }
        }
    }
}
