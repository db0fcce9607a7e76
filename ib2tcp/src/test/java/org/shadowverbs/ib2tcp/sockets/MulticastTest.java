// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.sockets;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ib2tcp.engine.Multicast;
import org.shadowverbs.ib2tcp.engine.MulticastWay;
import org.shadowverbs.ib2tcp.engine.QueuePair;
import org.shadowverbs.ib2tcp.queue.Completion;
import org.shadowverbs.ib2tcp.queue.CompletionQueue;
import org.shadowverbs.ib2tcp.system.DeviceException;
import org.shadowverbs.ib2tcp.system.Layouts;
import org.shadowverbs.ib2tcp.system.Memory;
import org.shadowverbs.ib2tcp.system.Posix;
import org.shadowverbs.ib2tcp.verbs.QueuePairObject;
import org.shadowverbs.ib2tcp.wire.Frame;
import org.shadowverbs.ib2tcp.wire.GlobalRoute;
import org.shadowverbs.ib2tcp.wire.ProtocolException;

/** Datagrams to all of a multicast group. */
class MulticastTest {
    private static final int QKEY = 0x1234;
    /** More than there are channels, so that some share one. */
    private static final int GROUPS = MulticastWay.CHANNELS + 4;
    private static final int LENGTH = Frame.MAX_DATAGRAM + GlobalRoute.SIZE;
    private static final int RECEIVES = 4;
    private static final int SOLICITED = 4;
    private static final long PREFIX = 0xff0eL << 48;

    /** A queue pair, and to which groups it is attached. */
    private static final class Station {
        final SimulatedDevice device;
        final QueuePairObject object;
        final QueuePair qp;
        final Set<Integer> groups = new HashSet<>();
        final long memory;
        final int key;

        Station(final SimulatedDevice device) {
            this.device = device;
            object = device.create(QueuePair.UD, true, null);
            SimulatedDevice.ready(object, QKEY);
            qp = device.queuePair(SimulatedDevice.number(object));
            memory = device.posix.allocate((long) LENGTH * (RECEIVES + 1));
            key = device.regions.add(object.domain(), memory, (long) LENGTH * (RECEIVES + 1), memory, 1);
        }

        void receive(final int slot) {
            assertTrue(device.receive(object, slot, memory + (long) slot * LENGTH, LENGTH, key));
        }

        void change(final int group) {
            if (groups.add(group)) {
                device.multicast.attach(qp, PREFIX, group, 7);
                device.multicast.attach(qp, PREFIX, group, 7); // once more is nothing more
            } else {
                groups.remove(group);
                device.multicast.detach(qp, PREFIX, group, 7);
            }
        }

        void send(final int group, final byte[] data, final int qkey, final int imm) {
            Memory.put(memory + (long) RECEIVES * LENGTH, data);
            assertTrue(device.post(object, 99, Frame.SEND_IMM, SOLICITED, new long[] {memory + (long) RECEIVES * LENGTH},
                    new int[] {data.length}, key, PREFIX, Multicast.ALL, group, qkey & 0xffff_ffffL, imm));
        }
    }

