// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;

/**
 * Several ranks have the same port, whose device has few numbers and gives each again as soon as it is free, to whichever
 * rank. Any history of creating and destroying queue pairs, of ranks that join, and of checkpoints: after some the devices
 * are the same, after others they are different ones, and what was two may be one; or each rank has one for itself, as on ib2tcp.
 */
class SharedPortTest {
    private static final int NUMBERS = 60;
    private static final int MOST = 9;

    private static final class Device {
        final int lid;
        /** Of each process that has a device for itself; else {@link NumberRanges#NONE}. */
        final int range;
        final Set<Integer> used = new HashSet<>();

        Device(final int lid, final int range) {
            this.lid = lid;
            this.range = range;
        }

        int create(final Random random) {
            for (;;) {
                final int number = 2 + random.nextInt(NUMBERS) + (range == NumberRanges.NONE ? 0 : NumberRanges.first(range));
                if (used.add(number)) {
                    return number;
                }
            }
        }
    }

    private record QueuePair(int virtual, int real) {
    }

    private static final class Rank {
        final IdSpace numbers;
        final IdSpace others;
        Device device;
        PortIds port;
        List<QueuePair> living = new ArrayList<>();
        /** Those that were carried over. */
        final List<QueuePair> destroyed = new ArrayList<>();

        Rank(final Device device, final IdMasks masks) {
            numbers = new IdSpace(masks.qpNum(), 2);
            others = new IdSpace(0, 0);
            this.device = device;
            port = real(device, masks.lid(device.lid));
        }

        private static PortIds real(final Device device, final int virtualLid) {
            return new PortIds(1, virtualLid, device.lid, 0, 1, new PortIds.GidPair[0]);
        }

        void create(final Random random) {
            final List<Integer> refused = new ArrayList<>();
            while (true) {
                final int number = device.create(random);
                if (numbers.accepts(number)) {
                    living.add(new QueuePair(numbers.virtualOf(number), number));
                    break;
                }
                refused.add(number);
            }
            assertTrue(refused.size() <= numbers.taken() + 2);
            device.used.removeAll(refused);
        }

        void destroy(final int which) {
            final QueuePair gone = living.remove(which);
            device.used.remove(gone.real);
            if (numbers.own().containsVirtual(gone.virtual)) {
                destroyed.add(gone);
            }
        }

        void move(final Device to, final Random random) {
            device = to;
            port = port.carriedOverTo(real(to, 0));
            final List<QueuePair> before = living;
            living = new ArrayList<>();
            before.forEach(qp -> living.add(new QueuePair(qp.virtual, to.create(random))));
            destroyed.clear();
        }

        OwnerRecord record(final int rank) {
            final int[] virtuals = living.stream().mapToInt(QueuePair::virtual).toArray();
            final int[] reals = living.stream().mapToInt(QueuePair::real).toArray();
            return new OwnerRecord(rank, new OwnerRecord.ContextIds[] {context(ExceptionSet.of(virtuals, reals, reals.length))});
        }

        OwnerRecord.ContextIds context(final ExceptionSet carriedOver) {
            return new OwnerRecord.ContextIds(new PortIds[] {port}, carriedOver, ExceptionSet.EMPTY, ExceptionSet.EMPTY, Map.of(),
                    device.range);
        }

        void adopt(final AddressBook book, final OwnerRecord.ContextIds own) {
            book.reattach(own, numbers, others, others, ExceptionSet.EMPTY);
        }
    }

    private final List<Rank> ranks = new ArrayList<>();
    private AddressBook book = AddressBook.EMPTY;
    private int lids = 10;

    @Property(tries = 2000)
    void aNumberAtAnAddressIsOneQueuePair(@ForAll @IntRange(min = 1, max = 2) final int devices,
            @ForAll @IntRange(max = 120) final int steps, @ForAll final boolean scrambled, @ForAll final long seed) {
        final IdMasks masks = scrambled ? IdMasks.SCRAMBLED : IdMasks.IDENTITY;
        final Random random = new Random(seed);
        ranks.clear();
        book = AddressBook.EMPTY;
        for (int i = 0; i < devices; i++) {
            final Device device = new Device(++lids, NumberRanges.NONE);
            ranks.add(new Rank(device, masks));
            ranks.add(new Rank(device, masks));
        }
        for (int i = 0; i < steps; i++) {
            final Rank rank = ranks.get(random.nextInt(ranks.size()));
            final int what = random.nextInt(20);
            if (what < 10 && rank.device.used.size() < MOST) {
                rank.create(random);
            } else if (what < 17 && !rank.living.isEmpty()) {
                rank.destroy(random.nextInt(rank.living.size()));
            } else if (what == 17 && ranks.size() < 6) {
                final Rank newcomer = new Rank(rank.device.range == NumberRanges.NONE ? rank.device
                        : new Device(++lids, random.nextInt(NumberRanges.COUNT)), masks);
                newcomer.adopt(book, newcomer.context(ExceptionSet.EMPTY));
                ranks.add(newcomer);
            } else {
                reattach(random);
            }
            check(masks);
        }
    }

