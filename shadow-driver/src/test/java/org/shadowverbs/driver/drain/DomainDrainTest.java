// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.drain;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** An XRC domain of two processes: one has the queue pair of number 9 and a queue, the other just a queue. */
class DomainDrainTest {
    private static final int TARGET = 9;

    private final DomainDrain owner = new DomainDrain("0/1", List.of("1/4"));
    private final DomainDrain other = new DomainDrain("1/4", List.of("0/1"));
    private final Pool.Queue owners = new Pool.Queue(null, 70);
    private final Pool.Queue others = new Pool.Queue(null, 71);
    private long received;
    private long receivedByOther;
    private boolean ended;
    private DrainRecord heard;

    DomainDrainTest() {
        owner.queues.add(owners);
        other.queues.add(others);
    }

    /** What the sender has said, whose next message is of that ordinal, for that queue; 0: it has none. */
    private static DrainRecord said(final long ordinal, final int queue, final long landingsKnown, final boolean settled) {
        return new DrainRecord(0, 0, 0, false, false, false, false, false, settled, false, ordinal, 100,
                new PoolRecord(false, 0, false, new int[0], new long[0], landingsKnown, 3, ordinal, 100, queue));
    }

    private boolean lookOfOwner() {
        if (!owner.conclude()) {
            return false;
        }
        final Share share = new Share();
        share.targets.add(new Share.Target(TARGET, received, heard));
        owner.look(share);
        return true;
    }

    private boolean lookOfOther() {
        if (!other.conclude()) {
            return false;
        }
        final Share share = new Share();
        share.foreignQps.put(TARGET, receivedByOther);
        if (ended) {
            share.ended.add(TARGET);
        }
        other.look(share);
        return true;
    }

    /** Both look, and then hear of it. */
    private void lookOfBoth() {
        assertTrue(lookOfOwner());
        assertTrue(lookOfOther());
        exchange();
    }

    private void exchange() {
        owner.hear("1/4", other.said());
        other.hear("0/1", owner.said());
    }

    @Test
    void whatHasComeToAllIsAddedUpWhenNothingHasMoved() {
        lookOfBoth();
        assertNull(owner.view());
        received = 1;
        lookOfBoth();
        receivedByOther = 2;
        lookOfBoth();
        assertNull(owner.view());
        others.receives = 5;
        lookOfBoth();
        lookOfBoth();
        assertNull(owner.view());
        lookOfBoth();
        for (final DomainDrain part : List.of(owner, other)) {
            assertEquals(3, part.view().received(TARGET));
            assertEquals(5, part.view().pool.free()[part.view().pool.numbers()[0] == 71 ? 0 : 1]);
        }
        receivedByOther = 3;
        lookOfBoth();
        lookOfBoth();
        assertEquals(3, owner.view().received(TARGET));
        assertFalse(owner.settled());
        lookOfBoth();
        assertEquals(4, owner.view().received(TARGET));
    }

    @Test
    void nobodyLooksAgainBeforeAllHaveTold() {
        assertTrue(lookOfOwner());
        assertFalse(lookOfOwner());
        assertTrue(lookOfOther());
        owner.hear("1/4", other.said());
        assertTrue(lookOfOwner());
        assertFalse(lookOfOwner());
        // The one that is behind concludes from what the other had said before.
        other.hear("0/1", owner.said());
        assertTrue(lookOfOther());
        assertTrue(lookOfOther());
        assertNull(owner.view());
        assertEquals(0, other.view().received(TARGET));
    }

    @Test
    void ofANumberThatWasAnothersOnlyTheOwnCountHolds() {
        ended = true;
        received = 1;
        receivedByOther = 2;
        lookOfBoth();
        lookOfBoth();
        lookOfBoth();
        assertEquals(1, owner.view().received(TARGET));
    }

    @Test
    void whoHasTheQueuePostsTheLanding() {
        receivedByOther = 1;
        heard = said(2, 71, 0, false);
        lookOfBoth();
        lookOfBoth();
        assertTrue(owner.conclude());
        assertNull(owner.landing());
        assertTrue(other.conclude());
        assertEquals(71, other.landing().queue.number);
        assertEquals(100, other.landing().length);
        other.landed(others);
        assertFalse(other.settled());
        lookOfOwner();
        other.look(new Share());
        exchange();
        lookOfBoth();
        lookOfBoth();
        lookOfBoth();
        assertNull(other.landing());
        assertEquals(1, owner.view().pool.landingsPosted);
        assertFalse(owner.settled());
        assertFalse(owner.finished());
    }

    @Test
    void allSeeTheEndAtTheSameLook() {
        heard = said(0, 0, 0, false);
        received = 3;
        lookOfBoth();
        lookOfBoth();
        lookOfBoth();
        assertTrue(owner.settled());
        assertFalse(owner.finished());
        heard = said(0, 0, 0, true);
        lookOfBoth();
        assertFalse(owner.finished());
        lookOfBoth();
        assertTrue(owner.finished());
        assertTrue(other.finished());
    }
}
