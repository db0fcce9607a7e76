// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.ShrinkingMode;
import net.jqwik.api.Tuple;
import net.jqwik.api.constraints.Size;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.RunDirectory;

/**
 * Coordinator, agent and the ranks' links, over real sockets, with losses, delays and failures at random steps: no rank stays
 * behind a closed gate, no epoch stays open, and what is said is what is so. The time of the deadlines stands still, but for
 * ranks that are late: so a slow machine makes no difference.
 */
final class CheckpointPropertyTest {
    private static final int DEADLINE_SECONDS = 5;
    private static final long PATIENCE_SECONDS = 120;
    private static final long TURN_NANOS = 3_000_000;

    enum Kind {
        DIES, LEAVES, CANNOT, FAILS_UNEXPECTEDLY, LOSES_ITS_LINK, IS_LATE, IS_SILENT, ANOTHER_JOINS, AGENT_IS_REPLACED,
        COORDINATOR_IS_REPLACED, FREEZE_FAILS, SAVE_FAILS, THAW_FAILS
    }

    /** Something that happens to a rank when it comes to a point, the first time. */
    record Accident(int rank, GatedRank.Point point, Kind kind) {
    }

    @Provide
    Arbitrary<List<Accident>> accidents() {
        return Combinators.combine(Arbitraries.integers().between(0, 3), Arbitraries.of(GatedRank.Point.class),
                Arbitraries.frequencyOf(Tuple.of(1, Arbitraries.just(Kind.IS_SILENT)),
                        Tuple.of(30, Arbitraries.of(Kind.class).filter(k -> k != Kind.IS_SILENT)))).as(Accident::new).list().ofMinSize(1).ofMaxSize(3);
    }

    @Property(tries = 100, shrinking = ShrinkingMode.OFF)
    void nobodyStaysBehindAClosedGateAndWhatIsSaidIsSo(
            @ForAll @Size(min = 1, max = 4) final List<GatedRank.Devices> devices,
            @ForAll("accidents") final List<Accident> accidents) throws Exception {
        final Trial trial = new Trial(devices, accidents);
        try {
            trial.run();
        } finally {
            trial.close();
        }
    }

    /** All others were late, too, so the checkpoint is tried again: with a rank that is still on its way back. */
    @Example
    void aRankThatWasGivenUpComesBackBeforeTheNextCheckpoint() throws Exception {
        nobodyStaysBehindAClosedGateAndWhatIsSaidIsSo(Collections.nCopies(4, GatedRank.Devices.ARE_CLOSED), List.of(
                new Accident(3, GatedRank.Point.RECEIVES_POSTED, Kind.IS_SILENT),
                new Accident(3, GatedRank.Point.CLOSE, Kind.ANOTHER_JOINS)));
    }

    /** One deadline is not the ten after which a rank is given up. */
    @Example
    void aRankThatIsLateOnceToOpenItsGateIsWaitedFor() throws Exception {
        nobodyStaysBehindAClosedGateAndWhatIsSaidIsSo(Collections.nCopies(2, GatedRank.Devices.ARE_CLOSED), List.of(
                new Accident(0, GatedRank.Point.OPENING, Kind.IS_LATE)));
    }

    /** Before or after the outcome, as the threads happen to run. */
    @Example
    void aRankBreaksWhenItHasBeenGivenUp() throws Exception {
        nobodyStaysBehindAClosedGateAndWhatIsSaidIsSo(Collections.nCopies(4, GatedRank.Devices.ARE_CLOSED), List.of(
                new Accident(2, GatedRank.Point.OPENING, Kind.IS_SILENT),
                new Accident(2, GatedRank.Point.OPENING, Kind.FAILS_UNEXPECTEDLY)));
    }

    interface Action {
        void act() throws Exception;
    }

    private static final class Trial {
        private final AtomicLong now = new AtomicLong();
        private final TestJob job = new TestJob(DEADLINE_SECONDS, Interval.NONE, now::get);
        private final List<GatedRank> ranks = new CopyOnWriteArrayList<>();
        private final List<Accident> accidents;
        private final Set<Accident> happened = ConcurrentHashMap.newKeySet();
        private final List<Thread> helpers = new CopyOnWriteArrayList<>();
        private volatile boolean coordinatorReplaced;
        private final AtomicInteger happening = new AtomicInteger();
        private volatile boolean quiet;

        Trial(final List<GatedRank.Devices> devices, final List<Accident> accidents) throws Exception {
            this.accidents = accidents;
            for (final GatedRank.Devices each : devices) {
                add(each);
            }
        }

