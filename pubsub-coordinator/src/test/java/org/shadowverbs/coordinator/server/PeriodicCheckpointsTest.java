// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.Command;
import org.shadowverbs.coordinator.protocol.HostMessages.Result;
import org.shadowverbs.coordinator.protocol.LaunchMessages.RegisterTree;
import org.shadowverbs.coordinator.protocol.LaunchMessages.Registered;
import org.shadowverbs.coordinator.protocol.RunDirectory;

/** With a timer and a clock that the test drives. */
@Timeout(120)
class PeriodicCheckpointsTest {
    private static final Duration MTBF = Duration.ofHours(6);
    private static final Interval AUTO = new Interval(true, Duration.ZERO, MTBF);

    private final HandTimer timer = new HandTimer();
    private TestJob job;
    private PeriodicCheckpoints periodic;
    private long now;
    private int made;
    private String text;
    private Duration cost = Duration.ofSeconds(2);

    /** Holds what is to be done next, and does nothing by itself. */
    private static final class HandTimer extends ScheduledThreadPoolExecutor {
        private Runnable task;
        private Duration wait;

        HandTimer() {
            super(0);
        }

        @Override
        public ScheduledFuture<?> schedule(final Runnable command, final long delay, final TimeUnit unit) {
            task = command;
            wait = Duration.of(delay, unit.toChronoUnit());
            final Callable<Void> nothing = () -> null;
            return super.schedule(nothing, Long.MAX_VALUE / 4, TimeUnit.NANOSECONDS);
        }
    }

    @BeforeEach
    void start() throws Exception {
        job = new TestJob(20);
        periodic = new PeriodicCheckpoints(timer, Runnable::run, job.coordinator.job(), () -> now, this::make);
    }

    @AfterEach
    void stop() throws Exception {
        timer.shutdownNow();
        job.close();
    }

    private void make() {
        made++;
        periodic.made(new CheckpointRun.Outcome(cost == null ? null : Path.of("/there"), 1, 1, 1, 1, true, 0, Map.of(), 1,
                cost == null ? 0 : cost.toNanos(), cost == null ? "no" : "", List.of()));
    }

    private void pass(final Duration time) {
        now += time.toNanos();
    }

    /** The time comes for which the timer was set. */
    private void fire() {
        pass(timer.wait);
        timer.task.run();
    }

    @Test
    void theFirstOneIsEarlyAndTheNextAsItsCostSays() throws Exception {
        job.rank("a");
        periodic.begin(AUTO);
        assertEquals(PeriodicCheckpoints.EARLY, timer.wait);
        assertNull(periodic.plan().cost());
        fire();
        assertEquals(1, made);
        assertEquals(CheckpointInterval.of(cost, MTBF), timer.wait);
        assertEquals(cost, periodic.plan().cost());
        cost = Duration.ofSeconds(6);
        fire();
        assertEquals(2, made);
        assertEquals(CheckpointInterval.of(Duration.ofSeconds(4), MTBF), timer.wait);
        assertEquals(timer.wait, periodic.plan().period());
    }

    @Test
    void oneThatSomebodyAskedForPutsTheNextOff() throws Exception {
        job.rank("a");
        periodic.begin(AUTO);
        fire();
        final Duration interval = timer.wait;
        final Runnable waiting = timer.task;
        pass(interval.minusSeconds(1));
        make();
        pass(Duration.ofSeconds(1));
        waiting.run(); // it had its turn behind the other
        assertEquals(2, made);
        assertEquals(interval.minusSeconds(1), timer.wait);
    }

    @Test
    void whereNoneCanBeMadeItIsTriedLessAndLessOften() throws Exception {
        job.rank("a");
        periodic.begin(AUTO);
        cost = null;
        for (int i = 0; i < 10; i++) {
            assertEquals(PeriodicCheckpoints.EARLY.multipliedBy(1L << Math.min(i, 6)), timer.wait);
            fire();
        }
        cost = Duration.ofSeconds(2);
        fire();
        assertEquals(CheckpointInterval.of(cost, MTBF), timer.wait);
    }

    @Test
    void aJobWithoutProgramsHasNone() throws Exception {
        periodic.begin(AUTO);
        assertNull(timer.task);
        final TestRank a = job.rank("a");
        periodic.begin(AUTO);
        a.close();
        job.coordinator.job().epoch().await(job.coordinator.job()::isIdle, Duration.ofSeconds(60), () -> "the rank is still there");
        fire();
        assertEquals(0, made);
        assertNull(periodic.plan().period());
    }

    @Test
    void aRestartedJobKnowsTheCost() throws Exception {
        job.rank("a");
        periodic.restarted(Duration.ofSeconds(3));
        periodic.begin(AUTO);
        assertEquals(CheckpointInterval.of(Duration.ofSeconds(3), MTBF), timer.wait);
        fire();
        assertEquals(1, made);
    }

    @Test
    void aLaunchMayAskForThemAndStatusSaysWhatTheyComeFrom() throws Exception {
        final TestRank a = job.rank("a");
        assertEquals("null", status().at("/interval").toString());
        try (FrameChannel launch = FrameChannel.connect(RunDirectory.agentSocket(job.coordinator.runDirectory()))) {
            launch.write(new RegisterTree(FrameType.VERSION, "", a.process.pid(), List.of("test"), "/",
                    Map.of("interval", "auto", "mtbf", "5400")));
            assertTrue(launch.read() instanceof Registered);
        }
        job.coordinator.job().epoch().await(() -> job.coordinator.periodic().plan().period() != null, Duration.ofSeconds(60),
                () -> "the launch's settings have not come");
        status();
        assertTrue(text.contains("\nthe first checkpoint after 60 s, to learn what it costs"), text);
        job.coordinator.periodic().restarted(Duration.ofMillis(1500));
        final JsonNode interval = status().at("/interval");
        assertEquals(CheckpointInterval.of(Duration.ofMillis(1500), Duration.ofMinutes(90)).toNanos() / 1e9,
                interval.at("/seconds").doubleValue());
        assertEquals(1.5, interval.at("/cost_seconds").doubleValue());
        assertEquals(1.5, interval.at("/mtbf_hours").doubleValue());
        assertTrue(interval.at("/mtbf_given").booleanValue());
        assertTrue(text.contains("\na checkpoint every 126 s: it stops the programs for 1.500 s, and a failure is expected every"
                + " 1.5 h (given)"), text);
    }

    private JsonNode status() throws Exception {
        try (FrameChannel channel = FrameChannel.connect(new InetSocketAddress("localhost", job.coordinator.port()), 20_000)) {
            channel.write(new Command(FrameType.VERSION, "", "status", Map.of()));
            final Result result = (Result) channel.read();
            text = result.text();
            return new ObjectMapper().readTree(result.json());
        }
    }

    @Test
    void aFixedIntervalStaysAsItIs() {
        periodic.begin(Interval.every(Duration.ofSeconds(7)));
        periodic.begin(AUTO);
        for (int i = 1; i <= 3; i++) {
            assertEquals(Duration.ofSeconds(7), timer.wait);
            fire();
            assertEquals(i, made);
        }
    }

    @Test
    void whatACheckpointStopsIsMeasured() throws Exception {
        job.rank("a");
        final CheckpointRun.Outcome o = job.checkpoint();
        assertTrue(o.stoppedNanos() > 0 && o.stoppedNanos() < o.totalNanos(), o.toString());
        assertEquals(Duration.ofNanos(o.stoppedNanos()), job.coordinator.periodic().plan().cost());
    }
}
