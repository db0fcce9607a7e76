// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ids.AddressBook;
import org.shadowverbs.ids.ExceptionSet;
import org.shadowverbs.ids.Lids;
import org.shadowverbs.ids.OwnerRecord;
import org.shadowverbs.ids.PortIds;

final class LidRegisterTest {
    private static final int RANK = 5;

    private static AddressBook carriedOver(final int virtualLid, final int realLid) {
        final PortIds port = new PortIds(1, virtualLid, realLid, 0, 1, new PortIds.GidPair[0]);
        return new AddressBook(List.of(new OwnerRecord(0, new OwnerRecord.ContextIds[] {new OwnerRecord.ContextIds(
                new PortIds[] {port}, ExceptionSet.EMPTY, ExceptionSet.EMPTY, ExceptionSet.EMPTY, Map.of())})));
    }

    @Test
    void aProcessHasTheLidOfItsRankAgain() throws IOException {
        assertEquals(Lids.of(RANK, 0), LidRegister.choose(RANK, AddressBook.EMPTY, lid -> -1));
        assertEquals(Lids.of(RANK, 0), LidRegister.choose(RANK, AddressBook.EMPTY, lid -> RANK));
    }

    /** Others translate what was carried over, and a number of ranks above that of lids begins again. */
    @Test
    void aLidThatSomebodyElseHasOrHadIsLeftAlone() throws IOException {
        assertEquals(Lids.of(RANK, 1), LidRegister.choose(RANK, carriedOver(Lids.of(RANK, 0), 9), lid -> -1));
        assertEquals(Lids.of(RANK, 1), LidRegister.choose(RANK, carriedOver(9, Lids.of(RANK, 0)), lid -> -1));
        assertEquals(Lids.of(RANK, 2), LidRegister.choose(RANK, carriedOver(9, Lids.of(RANK, 0)),
                lid -> lid == Lids.of(RANK, 1) ? 0 : -1));
        assertThrows(VerbsException.class, () -> LidRegister.choose(RANK, AddressBook.EMPTY, lid -> 0));
    }
}