        private void add() throws Exception {
            add(GatedRank.Devices.STAY);
        }

        private GatedRank add(final GatedRank.Devices devices) throws Exception {
            final int index = ranks.size();
            final GatedRank rank = new GatedRank("r" + index, RunDirectory.agentSocket(job.coordinator.runDirectory()), devices,
                    (r, point) -> happen(r, index, point));
            ranks.add(rank);
            await("rank " + index + " to join", () -> rank.number >= 0);
            return rank;
        }

        void run() throws Exception {
            final List<GatedRank> began = List.copyOf(ranks);
            final Future<CheckpointRun.Outcome> running = job.begin();
            final CheckpointRun.Outcome outcome = outcome(running);
            for (final Thread helper : helpers) {
                helper.join(TimeUnit.SECONDS.toMillis(PATIENCE_SECONDS));
                assertTrue(!helper.isAlive(), () -> helper.getName() + " has not come to its end: " + this);
            }
            quiet = true;
            // A rank that has left can still be late, which moves the time for all.
            await("nothing to happen any more", () -> happening.get() == 0);
            job.images.freezeFails = null;
            job.images.saveFails = null;
            await("all gates to be open", () -> ranks.stream().filter(GatedRank::lives)
                    .allMatch(r -> r.gate == GatedRank.Gate.OPEN && r.crashed == null));
            // Whoever makes its objects anew needs all its peers to do so.
            assertTrue(ranks.stream().filter(r -> r.lives() && r.brokenIn != r.epoch && r.way != null).map(r -> r.way).distinct().count() <= 1,
                    this::toString);
            await("the end of the epoch", this::nothingGoesOn);
            if (outcome != null) {
                check(outcome, began);
            }
            // A coordinator that is replaced may have its run say its end, and thaws nobody any more.
            if (happened.stream().noneMatch(a -> a.kind() == Kind.THAW_FAILS) || outcome != null && !coordinatorReplaced) {
                assertEquals(0, job.images.frozen.get(), () -> "it is frozen: " + this);
            }
            job.images.thawFails.set(0);
            add(); // there may be none left
            await("all that live to be known", () -> known() == living());
            final CheckpointRun.Outcome good = job.checkpoint();
            assertEquals("", good.problem(), this::toString);
            assertEquals(living(), good.ranks(), this::toString);
            await("all gates to be open after a checkpoint without accidents", () -> ranks.stream()
                    .filter(GatedRank::lives).allMatch(r -> r.gate == GatedRank.Gate.OPEN && r.brokenIn != good.epoch()));
            checkFolders(good);
        }

        private long living() {
            return ranks.stream().filter(GatedRank::lives).count();
        }

        private long known() {
            final Job all = job.coordinator.job();
            return all.locked(() -> all.ranks().stream().filter(r -> r.state == MemberState.RUNNING).count() + (all.ranks().size() == living() ? 0 : 1000));
        }

        private boolean nothingGoesOn() {
            final Epoch epoch = job.coordinator.job().epoch();
            return epoch.stage() == Stage.RUNNING && epoch.participants() == 0;
        }

        /** Null: there is none, as its coordinator is gone. */
        private CheckpointRun.Outcome outcome(final Future<CheckpointRun.Outcome> running) throws Exception {
            final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
            for (;;) {
                try {
                    return running.get(20, TimeUnit.MILLISECONDS);
                } catch (TimeoutException e) {
                    if (coordinatorReplaced) {
                        return null;
                    }
                    assertTrue(System.nanoTime() < end, () -> "the checkpoint does not end: " + this);
                } catch (CancellationException | ExecutionException e) {
                    if (!coordinatorReplaced) {
                        throw e;
                    }
                    return null;
                }
            }
        }

        // ---- what must hold ----

        private void check(final CheckpointRun.Outcome outcome, final List<GatedRank> began) throws Exception {
            if (coordinatorReplaced) {
                return; // nobody is told any more
            }
            checkFolders(outcome);
            if (outcome.folder() == null) {
                assertTrue(!outcome.problem().isEmpty(), this::toString);
                return;
            }
            for (final GatedRank rank : ranks) {
                final String name = "rank " + rank.number + " \\([^)]*\\)";
                final boolean said = outcome.problem().matches(".*" + name + "(?! has not said that its gate is open).*");
                // One that was given up when it had said nothing may break only then.
                final boolean givenUp = outcome.problem().matches(".*" + name + " has not said that its gate is open.*");
                final boolean broken = rank.brokenIn == outcome.epoch() && rank.lives();
                final boolean hurt = broken || rank.gone;
                assertTrue(!broken || said || givenUp, () -> rank + " is not named: " + outcome + this);
                assertTrue(!said || hurt, () -> rank + " is named, and is well: " + outcome + this);
            }
            if (accidents.stream().noneMatch(a -> a.kind() == Kind.IS_SILENT)) {
                assertTrue(!outcome.problem().contains("has not said that its gate is open"), () -> outcome + this.toString());
            }
        }

