// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.protocol.HostMessages.Freeze;
import org.shadowverbs.coordinator.protocol.HostMessages.Frozen;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepare;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepared;
import org.shadowverbs.coordinator.protocol.HostMessages.Release;
import org.shadowverbs.coordinator.protocol.HostMessages.Released;
import org.shadowverbs.coordinator.protocol.HostMessages.Restored;
import org.shadowverbs.coordinator.protocol.HostMessages.Save;
import org.shadowverbs.coordinator.protocol.HostMessages.Saved;
import org.shadowverbs.coordinator.protocol.HostMessages.Seal;
import org.shadowverbs.coordinator.protocol.HostMessages.Sealed;
import org.shadowverbs.coordinator.protocol.HostMessages.TcpSockets;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.JobHistory;
import org.shadowverbs.coordinator.store.EmbeddedStore;

/** A job that is restarted from a checkpoint that was not its last one. Its program has no rank. */
@Timeout(120)
class OlderCheckpointTest {
    private static final long HOUR_MILLIS = 3_600_000;

    @TempDir
    Path root;

    private final List<String> lines = new ArrayList<>();
    private Coordinator coordinator;
    private FrameChannel agent;

    @AfterEach
    void stop() {
        agent.close();
        coordinator.close();
    }

    /** @param epoch that the job was restored from; 0: it was launched */
    private void run(final long epoch, final boolean restored) throws Exception {
        start(0, false);
        join(epoch, restored);
    }

    private void start(final int port, final boolean recover) throws IOException {
        coordinator = new Coordinator(new CoordinatorOptions("localhost", port, null, root.resolve("run"),
                root.resolve("checkpoints"), Interval.NONE, RecoveryOptions.NONE, 2, ImageChoice.USUAL, false, "", 20, recover),
                (run, job) -> new EmbeddedStore(run, new TestStore(), recover));
    }

    private void join(final long epoch, final boolean restored) throws Exception {
        agent = FrameChannel.connect(new InetSocketAddress("localhost", coordinator.port()), 5_000);
        agent.write(new AgentHello(FrameType.VERSION, "", "id", "host", 1, "job", epoch, 0, restored, List.of(),
                List.of(new Tree(1, List.of("program"), "/")),
                restored ? Map.of(JobHistory.SETTING, new JobHistory(HOUR_MILLIS, 1, true, 500).text()) : Map.of(), List.of(), List.of()));
        assertEquals(epoch, assertInstanceOf(AgentWelcome.class, agent.read()).epoch());
        final FrameChannel now = agent;
        final CountDownLatch back = new CountDownLatch(restored ? 1 : 0);
        Thread.ofPlatform().daemon().start(() -> {
            try {
                for (;;) {
                    switch (now.read()) {
                        case Prepare m -> now.write(new Prepared(m.epoch()));
                        case Freeze m -> now.write(new Frozen(m.epoch(), List.of(), 1, TcpSockets.NONE));
                        case Save m -> now.write(new Saved(m.epoch(), 0));
                        case Seal m -> now.write(new Sealed(m.epoch(), 0, ""));
                        case Thaw m -> now.write(new Thawed(m.epoch()));
                        case Release m -> now.write(new Released(m.epoch()));
                        case Restored m -> {
                            back.countDown();
                        }
                        default -> { }
                    }
                }
            } catch (IOException e) {
                now.close(); // the coordinator has ended
            }
        });
        assertTrue(back.await(60, TimeUnit.SECONDS), "the coordinator does not say that the job is restored");
    }

    private void end() {
        agent.close();
        coordinator.close();
    }

    private Manifest checkpoint() throws Exception {
        final CheckpointRun.Outcome o = coordinator.conductor().submit(
                () -> coordinator.checkpoint(false, false, false, lines::add)).get(60, TimeUnit.SECONDS);
        assertEquals("", o.problem());
        assertEquals(o.folder(), CheckpointFolder.resolve(root.resolve("checkpoints")));
        return ManifestFile.read(o.folder());
    }

    private List<String> folders() throws IOException {
        try (Stream<Path> all = Files.list(root.resolve("checkpoints"))) {
            return all.map(p -> p.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void goesOnBesideTheNewerOnesAndIsNotRemoved() throws Exception {
        run(0, false);
        for (long epoch = 1; epoch <= 3; epoch++) {
            final Manifest m = checkpoint();
            assertEquals(epoch, m.epoch());
            assertEquals(epoch - 1, m.parent());
        }
        end();
        run(2, true);
        final Manifest first = checkpoint();
        assertEquals(4, first.epoch());
        assertEquals(2, first.parent());
        assertEquals(2, first.history().failures());
        assertTrue(first.history().ranMillis() >= HOUR_MILLIS);
        assertEquals(List.of("ckpt-job-2", "ckpt-job-4", "latest"), folders());
        assertEquals(4, checkpoint().parent());
        assertEquals(List.of("ckpt-job-2", "ckpt-job-4", "ckpt-job-5", "latest"), folders());

        // A coordinator that is started anew knows it, too.
        final int port = coordinator.port();
        coordinator.vanish("as if it were killed");
        start(port, true);
        join(5, false);
        final Manifest next = checkpoint();
        assertEquals(5, next.parent());
        assertEquals(2, next.history().failures());
        assertTrue(next.history().ranMillis() >= HOUR_MILLIS);
        assertEquals(List.of("ckpt-job-2", "ckpt-job-5", "ckpt-job-6", "latest"), folders());
        end();

        run(6, true);
        assertEquals(6, checkpoint().parent());
        assertEquals(List.of("ckpt-job-6", "ckpt-job-7", "latest"), folders());
    }

    /** Its ranks are in the epoch of their checkpoint, and so is the job. */
    @Test
    void goesOnUnderTheCoordinatorThatHasMadeTheNewerOnes() throws Exception {
        run(0, false);
        for (long epoch = 1; epoch <= 3; epoch++) {
            checkpoint();
        }
        agent.close();
        coordinator.job().epoch().await(() -> coordinator.job().agents().isEmpty(), Duration.ofSeconds(60),
                () -> "the agent is still there");
        join(2, true);
        final Manifest next = checkpoint();
        assertEquals(4, next.epoch());
        assertEquals(2, next.parent());
        assertEquals(List.of("ckpt-job-2", "ckpt-job-4", "latest"), folders());
    }
}
