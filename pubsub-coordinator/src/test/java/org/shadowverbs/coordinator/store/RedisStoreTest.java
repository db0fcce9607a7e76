// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.shadowverbs.coordinator.store.TestWait.await;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a coordinator relies on, with a real server: the lease, what is kept, and the ways in which a server fails. */
@Timeout(240)
class RedisStoreTest {
    private static final Duration LEASE = Duration.ofSeconds(2);
    private static final Seat SEAT = new Seat("job", "here", List.of("10.0.0.1"), 7790);

    /** One that has begun, and what it has heard. */
    private static final class Open implements AutoCloseable {
        final RedisStore store;
        final List<String> lines = new CopyOnWriteArrayList<>();
        final List<String> ends = new CopyOnWriteArrayList<>();

        Open(final StorePlace place, final boolean takeOver) throws StoreException {
            store = RedisStore.open(place, "job", takeOver, LEASE);
            store.begin(new JobStore.Listener() {
                @Override
                public void line(final String line) {
                    lines.add(line);
                }

                @Override
                public void superseded(final String why) {
                    ends.add(why);
                }
            });
        }

        /** What was put is written. */
        void settle() throws Exception {
            await("what was put to be written", () -> store.published().settle().isEmpty());
        }

        boolean decides(final String state) {
            try {
                store.decide(state, SEAT);
                return true;
            } catch (StoreException e) {
                return false;
            }
        }

        @Override
        public void close() {
            store.abandon();
        }
    }

