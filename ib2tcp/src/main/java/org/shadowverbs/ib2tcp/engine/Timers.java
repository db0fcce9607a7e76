// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.engine;

import java.util.ArrayList;

/** The requesters that wait. They are few: those for which something is amiss, and those of datagrams. */
public final class Timers {
    private final ArrayList<Requester> waiting = new ArrayList<Requester>();

    public void add(final Requester requester) {
        if (!waiting.contains(requester)) {
            waiting.add(requester);
        }
    }

    public void remove(final Requester requester) {
        waiting.remove(requester);
    }

    public boolean isEmpty() {
        return waiting.isEmpty();
    }

    /** Nanoseconds until the first is due; not negative. */
    public long delay(final long now) {
        long delay = Long.MAX_VALUE;
        for (int i = 0; i < waiting.size(); i++) {
            delay = Math.min(delay, waiting.get(i).resumeAt - now);
        }
        return Math.max(0, delay);
    }

    public void run(final long now) {
        for (int i = waiting.size() - 1; i >= 0; i--) {
            if (i < waiting.size() && waiting.get(i).resumeAt - now <= 0) {
                waiting.get(i).resume();
            }
        }
    }
}
