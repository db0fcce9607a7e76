// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;

/** Waits of tests for what somebody else does. */
public final class TestWait {
    private static final int DEADLINE_SECONDS = 60;

    /** What is waited for. */
    public interface Condition {
        boolean holds() throws Exception;
    }

    private TestWait() {
    }

    public static void await(final String what, final Condition condition) throws Exception {
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_SECONDS);
        while (!condition.holds()) {
            assertTrue(System.nanoTime() < end, "waited " + DEADLINE_SECONDS + " s for " + what);
            Thread.sleep(5);
        }
    }
}
