// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CheckpointIntervalTest {
    private static final long MONTH_MILLIS = 30L * 24 * 3600 * 1000;
    private static final long CENTURY_MILLIS = 100L * 365 * 24 * 3600 * 1000;

    private static Duration of(final long costMillis, final long mtbfMillis) {
        return CheckpointInterval.of(Duration.ofMillis(costMillis), Duration.ofMillis(mtbfMillis));
    }

    /** In seconds; computed from the formula by another program. */
    @ParameterizedTest
    @CsvSource({"60, 86400, 3180", "300, 86400, 7001", "1, 3600, 84", "600, 21600, 4699"})
    void isDalys(final long cost, final long mtbf, final long expected) {
        assertEquals(expected, of(cost * 1000, mtbf * 1000).plusMillis(500).toSeconds());
    }

    @Test
    void isNeverAbsurd() {
        assertEquals(CheckpointInterval.SHORTEST, of(0, 3_600_000));
        assertEquals(CheckpointInterval.LONGEST, of(600_000, CENTURY_MILLIS));
        assertEquals(Duration.ofMinutes(40), of(600_000, 1_000));
    }

    @Property
    void growsWithTheCost(@ForAll @LongRange(min = 0, max = MONTH_MILLIS) final long cost,
            @ForAll @LongRange(min = 0, max = MONTH_MILLIS) final long more,
            @ForAll @LongRange(min = 1, max = CENTURY_MILLIS) final long mtbf) {
        assertTrue(of(cost, mtbf).compareTo(of(cost + more, mtbf)) <= 0);
    }

    @Property
    void growsWithTheTimeBetweenFailures(@ForAll @LongRange(min = 0, max = MONTH_MILLIS) final long cost,
            @ForAll @LongRange(min = 1, max = CENTURY_MILLIS) final long mtbf,
            @ForAll @LongRange(min = 0, max = CENTURY_MILLIS) final long more) {
        assertTrue(of(cost, mtbf).compareTo(of(cost, mtbf + more)) <= 0);
    }

    @Property
    void staysWithinItsBounds(@ForAll @LongRange(min = 0, max = MONTH_MILLIS) final long cost,
            @ForAll @LongRange(min = 1, max = CENTURY_MILLIS) final long mtbf) {
        final Duration interval = of(cost, mtbf);
        final Duration least = Duration.ofMillis(cost * CheckpointInterval.COSTS);
        assertTrue(interval.compareTo(CheckpointInterval.SHORTEST) >= 0 && interval.compareTo(least) >= 0);
        assertTrue(interval.compareTo(CheckpointInterval.LONGEST) <= 0 || interval.equals(least));
    }
}
