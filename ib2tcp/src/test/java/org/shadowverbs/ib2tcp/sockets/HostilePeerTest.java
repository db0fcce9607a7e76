// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.engine.Device;
import org.shadowverbs.ib2tcp.engine.Link;
import org.shadowverbs.ib2tcp.engine.MemoryRegions;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Vectors;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/**
 * A peer that sends whatever frames it likes, to a process that takes back and gives out keys meanwhile. Nothing is written but
 * what a region covers that may be written to remotely at that moment, or a receive that is posted, and nothing read but what a
 * region covers that may be read; and when the queue pair has had enough its owner is told.
 */
class HostilePeerTest {
    private static final int PAGE = 1024;
    private static final int PAGES = 96;
    private static final int BYTES = PAGE * PAGES;
    /** A pattern in memory that no key lets anybody read. */
    private static final byte SECRET = 0x5e;
    /** A pattern in memory that may be read. */
    private static final byte PUBLIC = 0x0b;
    private static final byte EVIL = (byte) 0xee;
    private static final int PEER = 2;
    private static final int PEER_NUMBER = 0x4711;
    private static final int FRAMES = 40;

    /** The victim's end of the connection, whose other end the test writes and reads. */
    private static final class RawLink extends Link {
        RawLink(final Device device) {
            super(device);
            peerId = PEER;
        }

        @Override
        public void wake() {
            // The test looks for what there is.
        }

        @Override
        public boolean waits() {
            return false;
        }
    }

    private static final class Region {
        final int page;
        final int pages;
        final int access;
        int key;
        boolean good;

        Region(final int page, final int pages, final int access) {
            this.page = page;
            this.pages = pages;
            this.access = access;
        }
    }

    /** The process, its memory and its keys; and what is done to it. */
    private static final class Victim {
        private final Random random;
        private final SimulatedNetwork network = new SimulatedNetwork(1);
        private final SimulatedDevice victim = network.device();
        private final QueuePairObject object;
        private final QueuePair qp;
        private final long memory = victim.posix.allocate(BYTES);
        private final long frame = victim.posix.allocate(Frame.SIZE);
        private final List<Region> regions = new ArrayList<>();
        private final boolean[] receives = new boolean[PAGES];
        private RawLink link;
        private byte[] before;
        private int posted;

        Victim(final int type, final long seed) {
            random = new Random(seed);
            network.device(); // the peer has an address
            object = victim.create(type, false, null);
            qp = victim.queuePair(SimulatedDevice.number(object));
            if (type == QueuePair.RC) {
                SimulatedDevice.connect(object, network.devices.get(1), PEER_NUMBER, 0, 0, 7);
            } else {
                SimulatedDevice.connectUnreliable(object, network.devices.get(1), PEER_NUMBER);
            }
            final byte[] all = new byte[BYTES];
            Arrays.fill(all, SECRET);
            regions.add(new Region(2, 40, MemoryRegions.LOCAL_WRITE | MemoryRegions.REMOTE_WRITE | MemoryRegions.REMOTE_READ
                    | MemoryRegions.REMOTE_ATOMIC));
            regions.add(new Region(44, 4, MemoryRegions.REMOTE_READ));
            regions.add(new Region(50, 4, MemoryRegions.LOCAL_WRITE | MemoryRegions.REMOTE_WRITE));
            regions.add(new Region(60, 30, MemoryRegions.LOCAL_WRITE));
            for (final Region region : regions) {
                register(region);
                if ((region.access & MemoryRegions.REMOTE_READ) != 0) {
                    Arrays.fill(all, region.page * PAGE, (region.page + region.pages) * PAGE, PUBLIC);
                }
            }
            Memory.put(memory, all);
            before = all;
            connect();
        }

        private void connect() {
            link = new RawLink(victim);
            victim.links.add(link);
        }

        private void register(final Region region) {
            final long at = memory + (long) region.page * PAGE;
            region.key = victim.regions.add(object.domain(), at, (long) region.pages * PAGE, at, region.access);
            region.good = true;
        }

        private <T> T any(final List<T> list) {
            return list.get(random.nextInt(list.size()));
        }

        /** Mostly what could be right, so that the sequences get somewhere. */
        private int sequence;
        private int attempt;
        private int opcode;
        private long length;
        private long offset;
        private long address;
        private int key;

        private void header(final int payload) {
            final int type = random.nextInt(12) == 0 ? 1 + random.nextInt(8)
                    : qp.type == QueuePair.UC ? Frame.UNACKNOWLEDGED : Frame.REQUEST;
            Frame.start(frame, type, opcode, attempt, 0, payload, SimulatedDevice.number(object), PEER_NUMBER, sequence);
            Frame.length(frame, length);
            Frame.address(frame, address);
            Frame.rkey(frame, key);
            if (!Frame.atomic(opcode)) {
                Frame.offset(frame, offset);
            }
        }