    /** Objects are made anew, on the same devices or others; two may become one. */
    private void reattach(final Random random) {
        if (random.nextInt(3) == 0) {
            reattachApart(random);
            return;
        }
        final boolean resumed = random.nextBoolean() && ranks.get(0).device.range == NumberRanges.NONE;
        final boolean one = ranks.stream().mapToInt(rank -> rank.living.size()).sum() < MOST && random.nextBoolean();
        final Map<Device, Device> moved = new IdentityHashMap<>();
        // Those who share an address are of one host, and stay so: they get one device again.
        final Map<Integer, Device> shared = new HashMap<>();
        for (final Rank rank : ranks) {
            final Device before = rank.device.range == NumberRanges.NONE ? rank.device
                    : shared.computeIfAbsent(rank.port.virtualLid, lid -> rank.device);
            if (one && !moved.isEmpty() && !resumed) {
                moved.putIfAbsent(before, moved.values().iterator().next());
            }
            moved.computeIfAbsent(before, old -> new Device(resumed ? old.lid : ++lids, NumberRanges.NONE));
            moved.putIfAbsent(rank.device, moved.get(before));
        }
        reattach(ranks.stream().map(rank -> moved.get(rank.device)).toList(), random);
    }

    /** Each rank gets a device for itself, or gets another one. */
    private void reattachApart(final Random random) {
        final Map<Integer, Set<String>> addresses = new HashMap<>();
        for (int i = 0; i < ranks.size(); i++) {
            addresses.put(i, NumberRanges.decode(NumberRanges.encode(NumberRanges.addresses(List.of(ranks.get(i).port)))));
        }
        final List<Device> devices = new ArrayList<>();
        for (int i = 0; i < ranks.size(); i++) {
            final int range = NumberRanges.choose(i, addresses);
            devices.add(new Device(++lids, range == NumberRanges.NONE ? random.nextInt(NumberRanges.COUNT) : range));
        }
        reattach(devices, random);
    }

    private void reattach(final List<Device> devices, final Random random) {
        final List<OwnerRecord> records = new ArrayList<>();
        for (int i = 0; i < ranks.size(); i++) {
            ranks.get(i).move(devices.get(i), random);
            records.add(ranks.get(i).record(i));
        }
        book = new AddressBook(records);
        for (int i = 0; i < ranks.size(); i++) {
            ranks.get(i).adopt(book, records.get(i).contextAt(0));
        }
    }

    private void check(final IdMasks masks) {
        final Set<List<Integer>> addresses = new HashSet<>();
        final Map<List<Integer>, List<Integer>> reals = new HashMap<>();
        for (final Rank rank : ranks) {
            for (final QueuePair qp : rank.living) {
                final List<Integer> address = List.of(rank.port.virtualLid, qp.virtual);
                assertTrue(addresses.add(address), "two queue pairs are " + address);
                assertEquals(List.of(rank.device.lid, qp.real), real(address, masks), "where " + address + " is");
                reals.put(List.of(rank.device.lid, qp.real), address);
            }
        }
        for (final Rank rank : ranks) {
            for (final QueuePair qp : rank.destroyed) {
                final List<Integer> address = List.of(rank.port.virtualLid, qp.virtual);
                assertFalse(reals.containsKey(real(address, masks)), "what was sent to a queue pair that is gone reaches another");
            }
        }
        // As completions of datagrams, and of shared XRC domains, name senders and foreign queue pairs.
        for (final OwnerRecord.ContextIds context : book.contexts()) {
            for (int i = 0; i < context.qpNums.size(); i++) {
                final List<Integer> address = reals.get(List.of(context.portAt(0).realLid, context.qpNums.realAt(i)));
                assertTrue(address == null || address.equals(List.of(context.portAt(0).virtualLid, context.qpNums.virtualAt(i))),
                        "a queue pair goes by the name of one that is gone");
            }
        }
    }

    private List<Integer> real(final List<Integer> address, final IdMasks masks) {
        final AddressBook.Destination found = book.find(address.get(0), null, address.get(1), masks);
        return found != null ? List.of(found.port.realLid, found.realQpNum)
                : List.of(masks.lid(address.get(0)), address.get(1) ^ masks.qpNum());
    }
}
