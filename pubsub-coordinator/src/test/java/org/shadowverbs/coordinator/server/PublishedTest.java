// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.client.Phase;
import org.shadowverbs.coordinator.store.MemoryStore;

/** What hosts are told of what ranks have published: all that they want, in a drain what is new. */
class PublishedTest {
    private static final long EPOCH = 3;
    private final Published published = new Published(new MemoryStore());

    private static byte[] value(final int value) {
        return new byte[] {(byte) value};
    }

    @Test
    void aWishForManyIsAnsweredWithThoseThatThereAre() {
        published.exchanged(Phase.CONNECTED,
                Map.of("x/0", value(0), "x/2", value(2), "x/30", value(30), "y", value(1)));
        assertEquals(Set.of("x/0", "x/2", "y"), published.all(Set.of("x/{0-9}", "y", "z")).keySet());
    }

    @Test
    void aRoundOfADrainTellsWhatHasChangedAndWhatWasNotAskedForBefore() {
        published.exchanged(Phase.DRAIN, Map.of("a", value(1), "b", value(1), "c", value(1)));
        assertEquals(Set.of("a"), published.news(Set.of("a"), Set.of("a")).keySet());
        published.answered(Phase.DRAIN);
        published.exchanged(Phase.DRAIN, Map.of("b", value(2)));
        final Map<String, byte[]> news = published.news(Set.of("a", "b", "c"), Set.of("c"));
        assertEquals(Set.of("b", "c"), news.keySet());
        assertArrayEquals(value(2), news.get("b"));
        published.answered(Phase.DRAIN);
        assertEquals(Map.of(), published.news(Set.of("a", "b", "c"), Set.of()));
    }

    /** A rank whose link broke asks for the phase before; what the images need is read when they are committed. */
    @Test
    void whatNobodyAsksForAnyMoreIsGone() {
        for (final Phase phase : Phase.values()) {
            published.exchanged(phase, Map.of(phase.name(), value(phase.ordinal())));
            published.answered(phase);
            for (final Phase before : List.of(Phase.values()).subList(0, phase.ordinal() + 1)) {
                final byte[] found = published.get(EPOCH, before.name());
                if (before == Phase.DETACH || before.ordinal() >= phase.ordinal() - 1) {
                    assertNotNull(found, before + " in " + phase);
                } else {
                    assertNull(found, before + " in " + phase);
                }
            }
        }
        published.begin();
        assertNull(published.get(EPOCH, Phase.DETACH.name()));
    }

    @Test
    void whatIsKeptOutlivesTheExchanges() {
        published.keep(EPOCH, "k", value(1));
        published.begin();
        assertArrayEquals(value(1), published.get(EPOCH, "k"));
        assertNull(published.get(EPOCH + 1, "k"));
    }
}