    private static byte[] bytes(final String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Open takeOver(final TestRedis redis) throws Exception {
        final Open[] next = new Open[1];
        await("the lease to run out", () -> {
            try {
                next[0] = new Open(redis.place(), true);
                return true;
            } catch (StoreException e) {
                return false;
            }
        });
        return next[0];
    }

    @Test
    void theNextCoordinatorFindsWhatTheOneBeforeHasLeft() throws Exception {
        try (TestRedis redis = new TestRedis()) {
            try (Open first = new Open(redis.place(), false)) {
                assertNull(first.store.before());
                for (int i = 0; i < 2000; i++) {
                    first.store.published().put("job/" + i, bytes("value " + i));
                }
                first.store.published().put("epoch-1/x", new byte[1 << 20]);
                first.store.published().remove("job/7");
                first.store.published().removeAll("job/19");
                first.store.keep("state 1", SEAT);
                first.settle();
                await("the store to be there", () -> first.decides("state 2"));
            }
            try (Open second = takeOver(redis)) {
                assertEquals("state 2", second.store.before());
                assertEquals(2, second.store.number());
                assertArrayEquals(bytes("value 1"), second.store.published().get("job/1"));
                assertArrayEquals(bytes("value 2"), second.store.published().get("job/2"));
                assertEquals(1 << 20, second.store.published().get("epoch-1/x").length);
                assertNull(second.store.published().get("job/7"));
                assertNull(second.store.published().get("job/1900"));
                second.store.published().removeAll("");
                second.store.discard();
                assertEquals("", redis.ask("KEYS", "*:published"));
                assertEquals("", redis.ask("KEYS", "*:lease"));
                assertTrue(Long.parseLong(redis.ask("PTTL", "shadowverbs:{job}")) > 0);
                assertThrows(StoreException.class, () -> new Open(redis.place(), true));
            }
        }
    }

    @Test
    void whoeverHasTheLeaseIsTheOnlyOne() throws Exception {
        try (TestRedis redis = new TestRedis(); Open first = new Open(redis.place(), false)) {
            first.store.keep("mine", SEAT);
            first.settle();
            final StoreException refused = assertThrows(StoreException.class, () -> new Open(redis.place(), true));
            assertTrue(refused.getMessage().contains("job job has a coordinator: number 1"), refused.getMessage());
            try (CoordinatorSearch search = new CoordinatorSearch(redis.place())) {
                assertEquals(new Whereabouts(1, true, SEAT), search.look("job"));
                assertEquals(List.of("job"), List.copyOf(search.all().keySet()));
                assertNull(search.look("another"));
            }
        }
    }

    /** As one whose host stood still until another had its place: it finds that out before it does anything. */
    @Test
    void oneThatWasReplacedDecidesNothingAndHearsOfIt() throws Exception {
        try (TestRedis redis = new TestRedis(); Open first = new Open(redis.place(), false)) {
            first.store.keep("first", SEAT);
            first.settle();
            redis.ask("DEL", "shadowverbs:{job}:lease");
            try (Open second = takeOver(redis)) {
                await("the store to be there", () -> second.decides("second"));
                first.decides("no"); // it may not know yet, and hears of it by this
                await("the first to hear of the second", () -> !first.ends.isEmpty());
                assertFalse(first.decides("no"));
                assertTrue(first.store.problem().contains("another coordinator"), first.store.problem());
                assertEquals("second", redis.ask("HGET", "shadowverbs:{job}", "state"));
                assertTrue(second.ends.isEmpty());
            }
        }
    }

    @Test
    void aPausedServerIsSaidOnceAndTheLeaseIsKeptWhenItGoesOn() throws Exception {
        try (TestRedis redis = new TestRedis(); Open only = new Open(redis.place(), false)) {
            await("the store to be there", () -> only.decides("before"));
            redis.pause();
            await("the pause to be said", () -> only.lines.size() == 1);
            assertTrue(only.lines.getFirst().endsWith(": no checkpoints until it is back"), only.lines.toString());
            assertFalse(only.decides("never"));
            only.store.published().put("job/meanwhile", bytes("x"));
            redis.resume();
            await("the end of the pause to be said", () -> only.lines.size() == 2);
            assertEquals("the store is back: checkpoints are made again", only.lines.get(1));
            await("the store to be there", () -> only.decides("after"));
            assertEquals("after", redis.ask("HGET", "shadowverbs:{job}", "state"));
            assertEquals("x", redis.ask("HGET", "shadowverbs:{job}:published", "job/meanwhile"));
            assertEquals(1, only.store.number());
        }
    }

    @Test
    void aServerThatLostEverythingIsWrittenAnewUnderANewNumber() throws Exception {
        try (TestRedis redis = new TestRedis(); Open only = new Open(redis.place(), false)) {
            only.store.published().put("job/a", bytes("a"));
            await("the store to be there", () -> only.decides("state"));
            redis.stop();
            await("the loss to be said", () -> only.lines.size() == 1);
            redis.start();
            await("the store to be back", () -> only.lines.contains("the store is back: checkpoints are made again"));
            assertTrue(only.lines.stream().anyMatch(line -> line.contains("has lost what it knew")), only.lines.toString());
            only.settle();
            assertEquals("a", redis.ask("HGET", "shadowverbs:{job}:published", "job/a"));
            assertEquals("state", redis.ask("HGET", "shadowverbs:{job}", "state"));
            assertEquals(2, only.store.number());
            await("the store to be there", () -> only.decides("later"));
        }
    }

    @Test
    void aFullServerIsSaidAndTheLeaseIsKept() throws Exception {
        try (TestRedis redis = new TestRedis(); Open only = new Open(redis.place(), false)) {
            await("the store to be there", () -> only.decides("before"));
            redis.ask("CONFIG", "SET", "maxmemory", "1");
            only.store.keep("does not fit", SEAT);
            await("it to be said", () -> only.lines.size() == 1);
            assertTrue(only.lines.getFirst().contains("OOM command not allowed when used memory > 'maxmemory'"), only.lines.toString());
            assertFalse(only.decides("never"));
            assertTrue(only.ends.isEmpty());
            redis.ask("CONFIG", "SET", "maxmemory", "0");
            await("the end of that to be said", () -> only.lines.size() == 2);
            await("the store to be there", () -> only.decides("after"));
            assertEquals(1, only.store.number());
        }
    }

    @Test
    void aWrongPasswordIsSaidWithoutIt() throws Exception {
        try (TestRedis redis = new TestRedis("--requirepass", "right")) {
            final StoreException wrong = assertThrows(StoreException.class, () -> new Open(redis.place("guessed"), false));
            assertTrue(wrong.getMessage().contains("WRONGPASS"), wrong.getMessage());
            assertFalse(wrong.getMessage().contains("guessed"), wrong.getMessage());
            final StoreException none = assertThrows(StoreException.class, () -> new Open(redis.place(), false));
            assertTrue(none.getMessage().contains("NOAUTH"), none.getMessage());
            try (Open right = new Open(redis.place("right"), false)) {
                await("the store to be there", () -> right.decides("x"));
            }
        }
    }

    @Test
    void whereNobodyListensIsSaid() throws Exception {
        try (TestRedis redis = new TestRedis()) {
            redis.stop();
            final StoreException nobody = assertThrows(StoreException.class, () -> new Open(redis.place(), false));
            assertTrue(nobody.getMessage().contains("Connection refused"), nobody.getMessage());
        }
    }

    @Test
    void tlsWantsACertificateThatComesFromTheRightOnes() throws Exception {
        try (TestRedis redis = TestRedis.withTls(); TestRedis other = TestRedis.withTls()) {
            try (Open trusted = new Open(redis.place(), false)) {
                await("the store to be there", () -> trusted.decides("x"));
            }
            final StorePlace right = redis.place();
            final StorePlace foreign = new StorePlace(true, right.host(), right.port(), "", "", 0, other.ca().toString());
            assertTrue(assertThrows(StoreException.class, () -> new Open(foreign, false)).getMessage().contains("does not answer: "));
            final StorePlace byAddress = new StorePlace(true, "127.0.0.1", right.port(), "", "", 0, right.ca());
            assertTrue(assertThrows(StoreException.class, () -> new Open(byAddress, false)).getMessage().contains("127.0.0.1"));
            final StorePlace missing = new StorePlace(true, right.host(), right.port(), "", "", 0, "/nowhere.pem");
            assertTrue(assertThrows(StoreException.class, () -> new Open(missing, false)).getMessage()
                    .contains("certificates /nowhere.pem of the store can't be read"));
        }
    }
}
