// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.util.ArrayList;
import java.util.List;

/**
 * A shared receive queue, or those of an XRC domain, with the ends that receive from it, and what its rank knows of it.
 * Queues are known by their index.
 */
final class SimulatedPool {
    final List<SimulatedEnd> users = new ArrayList<>();
    final Pool seen;
    private final int[] receivesPosted;
    private final int[] landingsPosted;
    /** Of the last landing. */
    long landingLength;

    SimulatedPool(final int... receives) {
        receivesPosted = receives;
        landingsPosted = new int[receives.length];
        seen = new Pool(receives.length > 1);
        for (int i = 0; i < receives.length; i++) {
            seen.queues.add(new Pool.Queue(null, i));
        }
    }

    int receivesLeft(final int queue) {
        return receivesPosted[queue] - users.stream().mapToInt(u -> u.taken(queue, false, u.taken.size())).sum();
    }

    int landingsLeft(final int queue) {
        return landingsPosted[queue] - users.stream().mapToInt(u -> u.taken(queue, true, u.taken.size())).sum();
    }

    /** sv_srq_bookmark. */
    void look() {
        for (int i = 0; i < receivesPosted.length; i++) {
            final int queue = i;
            seen.queues.get(i).receives = receivesPosted[i]
                    - users.stream().mapToInt(u -> u.taken(queue, false, u.received)).sum();
            seen.queues.get(i).landings = landingsPosted[i]
                    - users.stream().mapToInt(u -> u.taken(queue, true, u.received)).sum();
        }
    }

    /** As {@link Drain} does it. */
    void land() {
        final Pool.Landing landing = seen.landing(users);
        if (landing != null) {
            for (int i = 0; i < landingsPosted.length; i++) {
                if (landingsLeft(i) > 0) {
                    throw new AssertionError("two landings at once");
                }
            }
            landingsPosted[landing.queue.number]++;
            landingLength = landing.length;
            landing.queue.landings++;
            seen.landingsPosted++;
        }
    }
}
