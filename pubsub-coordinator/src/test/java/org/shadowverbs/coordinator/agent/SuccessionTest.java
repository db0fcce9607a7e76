// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.shadowverbs.coordinator.store.TestWait.await;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.shadowverbs.coordinator.protocol.EventLog;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentWelcome;
import org.shadowverbs.coordinator.store.RedisStore;
import org.shadowverbs.coordinator.store.Seat;
import org.shadowverbs.coordinator.store.SilentListener;
import org.shadowverbs.coordinator.store.TestRedis;

/** How an agent finds its coordinator, which it turns away, and when it starts one. */
@Timeout(240)
class SuccessionTest {
    @TempDir
    private Path directory;
    private TestRedis redis;
    private RedisStore coordinator;

    @BeforeEach
    void start() throws Exception {
        redis = new TestRedis();
        coordinator = RedisStore.open(redis.place(), "job", false);
        coordinator.begin(new SilentListener());
        coordinator.keep("state", new Seat("job", "node0", List.of("10.0.0.1", "10.1.0.1"), 7790));
        await("the state to be kept", () -> !redis.ask("HGET", "shadowverbs:{job}", "state").isEmpty());
    }

    @AfterEach
    void stop() throws Exception {
        coordinator.abandon();
        redis.close();
    }

    private Path run() throws IOException {
        return Files.createDirectories(directory.resolve("run/node0-7790"));
    }

    private Path started() {
        return directory.resolve("started");
    }

    /** @return of an agent that starts a coordinator by writing down how */
    private Succession agent(final boolean spare) throws IOException {
        return new Succession(new AgentOptions("node0", 7790, "node1", run(), run().resolve("agent.sock"), "", false, "same", "", List.of(),
                spare, List.of(), List.of("sh", "-c", "echo \"$@ $SHADOWVERBS_STORE\" >>" + started(), "sh")),
                new EventLog(directory.resolve("log")));
    }

    private AgentWelcome welcome(final long number) {
        return new AgentWelcome("job", 1, 20, "", number, coordinator.key(), coordinator.place());
    }

    @Test
    void theStoreSaysWhereItIsAndTheNextAgentKnowsTheStore() throws Exception {
        try (Succession agent = agent(false)) {
            assertFalse(agent.isKnown());
            agent.welcomed(welcome(1), null);
            assertEquals(List.of(new InetSocketAddress("10.0.0.1", 7790), new InetSocketAddress("10.1.0.1", 7790)), agent.look());
        }
        try (Succession next = agent(false)) {
            assertTrue(next.isKnown());
            assertEquals(2, next.look().size());
            next.forget();
        }
        try (Succession another = agent(false)) {
            assertFalse(another.isKnown());
        }
    }

    @Test
    void aCoordinatorThatWasReplacedIsTurnedAway() throws Exception {
        try (Succession agent = agent(false)) {
            agent.welcomed(welcome(3), null);
            assertThrows(Succession.Superseded.class, () -> agent.welcomed(welcome(2), null));
            agent.welcomed(welcome(3), null);
            agent.welcomed(welcome(4), null);
            assertEquals(List.of(), agent.look()); // the store still says where number 1 is
        }
    }

    @Test
    void whenNobodyHasTheLeaseOneIsStartedOnce() throws Exception {
        try (Succession agent = agent(false)) {
            agent.welcomed(welcome(1), new InetSocketAddress("10.0.0.2", 5));
            agent.look();
            coordinator.abandon();
            await("a coordinator to be started", () -> {
                agent.look();
                return Files.exists(started()) && !Files.readString(started()).isEmpty();
            });
            for (int i = 0; i < 10; i++) {
                assertEquals(List.of(), agent.look());
            }
            assertEquals(List.of("--takeover job --address 10.0.0.2 --port 7790 " + redis.place()), Files.readAllLines(started()));
        }
    }

    @Test
    void aJobThatIsOverHasNoSuccessor() throws Exception {
        try (Succession agent = agent(false)) {
            agent.welcomed(welcome(1), null);
            coordinator.discard();
            assertEquals(List.of(), agent.look());
            redis.stop();
            assertNull(agent.look());
            assertFalse(Files.exists(started()));
        }
    }
}
