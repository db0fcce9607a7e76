// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.time.Duration;

/**
 * The rests between two looks at one thing that is waited for. Who looks takes processor time from what he waits for; so a rest
 * lasts a tenth of what has been waited already, and 20 to 200 ms.
 */
public final class Looks {
    private static final Duration SHORTEST = Duration.ofMillis(20);
    private static final Duration LONGEST = Duration.ofMillis(200);
    private static final int PART = 10;

    private final long begun = System.nanoTime();

    /** After a look in vain. */
    public void rest() throws InterruptedException {
        final Duration part = Duration.ofNanos(System.nanoTime() - begun).dividedBy(PART);
        Thread.sleep(part.compareTo(SHORTEST) < 0 ? SHORTEST : part.compareTo(LONGEST) > 0 ? LONGEST : part);
    }
}
