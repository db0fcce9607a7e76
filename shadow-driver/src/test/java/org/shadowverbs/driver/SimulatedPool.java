// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import java.util.ArrayList;
import java.util.List;

/** A shared receive queue with the ends that receive from it, and what its rank knows of it. */
final class SimulatedPool {
    final List<SimulatedEnd> users = new ArrayList<>();
    final Pool seen = new Pool();
    final int receivesPosted;
    int landingsPosted;
    /** Of the last landing. */
    long landingLength;

    SimulatedPool(final int receives) {
        receivesPosted = receives;
    }

    int receivesLeft() {
        return receivesPosted - users.stream().mapToInt(u -> u.receivesConsumed).sum();
    }

    int landingsLeft() {
        return landingsPosted - users.stream().mapToInt(u -> u.landingsConsumed).sum();
    }

    /** sv_srq_bookmark. */
    void look() {
        seen.receives = receivesPosted - users.stream().mapToInt(SimulatedEnd::seenReceives).sum();
        seen.landings = landingsPosted - users.stream().mapToInt(u -> u.seenLandings).sum();
    }

    /** As {@link Drain} does it. */
    void land() {
        final long length = seen.landing(users);
        if (length != Pool.NO_LANDING) {
            if (landingsLeft() > 0) {
                throw new AssertionError("two landings at once");
            }
            landingsPosted++;
            landingLength = length;
            seen.landings++;
            seen.landingsPosted++;
        }
    }
}
