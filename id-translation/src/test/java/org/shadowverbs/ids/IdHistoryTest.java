// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ids;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;

/** Any history of creating, destroying and re-attaching, of several processes on one device that reuses its ids. */
class IdHistoryTest {
    private static final int ATTEMPTS = 64;

    /** A device with few ids, so that the same ones come again all the time. */
    private static final class Device {
        final Set<Integer> used = new HashSet<>();
        final Random random;

        Device(final Random random) {
            this.random = random;
        }

        int create() {
            for (;;) {
                final int id = 2 + random.nextInt(60);
                if (used.add(id)) {
                    return id;
                }
            }
        }
    }

    private static final class Thing {
        final int virtual;
        int real;

        Thing(final int virtual, final int real) {
            this.virtual = virtual;
            this.real = real;
        }
    }

    private static final class Owner {
        final IdSpace ids;
        final List<Thing> living = new ArrayList<>();
        final List<Thing> dead = new ArrayList<>();

        Owner(final int mask) {
            ids = new IdSpace(mask, 2);
        }
    }

    @Property(tries = 1000)
    void bijectiveNeverAmbiguousNeverStale(@ForAll @IntRange(min = 1, max = 4) final int owners,
            @ForAll @IntRange(max = 60) final int steps, @ForAll final boolean scrambled, @ForAll final long seed) {
        final Random random = new Random(seed);
        final int mask = scrambled ? 0x3c : 0;
        final List<Owner> all = new ArrayList<>();
        for (int i = 0; i < owners; i++) {
            all.add(new Owner(mask));
        }
        Device device = new Device(random);
        for (int i = 0; i < steps; i++) {
            final Owner owner = all.get(random.nextInt(owners));
            final int what = random.nextInt(10);
            if (what < 5 && living(all) < 8) {
                create(owner, device);
            } else if (what < 9 && !owner.living.isEmpty()) {
                final Thing thing = owner.living.remove(random.nextInt(owner.living.size()));
                device.used.remove(thing.real);
                owner.dead.add(thing);
            } else {
                device = new Device(random);
                reattach(all, device);
            }
            check(all, mask);
        }
    }

    private static int living(final List<Owner> all) {
        int n = 0;
        for (final Owner owner : all) {
            n += owner.living.size();
        }
        return n;
    }

    private static void create(final Owner owner, final Device device) {
        final List<Integer> rejected = new ArrayList<>();
        for (int i = 0; i < ATTEMPTS && device.used.size() < 58; i++) {
            final int real = device.create();
            if (owner.ids.accepts(real)) {
                owner.living.add(new Thing(owner.ids.virtualOf(real), real));
                break;
            }
            rejected.add(real);
        }
        device.used.removeAll(rejected);
    }

    private static void reattach(final List<Owner> all, final Device device) {
        final List<ExceptionSet> own = new ArrayList<>();
        for (final Owner owner : all) {
            final int[] virtuals = new int[owner.living.size()];
            final int[] reals = new int[virtuals.length];
            for (int i = 0; i < virtuals.length; i++) {
                owner.living.get(i).real = device.create();
                virtuals[i] = owner.living.get(i).virtual;
                reals[i] = owner.living.get(i).real;
            }
            owner.dead.clear();
            own.add(ExceptionSet.of(virtuals, reals, virtuals.length));
        }
        for (int i = 0; i < all.size(); i++) {
            all.get(i).ids.reattached(own.get(i), own);
        }
    }

    private static void check(final List<Owner> all, final int mask) {
        final Set<Integer> virtuals = new HashSet<>();
        ExceptionSet shared = ExceptionSet.EMPTY;
        for (final Owner owner : all) {
            shared = shared.union(owner.ids.own());
        }
        for (final Owner owner : all) {
            final Set<Integer> reals = new HashSet<>();
            for (final Thing thing : owner.living) {
                assertTrue(virtuals.add(thing.virtual), "two objects of one device have virtual id " + thing.virtual);
                assertEquals(thing.real, owner.ids.realOf(thing.virtual));
                assertEquals(thing.real, shared.realOf(thing.virtual, mask), "as others see it");
                reals.add(thing.real);
            }
            for (final Thing thing : owner.dead) {
                final boolean reborn = owner.living.stream().anyMatch(t -> t.virtual == thing.virtual);
                assertFalse(!reborn && reals.contains(owner.ids.realOf(thing.virtual)),
                        "the id of a destroyed object reaches another");
            }
        }
    }
}