        /** Chooses the next frame, one that goes on with the message before it or another. @return bytes of its payload */
        private int next() {
            if (offset >= length || random.nextInt(8) == 0) {
                final int[] opcodes = {Frame.WRITE, Frame.WRITE, Frame.WRITE_IMM, Frame.SEND, Frame.READ, Frame.FETCH_ADD,
                    Frame.SEND_INV};
                opcode = opcodes[random.nextInt(opcodes.length)];
                final Region region = any(regions);
                key = region.key;
                length = Frame.atomic(opcode) ? 8 : random.nextInt((random.nextInt(4) == 0 ? 40 : 4) * PAGE);
                address = memory + (long) region.page * PAGE;
                address += random.nextInt(3) == 0 ? random.nextInt(2 * PAGE) - PAGE & -8 : 0;
                offset = 0;
            } else {
                // In the midst: something changes that should not.
                switch (random.nextInt(8)) {
                    case 0 -> length = random.nextInt(80 * PAGE);
                    case 1 -> opcode = random.nextInt(10);
                    case 2 -> key = any(regions).key;
                    case 3 -> address += random.nextInt(8 * PAGE) - 4 * PAGE;
                    case 4 -> offset += random.nextInt(4 * PAGE);
                    default -> { }
                }
            }
            final boolean carries = !Frame.reads(opcode) && !Frame.local(opcode);
            return carries ? (int) Math.max(0, Math.min(length - offset, 1 + random.nextInt(16 * PAGE))) : 0;
        }

        /** Gives the victim a frame in pieces, and takes keys back or gives them out in between. */
        private void send(final int payload) throws ProtocolException {
            final byte[] bytes = new byte[Frame.SIZE + payload];
            Arrays.fill(bytes, EVIL);
            System.arraycopy(Memory.bytes(frame, Frame.SIZE), 0, bytes, 0, Frame.SIZE);
            int done = 0;
            while (done < bytes.length) {
                if (link.inbound.direct() && random.nextBoolean()) {
                    link.inbound.openTarget();
                    final Vectors target = link.inbound.target;
                    final int n = Math.min(bytes.length - done, 1 + random.nextInt((int) target.bytes()));
                    int left = n;
                    for (int i = 0; left > 0; i++) {
                        final int part = (int) Math.min(left, target.length(i));
                        Memory.put(target.address(i), Arrays.copyOfRange(bytes, done, done + part));
                        done += part;
                        left -= part;
                    }
                    link.inbound.readDirectly(n);
                } else {
                    final long to = link.inbound.space();
                    final int n = Math.min(Math.min(bytes.length - done, link.inbound.room()), 1 + random.nextInt(8 * PAGE));
                    Memory.put(to, Arrays.copyOfRange(bytes, done, done + n));
                    link.inbound.read(n);
                    done += n;
                }
                check();
                if (random.nextInt(8) == 0) {
                    owner();
                }
            }
        }

        /** What the owner of the memory does: post, take a key back, give one out. */
        private void owner() {
            final Region region = any(regions);
            switch (random.nextInt(4)) {
                case 0 -> {
                    if (region.good) {
                        victim.regions.remove(region.key);
                        region.good = false;
                    }
                }
                case 1 -> {
                    if (!region.good) {
                        register(region);
                    }
                }
                case 2 -> {
                    final int page = 60 + posted % 30;
                    if (victim.receive(object, posted++, memory + (long) page * PAGE, PAGE, regions.get(3).key)) {
                        receives[page] = true;
                    }
                }
                default -> {
                    if (qp.type == QueuePair.RC) {
                        victim.post(object, 1, Frame.READ, 2, new long[] {memory + 89L * PAGE}, new int[] {PAGE},
                                regions.get(3).key, 0, 0, 0, 0);
                    }
                }
            }
        }

        private boolean writable(final int page) {
            for (final Region region : regions) {
                if (region.good && page >= region.page && page < region.page + region.pages
                        && ((region.access & MemoryRegions.REMOTE_WRITE) != 0
                                || region == regions.get(3) && (receives[page] || page == 89))) {
                    return true;
                }
            }
            return false;
        }

