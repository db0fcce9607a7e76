// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.protocol.JobHistory;

class FailureHistoryTest {
    private static final Duration HOUR = Duration.ofHours(1);

    private final AtomicLong now = new AtomicLong(-5);
    private final FailureHistory history = new FailureHistory(now::get, Duration.ZERO, 0);

    private void pass(final Duration time) {
        now.addAndGet(time.toNanos());
    }

    @Test
    void timeWithoutAProgramDoesNotCount() {
        pass(HOUR);
        assertEquals(Duration.ZERO, history.ran());
        history.runs();
        pass(HOUR);
        history.runs();
        pass(HOUR);
        assertEquals(HOUR.multipliedBy(2), history.ran());
        assertEquals(Duration.ofHours(26), history.mtbf());
    }

    @Test
    void aRestartBringsTheHistory() {
        history.restarted(new JobHistory(HOUR.multipliedBy(4).toMillis(), 2, true, 0));
        pass(HOUR);
        assertEquals(3, history.failures());
        assertEquals(HOUR.multipliedBy(5), history.ran());
        assertEquals(Duration.ofHours(29).dividedBy(4), history.mtbf());
    }

    @Test
    void aJobThatWasEndedByItsCheckpointHasNotFailed() {
        history.restarted(new JobHistory(0, 2, false, 0));
        assertEquals(2, history.failures());
    }

    /** Its checkpoint was made before the last failures. */
    @Test
    void theSameCheckpointMayServeSeveralFailures() {
        history.runs();
        for (int i = 1; i <= 3; i++) {
            pass(HOUR);
            history.restarted(new JobHistory(10, 0, true, 0));
            assertEquals(i, history.failures());
            assertEquals(HOUR.multipliedBy(i), history.ran());
        }
    }

    @Test
    void anotherJobBeginsAnew() {
        history.runs();
        pass(HOUR);
        history.forget();
        history.restarted(new JobHistory(10, 1, true, 0));
        assertEquals(2, history.failures());
        assertEquals(Duration.ofMillis(10), history.ran());
    }

    @Test
    void itsSettingComesBackAsItWas() {
        final JobHistory h = new JobHistory(1, 2, true, 3);
        assertEquals(h, JobHistory.of(h.text()));
    }
}
