// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.shadowverbs.driver.model.DomainMember;

/**
 * An XRC domain whose queues, and queue pairs that receive, are of several processes. A message is seen by the process of the
 * queue that it names; the completions of one queue pair become visible in order, and each queue is looked at when it is its
 * turn. Queues are known by their index.
 */
final class SimulatedDomain {
    /** One process' part of it. */
    final class Member {
        final int rank;
        final List<Integer> queues = new ArrayList<>();
        DomainDrain part;
        private byte[] published;

        Member(final int rank) {
            this.rank = rank;
        }

        private String name() {
            return new DomainMember(rank, 1).name();
        }

        void begin() {
            part = new DomainDrain(name(), members.stream().filter(m -> m != this).map(Member::name).toList());
            queues.forEach(q -> part.queues.add(new Pool.Queue(null, q)));
        }

        void hear() {
            for (final Member other : members) {
                if (other != this && other.published != null) {
                    part.hear(other.name(), other.published);
                }
            }
        }

        /** One queue after the other; in between the network goes on. */
        void look(final Random random, final Runnable network) {
            for (final Pool.Queue queue : part.queues) {
                users.forEach(u -> see(u, queue.number, random));
                network.run();
            }
            for (final Pool.Queue queue : part.queues) {
                queue.receives = receives[queue.number] - users.stream().mapToInt(u -> counted(u, queue.number, false)).sum();
                queue.landings = landings[queue.number] - users.stream().mapToInt(u -> counted(u, queue.number, true)).sum();
            }
        }

        /** As {@link Drain} does it, with all that was seen. */
        void act() {
            if (!part.conclude()) {
                return;
            }
            final Pool.Landing landing = part.landing();
            if (landing != null) {
                for (int q = 0; q < receives.length; q++) {
                    if (left(q, true) > 0) {
                        throw new AssertionError("two landings at once");
                    }
                }
                landings[landing.queue.number]++;
                landingLength = landing.length;
                part.landed(landing.queue);
            }
            final Share share = new Share();
            for (final SimulatedEnd user : users) {
                if (user.owner == this) {
                    share.targets.add(new Share.Target(user.number, user.received(), user.heard));
                } else {
                    share.foreignQps.put(user.number, (long) seen(user, this));
                }
            }
            part.look(share);
        }

        void publish() {
            published = part.said();
        }
    }

    final List<Member> members = new ArrayList<>();
    final List<SimulatedEnd> users = new ArrayList<>();
    /** Of the last landing. */
    long landingLength;
    private final int[] receives;
    private final int[] landings;
    private final Map<SimulatedEnd, Integer> visible = new HashMap<>();
    /** By queue: how many messages for it its process has seen. */
    private final Map<SimulatedEnd, int[]> seen = new HashMap<>();

    SimulatedDomain(final int... receives) {
        this.receives = receives;
        landings = new int[receives.length];
    }

    private void see(final SimulatedEnd user, final int queue, final Random random) {
        final int before = visible.getOrDefault(user, 0);
        final int now = before + random.nextInt(user.taken.size() - before + 1);
        visible.put(user, now);
        counts(user)[queue] = (int) user.taken.subList(0, now).stream().filter(t -> t.queue() == queue).count();
    }

    private int[] counts(final SimulatedEnd user) {
        return seen.computeIfAbsent(user, u -> new int[receives.length]);
    }

    /** Of what was seen in a queue, receives or landings. */
    private int counted(final SimulatedEnd user, final int queue, final boolean landing) {
        return (int) user.taken.stream().filter(t -> t.queue() == queue).limit(counts(user)[queue])
                .filter(t -> t.landing() == landing).count();
    }

    /** In truth. */
    int left(final int queue, final boolean landing) {
        return (landing ? landings : receives)[queue]
                - users.stream().mapToInt(u -> u.taken(queue, landing, u.taken.size())).sum();
    }

    /** What a process has seen of the messages for a queue pair. */
    int seen(final SimulatedEnd user, final Member member) {
        return member.queues.stream().mapToInt(q -> counts(user)[q]).sum();
    }

    int seenByAll(final SimulatedEnd user) {
        return members.stream().mapToInt(m -> seen(user, m)).sum();
    }
}
