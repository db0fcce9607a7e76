// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.EndProcesses;
import org.shadowverbs.coordinator.protocol.HostMessages.HostRanks;
import org.shadowverbs.coordinator.protocol.HostMessages.Member;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepare;
import org.shadowverbs.coordinator.protocol.HostMessages.Prepared;
import org.shadowverbs.coordinator.protocol.RecoveryMessages.ProcessesEnded;
import org.shadowverbs.coordinator.protocol.HostMessages.RankJoined;
import org.shadowverbs.coordinator.protocol.HostMessages.Thaw;
import org.shadowverbs.coordinator.protocol.HostMessages.Thawed;
import org.shadowverbs.coordinator.protocol.HostMessages.ToRanks;
import org.shadowverbs.coordinator.protocol.HostMessages.Tree;
import org.shadowverbs.coordinator.protocol.MemberState;
import org.shadowverbs.coordinator.protocol.Message;
import org.shadowverbs.coordinator.store.EmbeddedStore;

/** An agent that is lost with what it was to tell its ranks, and another that finds them. */
@Timeout(120)
class LostAgentTest {
    @TempDir
    Path root;

    private final List<String> lines = new CopyOnWriteArrayList<>();
    private Coordinator coordinator;

    private void start(final RecoveryOptions recovery) throws IOException {
        coordinator = new Coordinator(new CoordinatorOptions("localhost", 0, null, root.resolve("run"), root.resolve("checkpoints"),
                Interval.NONE, recovery, 2, ImageChoice.USUAL, false, "", 20, false),
                (run, job) -> new EmbeddedStore(run, new TestStore(), false));
    }

    @AfterEach
    void stop() {
        coordinator.close();
    }

    private FrameChannel agent(final String id, final Member... ranks) throws IOException {
        return agent(id, List.of(new Tree(1, List.of("program"), "/")), ranks);
    }

    private FrameChannel agent(final String id, final List<Tree> trees, final Member... ranks) throws IOException {
        final FrameChannel agent = FrameChannel.connect(new InetSocketAddress("localhost", coordinator.port()), 5_000);
        agent.write(new AgentHello(FrameType.VERSION, "", id, "host", 1, "job", 0, 0, false, List.of(ranks),
                trees, Map.of(), List.of("true"), List.of()));
        assertTrue(agent.read() instanceof AgentWelcome);
        return agent;
    }

    /** It runs, and that is the last epoch that it knows of. */
    private static Member rank(final String uid, final int number, final long epoch) {
        return new Member(uid, number, 1, 1, 1, "program", epoch, (byte) MemberState.RUNNING.ordinal());
    }

    @Test
    void aRankThatHasNotHeardOfACheckpointIsNotWaitedFor() throws Exception {
        start(RecoveryOptions.NONE);
        final FrameChannel lost = agent("lost", rank("heard", 0, 0), rank("unheard", 1, 0));
        final Future<CheckpointRun.Outcome> checkpoint =
                coordinator.conductor().submit(() -> coordinator.checkpoint(false, false, false, lines::add));
        Message told;
        do {
            told = lost.read();
            if (told instanceof Prepare m) {
                lost.write(new Prepared(m.epoch()));
            }
        } while (!(told instanceof ToRanks));
        lost.close();

        final FrameChannel next = agent("next");
        next.write(new RankJoined(rank("heard", 0, 1)));
        next.write(new RankJoined(rank("unheard", 1, 0)));
        next.write(new HostRanks(1, true, 0, List.of("heard")));
        Thread.ofPlatform().daemon().start(() -> {
            try {
                for (;;) {
                    if (next.read() instanceof Thaw m) {
                        next.write(new Thawed(m.epoch()));
                    }
                }
            } catch (IOException e) {
                next.close(); // the coordinator has ended
            }
        });
        final String problem = checkpoint.get(60, TimeUnit.SECONDS).problem();
        assertTrue(problem.contains("the agent on host host was lost"), problem);
        assertEquals(List.of(), lines.stream().filter(line -> line.contains("did not finish")).toList());
    }

    /** It was cut off, has ended what it had, and is back before the coordinator has noticed: as if the host had been lost. */
    @Test
    void aHostThatIsBackWithoutItsProcessesIsAFailure() throws Exception {
        start(new RecoveryOptions(1, 0, 1_000));
        agent("same", rank("here", 0, 0));
        try (FrameChannel back = agent("same", List.of())) {
            Message told;
            do {
                told = back.read();
            } while (!(told instanceof EndProcesses));
            back.write(new ProcessesEnded(((EndProcesses) told).epoch()));
            assertTrue(Files.readString(coordinator.runDirectory().resolve("coordinator.log"))
                    .contains("failure: the agent of host host is back, and its processes are not"));
        }
    }
}
