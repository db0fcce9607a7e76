// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiNews;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiRank;
import org.shadowverbs.coordinator.protocol.PmiMessages.PmiState;

/** Barriers of four ranks in two trees: over when all have entered, however often and in whatever order it is said. */
final class PmiSpacesTest {
    private final PmiSpaces spaces = new PmiSpaces();

    private PmiNews say(final Map<String, byte[]> put, final Set<String> wanted, final PmiRank... ranks) {
        return spaces.answer(new PmiState(FrameType.VERSION, "17", 4, 1, Arrays.asList(ranks), put, wanted, ""));
    }

    private long say(final PmiRank... ranks) {
        return say(Map.of(), Set.of(), ranks).passed();
    }

    @Test
    void aBarrierIsOverWhenAllHaveEntered() {
        assertEquals(0, say(new PmiRank(0, 1, 0), new PmiRank(1, 1, 0)));
        assertEquals(0, say(new PmiRank(2, 1, 0), new PmiRank(3, 0, 0)));
        assertEquals(0, say(new PmiRank(0, 1, 0), new PmiRank(1, 1, 0)));
        assertEquals(1, say(new PmiRank(2, 1, 0), new PmiRank(3, 1, 0)));
        assertEquals(1, say(new PmiRank(2, 2, 1), new PmiRank(3, 2, 1)));
        assertEquals(2, say(new PmiRank(0, 2, 1), new PmiRank(1, 2, 1)));
    }

    /** The launcher had ended it, and its word had reached one rank when the checkpoint was taken. */
    @Test
    void aBarrierThatIsOverForOneIsOverForAll() {
        assertEquals(4, say(new PmiRank(0, 5, 4), new PmiRank(1, 5, 4)));
        assertEquals(5, say(new PmiRank(2, 5, 5), new PmiRank(3, 5, 4)));
        assertEquals(5, say(new PmiRank(0, 5, 4), new PmiRank(1, 5, 4)));
    }

    @Test
    void nobodyWaitsForWhoHasGone() {
        say(new PmiRank(0, 3, 2), new PmiRank(1, Long.MAX_VALUE, 2));
        assertEquals(3, say(new PmiRank(2, 3, 2), new PmiRank(3, 3, 2)));
    }

    @Test
    void whatIsNotFoundWasNotPutWhenAllHaveSpoken() {
        final byte[] value = "v".getBytes(StandardCharsets.UTF_8);
        assertFalse(say(Map.of(), Set.of("k"), new PmiRank(0, 0, 0), new PmiRank(1, 0, 0)).all());
        assertTrue(say(Map.of("k", value), Set.of(), new PmiRank(2, 0, 0), new PmiRank(3, 0, 0)).all());
        final PmiNews news = say(Map.of(), Set.of("k", "none"), new PmiRank(0, 0, 0), new PmiRank(1, 0, 0));
        assertTrue(news.all());
        assertEquals(Set.of("k"), news.found().keySet());
        assertArrayEquals(value, news.found().get("k"));
    }

    /** Another checkpoint may be one from before. */
    @Test
    void anotherRestartCountsAnew() {
        assertEquals(7, say(new PmiRank(0, 7, 7)));
        spaces.clear();
        assertEquals(5, say(new PmiRank(0, 6, 5)));
    }
}
