// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

final class LazyStoreTest {
    private static final int FEW = 3;

    private final MemoryStore behind = new MemoryStore();
    private final AtomicInteger opened = new AtomicInteger();

    private PublishedStore open() {
        opened.incrementAndGet();
        return behind;
    }

    @Test
    void opensOnceThereAreMoreValuesThanAFew() {
        try (LazyStore store = new LazyStore(this::open, FEW)) {
            for (int i = 0; i < FEW; i++) {
                store.put("key" + i, new byte[] {(byte) i});
                store.put("key" + i, new byte[] {(byte) i});
            }
            store.awaitOpen(); // of nothing: it does not wait
            assertEquals(0, opened.get());
            store.put("more", new byte[] {9});
            store.put("even more", new byte[] {10});
            store.awaitOpen();
            assertEquals(1, opened.get());
            for (int i = 0; i < FEW; i++) {
                assertArrayEquals(new byte[] {(byte) i}, behind.get("key" + i));
            }
            assertArrayEquals(new byte[] {9}, behind.get("more"));
            assertArrayEquals(new byte[] {10}, store.get("even more"));
            store.removeAll("key");
            assertNull(behind.get("key0"));
        }
    }

    @Test
    void aFewValuesAreReadAndRemovedOnTheHeap() {
        final LazyStore store = new LazyStore(this::open, FEW);
        store.put("a", new byte[] {1});
        assertArrayEquals(new byte[] {1}, store.get("a"));
        store.remove("a");
        assertNull(store.get("a"));
        store.discard();
        store.put("late", new byte[] {1});
        store.put("later", new byte[] {1});
        store.put("latest", new byte[] {1});
        store.put("last", new byte[] {1});
        assertEquals(0, opened.get(), "it was opened after its end");
    }

    @Test
    void itHasSettledOnceTheStoreBehindHasWhatWasPut() throws Exception {
        final CountDownLatch may = new CountDownLatch(1);
        final Thread settling = Thread.currentThread();
        try (LazyStore store = new LazyStore(() -> {
            may.await();
            return open();
        }, false)) {
            store.put("agreed", new byte[] {1});
            final Thread opens = Thread.ofPlatform().start(() -> {
                while (settling.getState() == Thread.State.RUNNABLE) {
                    Thread.onSpinWait(); // until it waits, as it does in settle
                }
                may.countDown();
            });
            assertEquals("", store.settle());
            assertArrayEquals(new byte[] {1}, behind.get("agreed"));
            opens.join();
        }
    }

    @Test
    void whatAnEarlierProcessLeftIsWaitedFor() throws Exception {
        behind.put("left", new byte[] {7});
        final CountDownLatch may = new CountDownLatch(1);
        try (LazyStore store = new LazyStore(() -> {
            may.await();
            return open();
        }, true)) {
            store.put("new", new byte[] {8});
            assertArrayEquals(new byte[] {8}, store.get("new"));
            may.countDown();
            assertArrayEquals(new byte[] {7}, store.get("left"));
            assertArrayEquals(new byte[] {8}, behind.get("new"));
        }
    }
}