        /** Nothing has changed but where it may, and nothing is on its way out but what may be read. */
        private void check() {
            final byte[] now = Memory.bytes(memory, BYTES);
            for (int page = 0; page < PAGES; page++) {
                final int from = page * PAGE;
                if (!Arrays.equals(before, from, from + PAGE, now, from, from + PAGE)) {
                    assertTrue(writable(page), "page " + page + " was written to");
                }
            }
            before = now;
            if (!link.batch.isEmpty() || link.fill()) {
                final Vectors out = link.batch.vectors();
                for (int i = 0; i < out.count(); i++) {
                    final byte[] sent = Memory.bytes(out.address(i), (int) out.length(i));
                    int secrets = 0;
                    for (final byte b : sent) {
                        secrets = b == SECRET ? secrets + 1 : 0;
                        assertTrue(secrets < 16, "a secret was sent");
                    }
                }
                link.batch.clear();
            }
        }

        private void run() {
            for (int i = 0; i < FRAMES; i++) {
                final int payload = next();
                header(payload);
                boolean closed = false;
                try {
                    send(payload);
                } catch (ProtocolException e) {
                    closed = true;
                }
                offset += payload;
                if (offset >= length || Frame.reads(opcode)) {
                    sequence++;
                    length = 0;
                }
                if (closed || random.nextInt(30) == 0) {
                    victim.lost(link);
                    link.free();
                    connect();
                    attempt = attempt + 1 & 0xff;
                } else if (random.nextInt(20) == 0) {
                    attempt = attempt + 1 & 0xff;
                    offset = 0;
                }
                check();
            }
            if (qp.state == QueuePair.ERR) {
                int failed = 0;
                for (long wc = victim.poll(); wc != 0; wc = victim.poll()) {
                    failed += Memory.i32(wc + Layouts.WC_STATUS) != CompletionQueue.SUCCESS ? 1 : 0;
                }
                assertTrue(failed > 0 || victim.event() != -1, "the owner is told why");
            }
        }
    }

    @Property(tries = 1000)
    void noFramesReachMemoryThatTheyMayNotReach(@ForAll final long seed, @ForAll final boolean reliable) {
        new Victim(reliable ? QueuePair.RC : QueuePair.UC, seed).run();
    }

    /** The second frame of a message that is longer than the first one said. */
    @Test
    void aMessageDoesNotGrow() throws ProtocolException {
        for (final int type : new int[] {QueuePair.RC, QueuePair.UC}) {
            final Victim t = new Victim(type, 1);
            final Region region = t.regions.get(0);
            final int request = type == QueuePair.RC ? Frame.REQUEST : Frame.UNACKNOWLEDGED;
            for (int i = 0; i < 2; i++) {
                Frame.start(t.frame, request, Frame.WRITE, 0, 0, PAGE, SimulatedDevice.number(t.object), PEER_NUMBER, 0);
                Frame.length(t.frame, i == 0 ? 2 * PAGE : 80 * PAGE);
                Frame.offset(t.frame, (long) i * PAGE);
                Frame.address(t.frame, t.memory + (long) (region.page + region.pages - 2) * PAGE);
                Frame.rkey(t.frame, region.key);
                final byte[] bytes = new byte[Frame.SIZE + PAGE];
                System.arraycopy(Memory.bytes(t.frame, Frame.SIZE), 0, bytes, 0, Frame.SIZE);
                Memory.put(t.link.inbound.space(), bytes);
                t.link.inbound.read(bytes.length);
                t.check();
            }
            assertEquals(type == QueuePair.RC ? QueuePair.ERR : QueuePair.RTS, t.qp.state);
            assertEquals(type == QueuePair.RC ? QueuePair.EVENT_REQ_ERR : -1, t.victim.event());
        }
    }

    /** A WRITE that goes on as a SEND, for which no receive is there. */
    @Test
    void aMessageStaysWhatItIs() throws ProtocolException {
        final Victim t = new Victim(QueuePair.RC, 1);
        for (int i = 0; i < 2; i++) {
            Frame.start(t.frame, Frame.REQUEST, i == 0 ? Frame.WRITE : Frame.SEND, 0, 0, PAGE, SimulatedDevice.number(t.object),
                    PEER_NUMBER, 0);
            Frame.length(t.frame, 2 * PAGE);
            Frame.offset(t.frame, (long) i * PAGE);
            Frame.address(t.frame, t.memory + (long) t.regions.get(0).page * PAGE);
            Frame.rkey(t.frame, t.regions.get(0).key);
            final byte[] bytes = new byte[Frame.SIZE + PAGE];
            System.arraycopy(Memory.bytes(t.frame, Frame.SIZE), 0, bytes, 0, Frame.SIZE);
            Memory.put(t.link.inbound.space(), bytes);
            t.link.inbound.read(bytes.length);
        }
        assertEquals(QueuePair.ERR, t.qp.state);
        assertEquals(QueuePair.EVENT_REQ_ERR, t.victim.event());
    }
}
