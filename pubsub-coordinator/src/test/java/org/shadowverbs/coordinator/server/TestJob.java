// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.shadowverbs.coordinator.agent.Agent;
import org.shadowverbs.coordinator.agent.AgentOptions;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.store.EmbeddedStore;
import org.shadowverbs.coordinator.store.RedisStore;
import org.shadowverbs.coordinator.store.StoreException;
import org.shadowverbs.coordinator.store.StorePlace;

/** A coordinator, an agent and ranks in this JVM, over real sockets, with a checkpointer that touches no process. */
final class TestJob implements AutoCloseable {
    final Path root;
    final Path checkpoints;
    final FakeCheckpointer images = new FakeCheckpointer();
    final List<TestRank> ranks = new ArrayList<>();
    final List<String> lines = new CopyOnWriteArrayList<>();
    final TestStore published = new TestStore();
    /** The agent's. */
    final TestStore fetched = new TestStore();
    Agent agent;
    private final Interval interval;
    private final LongSupplier clock;
    /** Where the coordinator keeps what the job must not lose; null: on its host. */
    private final StorePlace place;
    Coordinator coordinator;
    private Path socket;
    private String job = "";

    TestJob(final int deadlineSeconds) throws Exception {
        this(deadlineSeconds, Interval.NONE, System::nanoTime);
    }

    TestJob(final int deadlineSeconds, final Interval interval) throws Exception {
        this(deadlineSeconds, interval, System::nanoTime);
    }

    /** @param place of the store that all hosts reach */
    TestJob(final int deadlineSeconds, final StorePlace place) throws Exception {
        this(deadlineSeconds, Interval.NONE, System::nanoTime, place);
    }

    /** @param clock tells the time of the deadlines of checkpoints */
    TestJob(final int deadlineSeconds, final Interval interval, final LongSupplier clock) throws Exception {
        this(deadlineSeconds, interval, clock, null);
    }

    private TestJob(final int deadlineSeconds, final Interval interval, final LongSupplier clock, final StorePlace place)
            throws Exception {
        this.place = place;
        this.interval = interval;
        this.clock = clock;
        root = Files.createTempDirectory("sv-test");
        checkpoints = root.resolve("checkpoints");
        coordinator = coordinator(0, deadlineSeconds, false);
        agent = agent();
    }

    private Agent agent() throws Exception {
        final Path run = coordinator.runDirectory();
        socket = RunDirectory.agentSocket(run);
        final Agent one = new Agent(new AgentOptions("localhost", coordinator.port(), "testhost", run,
                RunDirectory.agentSocket(run), "", false, "hca", "", List.of("true"), false, List.of(), List.of()), images, fetched);
        if (!one.awaitJoined(20_000)) {
            throw new AssertionError("the agent did not join within 20 s");
        }
        return one;
    }

    /** Another one in place of the one that has ended. */
    void replaceAgent() throws Exception {
        agent.close();
        agent = agent();
    }

    private Coordinator coordinator(final int port, final int deadlineSeconds, final boolean recover)
            throws IOException {
        return new Coordinator(new CoordinatorOptions("localhost", port, null, root, checkpoints, interval, RecoveryOptions.NONE, 2, ImageChoice.USUAL,
                false, "", deadlineSeconds, recover), (run, name) -> place == null ? new EmbeddedStore(run, published, recover)
                        : RedisStore.open(place, recover ? job : name, recover), clock);
    }

    /** Crashes it, and starts another one at the same port. */
    void replaceCoordinator(final int deadlineSeconds) throws IOException {
        final int port = coordinator.port();
        coordinator.vanish("as if it were killed");
        coordinator = coordinator(port, deadlineSeconds, true);
    }

    /** Another coordinator, at another port, in the place of the one that does not hold its lease any more. */
    void takeOver(final int deadlineSeconds) throws Exception {
        job = coordinator.job().name();
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        for (;;) {
            try {
                coordinator = coordinator(0, deadlineSeconds, true);
                return;
            } catch (StoreException e) {
                if (System.nanoTime() > end) {
                    throw e;
                }
                Thread.sleep(20);
            }
        }
    }

    TestRank rank(final String uid) throws Exception {
        final TestRank rank = new TestRank(uid, socket);
        ranks.add(rank);
        rank.number();
        return rank;
    }

    Future<CheckpointRun.Outcome> begin() {
        return coordinator.conductor().submit(() -> coordinator.checkpoint(false, false, false, lines::add));
    }

    /** Returns when images are being saved, which ends when {@code images.saveMayEnd} is completed. */
    Future<CheckpointRun.Outcome> beginToSave() throws Exception {
        images.saveMayEnd = new CompletableFuture<>();
        images.saveBegun = new CompletableFuture<>();
        final Future<CheckpointRun.Outcome> outcome = begin();
        images.saveBegun.get(20, TimeUnit.SECONDS);
        return outcome;
    }

    CheckpointRun.Outcome checkpoint() throws Exception {
        return begin().get(60, TimeUnit.SECONDS);
    }

    /** What lies in the checkpoint directory, hidden or not. */
    List<String> folders() throws IOException {
        try (Stream<Path> all = Files.list(checkpoints)) {
            return all.map(p -> p.getFileName().toString()).sorted().toList();
        }
    }

    @Override
    public void close() throws IOException {
        ranks.forEach(TestRank::close);
        agent.close();
        coordinator.close();
        while (!removed(root)) {
            Thread.onSpinWait(); // what ends just now has written a last line
        }
    }

    private static boolean removed(final Path root) throws IOException {
        try (Stream<Path> all = Files.walk(root)) {
            for (final Path p : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(p);
            }
            return true;
        } catch (DirectoryNotEmptyException | UncheckedIOException e) {
            return false;
        }
    }
}