    /** Whoever is attached gets it once, the sender, too; nobody else does. */
    @Property(tries = 30)
    void allOfAGroupGetItOnce(@ForAll final long seed) throws ProtocolException {
        final SimulatedNetwork network = new SimulatedNetwork(seed, seed % 2 == 0 ? "a secret" : "");
        final List<Station> stations = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            final SimulatedDevice device = network.device();
            for (int n = 0; n <= i; n++) {
                stations.add(new Station(device));
                for (int slot = 0; slot < RECEIVES; slot++) {
                    stations.getLast().receive(slot);
                }
            }
        }
        for (int round = 0; round < 150; round++) {
            final Station one = stations.get(network.random.nextInt(stations.size()));
            final int group = network.random.nextInt(GROUPS);
            if (network.random.nextInt(3) > 0) {
                one.change(group);
                continue;
            }
            final byte[] data = new byte[network.random.nextInt(Frame.MAX_DATAGRAM + 1)];
            network.random.nextBytes(data);
            final boolean knowsKey = network.random.nextInt(8) > 0;
            one.send(group, data, knowsKey ? QKEY : QKEY + 1, round);
            network.settle();
            final Set<Station> expected = new HashSet<>();
            for (final Station station : stations) {
                if (knowsKey && station.groups.contains(group)) {
                    expected.add(station);
                }
            }
            int sent = 0;
            for (final SimulatedDevice device : network.devices) {
                for (long wc = device.poll(); wc != 0; wc = device.poll()) {
                    assertEquals(0, Memory.i32(wc + Layouts.WC_STATUS));
                    if (Memory.i32(wc + Layouts.WC_OPCODE) == CompletionQueue.OPCODE_RECV) {
                        final Station to = at(stations, device, Memory.i32(wc + Layouts.WC_QP_NUM));
                        assertTrue(expected.remove(to), "it is of the group, and has not got it yet");
                        check(to, wc, one, group, data, round);
                    } else {
                        sent++;
                    }
                }
            }
            assertEquals(1, sent);
            assertTrue(expected.isEmpty(), "all of the group have got it");
        }
        for (final SimulatedDevice device : network.devices) {
            assertEquals(List.of(), device.said);
        }
    }

    private static Station at(final List<Station> stations, final SimulatedDevice device, final int number) {
        return stations.stream().filter(s -> s.device == device && s.qp.number == number).findFirst().orElseThrow();
    }

    private static void check(final Station to, final long wc, final Station from, final int group, final byte[] data,
            final int imm) {
        final int slot = (int) Memory.i64(wc + Layouts.WC_WR_ID);
        final long at = to.memory + (long) slot * LENGTH;
        assertEquals(GlobalRoute.SIZE + data.length, Memory.i32(wc + Layouts.WC_BYTE_LEN));
        assertEquals(from.qp.number, Memory.i32(wc + Layouts.WC_SRC_QP));
        assertEquals(imm, Memory.i32(wc + Layouts.WC_IMM));
        assertEquals(Completion.GRH | Completion.WITH_IMM, Memory.i32(wc + Layouts.WC_FLAGS));
        assertEquals(from.device.id, Memory.net64(at + 16), "the header names the sender");
        assertEquals(PREFIX, Memory.net64(at + 24));
        assertEquals(group, Memory.net64(at + 32), "and the group");
        assertArrayEquals(data, Memory.bytes(at + GlobalRoute.SIZE, data.length));
        to.receive(slot);
    }

    @Test
    void whatIsNoGroupIsRefused() {
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final Station station = new Station(network.device());
        final Multicast multicast = station.device.multicast;
        final QueuePair rc = station.device.queuePair(SimulatedDevice.number(station.device.create(false)));
        assertThrows(DeviceException.class, () -> multicast.attach(station.qp, 0xfe80L << 48, 1, 0));
        assertThrows(DeviceException.class, () -> multicast.attach(rc, PREFIX, 1, 0));
        assertThrows(DeviceException.class, () -> multicast.detach(station.qp, PREFIX, 1, 0));
        multicast.attach(station.qp, PREFIX, 1, 0);
        assertTrue(multicast.attached(station.qp));
        assertThrows(DeviceException.class, () -> multicast.detach(station.qp, PREFIX, 1, 5), "with another lid");
        multicast.detachAll(station.qp);
        assertTrue(!multicast.attached(station.qp));
    }

    /** Whatever of a datagram is changed on its way: who knows the secret drops it, and says so a few times. */
    @Property(tries = 300)
    void whatWasTamperedWithIsDropped(@ForAll final long seed) throws ProtocolException {
        final Random random = new Random(seed);
        final SimulatedNetwork network = new SimulatedNetwork(seed, "a secret");
        final byte[] datagram = sent(network, random);
        final byte[] changed = changed(datagram, random);
        final Station station = listener(network);
        arrive(station, changed);
        assertEquals(0, station.device.poll(), "it is dropped");
        for (int i = 0; i < 20; i++) {
            arrive(station, changed);
        }
        assertTrue(!station.device.said.isEmpty() && station.device.said.size() <= 4, station.device.said.toString());
        arrive(station, datagram);
        assertNotEquals(0, station.device.poll(), "and harms nothing");
    }

    /** Without a secret nobody recognises who changes bytes; but what is taken is within its bounds. */
    @Property(tries = 300)
    void randomBytesHarmNothing(@ForAll final long seed) throws ProtocolException {
        final Random random = new Random(seed);
        final SimulatedNetwork network = new SimulatedNetwork(seed);
        final Station station = listener(network);
        byte[] datagram = sent(network, random);
        for (int i = 0; i < 5; i++) {
            datagram = changed(datagram, random);
            arrive(station, datagram);
        }
        for (long wc = station.device.poll(); wc != 0; wc = station.device.poll()) {
            assertEquals(0, Memory.i32(wc + Layouts.WC_STATUS));
            assertTrue(Memory.i32(wc + Layouts.WC_BYTE_LEN) <= LENGTH);
        }
        assertEquals(QueuePair.RTS, station.qp.state);
        assertTrue(station.device.said.size() <= 4);
    }

    @Test
    void ofAJobWithAnotherSecretItIsDropped() throws ProtocolException {
        for (final String other : new String[] {"", "other"}) {
            final byte[] datagram = sent(new SimulatedNetwork(1, other), new Random(1));
            final Station station = listener(new SimulatedNetwork(1, "mine"));
            arrive(station, datagram);
            assertEquals(0, station.device.poll());
            assertTrue(station.device.said.getFirst().contains("secret"), station.device.said.toString());
        }
        final byte[] datagram = sent(new SimulatedNetwork(1, "other"), new Random(1));
        final Station station = listener(new SimulatedNetwork(1));
        arrive(station, datagram);
        assertEquals(0, station.device.poll(), "nor is it taken by those without one");
    }

    /** Over real sockets: of a channel that it has joined a process gets all, its own, too, of others nothing. */
    @Test
    void socketsReceiveOfTheirChannelsAlone() {
        final SimulatedNetwork network = new SimulatedNetwork(1);
        final SimulatedDevice[] devices = {network.device(), network.device(), network.device()};
        final MulticastSocket[] sockets = new MulticastSocket[devices.length];
        for (int i = 0; i < sockets.length; i++) {
            sockets[i] = new MulticastSocket(new Posix(), 127 << 24 | 1);
        }
        sockets[0].join(3);
        sockets[1].join(3);
        sockets[2].join(4);
        sockets[1].join(5);
        sockets[1].leave(5);
        final long at = devices[0].posix.allocate(Multicast.LONGEST);
        assertEquals(0, sockets[0].send(5, at, 1), "nobody hears it");
        assertEquals(0, sockets[0].send(3, at, Multicast.LONGEST), "longer than a packet");
        final int[] heard = {1, 1, 0};
        for (int i = 0; i < sockets.length; i++) {
            final long deadline = System.nanoTime() + 10_000_000_000L;
            while (devices[i].said.size() < heard[i] && System.nanoTime() < deadline) {
                new Posix().awaitReadable(sockets[i].fd, 1_000_000_000L);
                sockets[i].ready(devices[i].multicast);
            }
            sockets[i].ready(devices[i].multicast);
            // It is no datagram of ours, which each says that gets it.
            assertEquals(heard[i], devices[i].said.size(), "process " + i);
        }
        for (final MulticastSocket socket : sockets) {
            socket.close();
        }
    }

    private static byte[] sent(final SimulatedNetwork network, final Random random) throws ProtocolException {
        new Station(network.device()).send(5, new byte[random.nextInt(200)], QKEY, 1);
        network.settle();
        return network.multicasts.getLast();
    }

    private static Station listener(final SimulatedNetwork network) {
        final Station station = new Station(network.device());
        station.change(5);
        for (int slot = 0; slot < RECEIVES; slot++) {
            station.receive(slot);
        }
        return station;
    }

    /** Other bytes somewhere, or fewer, or more. */
    private static byte[] changed(final byte[] datagram, final Random random) {
        final byte[] changed = java.util.Arrays.copyOf(datagram, switch (random.nextInt(4)) {
            case 0 -> random.nextInt(Math.max(1, datagram.length));
            case 1 -> datagram.length + 1 + random.nextInt(Multicast.LONGEST);
            default -> datagram.length;
        });
        if (changed.length == datagram.length && changed.length > 0) {
            for (int i = random.nextInt(4); i >= 0; i--) {
                // Mostly in the headers.
                changed[random.nextInt(random.nextBoolean() ? Math.min(Multicast.HEADERS, changed.length)
                        : changed.length)] ^=
                        (byte) (1 << random.nextInt(8));
            }
            if (java.util.Arrays.equals(changed, datagram)) {
                changed[0]++; // the same bit twice
            }
        }
        return changed;
    }

    private static void arrive(final Station station, final byte[] datagram) {
        final long at = station.device.posix.allocate(Math.max(1, datagram.length));
        Memory.put(at, datagram);
        station.device.multicast.received(at, datagram.length);
        station.device.posix.free(at);
    }
}
