// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import java.util.ArrayList;
import java.util.List;

/** A shared receive queue, with the ends that receive from it, and what its rank knows of it. */
final class SimulatedPool {
    final List<SimulatedEnd> users = new ArrayList<>();
    final Pool seen = new Pool(false);
    private final Pool.Queue queue = new Pool.Queue(null, 0);
    private final int receivesPosted;
    private int landingsPosted;
    /** Of the last landing. */
    long landingLength;

    SimulatedPool(final int receives) {
        receivesPosted = receives;
        seen.queues.add(queue);
    }

    int receivesLeft() {
        return receivesPosted - users.stream().mapToInt(u -> u.taken(0, false, u.taken.size())).sum();
    }

    int landingsLeft() {
        return landingsPosted - users.stream().mapToInt(u -> u.taken(0, true, u.taken.size())).sum();
    }

    /** sv_srq_bookmark. */
    void look() {
        queue.receives = receivesPosted - users.stream().mapToInt(u -> u.taken(0, false, u.received)).sum();
        queue.landings = landingsPosted - users.stream().mapToInt(u -> u.taken(0, true, u.received)).sum();
    }

    /** As {@link Drain} does it. */
    void land() {
        final Pool.Landing landing = seen.landing(users);
        if (landing != null) {
            if (landingsLeft() > 0) {
                throw new AssertionError("two landings at once");
            }
            landingsPosted++;
            landingLength = landing.length;
            queue.landings++;
            seen.landingsPosted++;
        }
    }
}