        private void checkFolders(final CheckpointRun.Outcome outcome) throws Exception {
            final List<String> folders = Files.exists(job.checkpoints) ? job.folders() : List.of();
            assertTrue(folders.stream().noneMatch(f -> f.endsWith(".tmp")) || coordinatorReplaced, folders::toString);
            if (outcome.folder() != null) {
                assertEquals(outcome.epoch(), ManifestFile.read(outcome.folder()).epoch());
            }
            final List<Path> safe = new ArrayList<>();
            for (final String name : folders) {
                if (name.startsWith("ckpt-") && ManifestFile.read(job.checkpoints.resolve(name)).epoch() == outcome.epoch()) {
                    safe.add(job.checkpoints.resolve(name));
                }
            }
            assertEquals(outcome.folder() == null ? List.of() : List.of(outcome.folder()), safe, outcome::toString);
        }

        private void await(final String what, final BooleanSupplier condition) throws InterruptedException {
            final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
            while (!condition.getAsBoolean()) {
                assertTrue(System.nanoTime() < end, () -> "waited for " + what + ": " + this);
                Thread.sleep(1);
            }
        }

        // ---- what happens ----

        private void happen(final GatedRank rank, final int index, final GatedRank.Point point)
                throws java.io.IOException, GatedRank.Cannot {
            happening.incrementAndGet();
            try {
                for (final Accident accident : accidents) {
                    if (!quiet && accident.rank() == index && accident.point() == point && happened.add(accident)) {
                        happen(rank, accident.kind());
                    }
                }
            } finally {
                happening.decrementAndGet();
            }
        }

        private void happen(final GatedRank rank, final Kind kind) throws java.io.IOException, GatedRank.Cannot {
            switch (kind) {
                case DIES -> rank.die();
                case LEAVES -> rank.leave();
                case CANNOT -> throw new GatedRank.Cannot("its device has gone");
                case FAILS_UNEXPECTEDLY -> throw new IllegalStateException("unexpected");
                case LOSES_ITS_LINK -> rank.breakLink();
                case IS_LATE -> beLate(1);
                case IS_SILENT -> beLate(16);
                case ANOTHER_JOINS -> aside("joining", this::add);
                case AGENT_IS_REPLACED -> aside("replacing the agent", () -> {
                    job.replaceAgent();
                    ranks.forEach(GatedRank::breakLink);
                });
                case COORDINATOR_IS_REPLACED -> aside("replacing the coordinator", () -> {
                    coordinatorReplaced = true;
                    job.replaceCoordinator(DEADLINE_SECONDS);
                });
                case FREEZE_FAILS -> job.images.freezeFails = "as if it could not be frozen";
                case SAVE_FAILS -> job.images.saveFails = "as if there were no space";
                case THAW_FAILS -> job.images.thawFails.set(2);
            }
        }

        /** For so many deadlines of a phase; each passes for whoever waits. */
        private void beLate(final int deadlines) {
            for (int i = 0; i < deadlines; i++) {
                now.addAndGet(TimeUnit.SECONDS.toNanos(DEADLINE_SECONDS) + 1);
                final Job all = job.coordinator.job();
                all.locked(() -> {
                    all.epoch().changed();
                    return null;
                });
                LockSupport.parkNanos(TURN_NANOS); // for whoever waits to find out
            }
        }

        private void aside(final String what, final Action action) {
            helpers.add(Thread.ofPlatform().daemon().name(what).start(() -> {
                synchronized (job) {
                    try {
                        action.act();
                    } catch (Exception e) {
                        throw new IllegalStateException(e);
                    }
                }
            }));
        }

        @Override
        public String toString() {
            return "\n  ranks " + ranks + "\n  accidents " + accidents + ", happened " + happened + "\n  stage "
                    + job.coordinator.job().epoch().stage() + ", said " + job.lines + "\n  " + log();
        }

        private String log() {
            try (Stream<String> lines = Files.lines(job.coordinator.runDirectory().resolve("coordinator.log"))) {
                return String.join("\n  ", lines.toList());
            } catch (java.io.IOException e) {
                return e.toString();
            }
        }

        void close() throws Exception {
            ranks.forEach(GatedRank::close);
            job.close();
        }
    }
}
