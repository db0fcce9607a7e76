// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.coordinator.agent.Agent;
import org.shadowverbs.coordinator.agent.AgentOptions;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.manifest.ManifestFile;
import org.shadowverbs.coordinator.manifest.Portions;
import org.shadowverbs.coordinator.manifest.Relocation;
import org.shadowverbs.coordinator.process.CheckpointException;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.Line;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.protocol.RestartMessages.Portion;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartEnd;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartJoin;
import org.shadowverbs.coordinator.protocol.RestartMessages.RestartShare;
import org.shadowverbs.coordinator.protocol.RunDirectory;
import org.shadowverbs.coordinator.store.MemoryStore;

/** A restart that two hosts share, up to where processes are restored, and what ends it for both. */
@Timeout(120)
class RestartGatheringTest {
    private TestJob job;

    @BeforeEach
    void start() throws Exception {
        job = new TestJob(20);
    }

    @AfterEach
    void stop() throws Exception {
        job.close();
    }

    private FrameChannel join(final String host, final long pid, final String checkpoint) throws Exception {
        final FrameChannel channel =
                FrameChannel.connect(new InetSocketAddress("localhost", job.coordinator.port()), 5_000);
        channel.write(new RestartJoin(FrameType.VERSION, "", host, pid, 2, checkpoint, "sum",
                List.of(new Portion("a", List.of(0), true), new Portion("b", List.of(1), true)), List.of(), List.of()));
        return channel;
    }

    private static Message next(final FrameChannel channel) throws Exception {
        for (;;) {
            final Message message = channel.read();
            if (!(message instanceof Line)) {
                return message;
            }
        }
    }

    private static String problem(final FrameChannel channel) throws Exception {
        return assertInstanceOf(RestartEnd.class, next(channel)).problem();
    }

    @Test
    void whoCannotDoItsShareEndsItForAll() throws Exception {
        try (FrameChannel a = join("a", 1, "ckpt-1"); FrameChannel b = join("b", 2, "ckpt-1")) {
            assertEquals(List.of(0), own(assertInstanceOf(RestartShare.class, next(a))));
            assertEquals(List.of(1), own(assertInstanceOf(RestartShare.class, next(b))));
            b.write(new RestartEnd("pages-1.img is damaged"));
            assertEquals("host b: pages-1.img is damaged", problem(a));
        }
        try (FrameChannel a = joinFirst("a"); FrameChannel b = join("b", 2, "ckpt-1")) {
            assertInstanceOf(RestartShare.class, next(a));
            assertInstanceOf(RestartShare.class, next(b));
            b.channel().close();
            assertEquals("host b: its restart was lost before the job ran", problem(a));
        }
    }

    @Test
    void whoLeavesBeforeTheSharesAreDealtIsReplaced() throws Exception {
        try (FrameChannel a = join("a", 1, "ckpt-1")) {
            assertInstanceOf(Line.class, a.read());
            final FrameChannel x = join("x", 9, "ckpt-2");
            assertEquals("here a waits to restart ckpt-1 on 2 hosts, not ckpt-2 on 2", problem(x));
            a.channel().close();
        }
        try (FrameChannel b = joinFirst("b"); FrameChannel c = join("c", 3, "ckpt-1")) {
            assertEquals(List.of(1), own(assertInstanceOf(RestartShare.class, next(b))));
            assertEquals(List.of(0), own(assertInstanceOf(RestartShare.class, next(c))));
        }
    }

    private static List<Integer> own(final RestartShare dealt) {
        return dealt.shares().get(dealt.own()).portions();
    }

    /** Until the coordinator has seen that the others have left. */
    private FrameChannel joinFirst(final String host) throws Exception {
        for (;;) {
            final FrameChannel channel = join(host, 2, "ckpt-1");
            if (channel.read() instanceof Line) {
                return channel;
            }
            channel.close();
        }
    }

    /** Nothing is restored before all are there; one that fails then is named to the other, and a job is not half there. */
    @Test
    void aHostThatCannotRestoreEndsItForAll() throws Exception {
        job.rank("r");
        final CheckpointRun.Outcome o = job.checkpoint();
        job.ranks.getFirst().awaitOpen(1);
        final Path folder = o.folder();
        final Manifest manifest = ManifestFile.read(folder);
        job.ranks.getFirst().die();
        // An agent that is lost while it has ranks is waited for.
        job.coordinator.job().epoch().await(() -> job.coordinator.job().ranks().isEmpty(), Duration.ofSeconds(60),
                () -> "the rank is still there");
        job.agent.close();
        final long pid = ProcessHandle.current().pid();
        try (FrameChannel a = join("a", pid, "ckpt-1"); FrameChannel b = join("b", pid, "ckpt-1")) {
            assertInstanceOf(RestartShare.class, next(a));
            assertInstanceOf(RestartShare.class, next(b));
            try (Agent first = agent("a", manifest, folder)) {
                assertTrue(first.awaitJoined(20_000), first.refusal());
                assertFalse(first.mayRestore().isDone());
                try (Agent second = agent("b", Portions.only(manifest, List.of()), folder)) {
                    first.mayRestore().get(20, TimeUnit.SECONDS);
                    second.mayRestore().get(20, TimeUnit.SECONDS);
                    assertThrows(CheckpointException.class,
                            () -> first.restore(manifest, Relocation.of(manifest, List.of())));
                    assertEquals("host a: the fake restores nothing: 1 pipes", problem(b));
                    assertEquals("host a: the fake restores nothing: 1 pipes", problem(a));
                }
            }
        }
    }

    /** Whoever is lost when all have begun to restore. */
    @Test
    void aHostThatIsLostMeanwhileEndsItForAll() throws Exception {
        job.rank("r");
        final CheckpointRun.Outcome o = job.checkpoint();
        job.ranks.getFirst().awaitOpen(1);
        final Manifest manifest = ManifestFile.read(o.folder());
        job.ranks.getFirst().die();
        job.coordinator.job().epoch().await(() -> job.coordinator.job().ranks().isEmpty(), Duration.ofSeconds(60),
                () -> "the rank is still there");
        job.agent.close();
        final long pid = ProcessHandle.current().pid();
        try (FrameChannel a = join("a", pid, "ckpt-1"); FrameChannel b = join("b", pid, "ckpt-1");
                Agent first = agent("a", manifest, o.folder());
                Agent second = agent("b", Portions.only(manifest, List.of()), o.folder())) {
            first.mayRestore().get(20, TimeUnit.SECONDS);
            second.mayRestore().get(20, TimeUnit.SECONDS);
            b.channel().close();
            assertInstanceOf(RestartShare.class, next(a));
            assertEquals("host b: its restart was lost before the job ran", problem(a));
        }
    }

    private Agent agent(final String host, final Manifest manifest, final Path folder) throws Exception {
        final Path run = Files.createDirectories(job.root.resolve("run-" + host));
        return new Agent(new AgentOptions("localhost", job.coordinator.port(), host, run, RunDirectory.agentSocket(run),
                "", false, "same", "", List.of(), false, List.of(), List.of()), job.images, new MemoryStore(), manifest, folder);
    }
}
