// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

class HangWatchTest {
    private static final Duration TIME = Duration.ofSeconds(10);

    private long now;
    private final HangWatch watch = new HangWatch(() -> now);

    private void pass(final int seconds) {
        now += Duration.ofSeconds(seconds).toNanos();
    }

    @Test
    void hangsWhenNoRankHasDoneAnythingForSoLong() {
        watch.works("a", 5);
        watch.works("b", 5);
        pass(8);
        watch.works("a", 5);
        watch.works("b", 6);
        pass(8);
        watch.works("a", 5);
        watch.works("b", 6);
        assertFalse(watch.hangs(TIME));
        pass(3);
        assertTrue(watch.hangs(TIME));
    }

    /** It may be back sooner than anybody looks again. */
    @Test
    void aJobThatIsBroughtBackHasItsTimeAgain() {
        pass(11);
        assertTrue(watch.hangs(TIME));
        pass(9);
        assertFalse(watch.hangs(TIME));
        pass(2);
        assertTrue(watch.hangs(TIME));
    }

    @Test
    void aRankThatComesOrSomethingElseThatGoesOnIsProgress() {
        watch.works("a", 5);
        pass(9);
        watch.works("b", 0);
        pass(9);
        assertFalse(watch.hangs(TIME));
        watch.goesOn();
        pass(9);
        assertFalse(watch.hangs(TIME));
    }

    /** It has been restored, so its numbers may be what they were. */
    @Test
    void aRankThatComesBackIsProgressToo() {
        watch.works("a", 5);
        watch.goesOn();
        pass(11);
        watch.works("a", 5);
        assertFalse(watch.hangs(TIME));
    }
}
