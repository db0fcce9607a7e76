// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.shadowverbs.ids.IdMasks;

class SharedDomainsTest {
    private static final int STDIN = 0;

    private static SharedDomains of(final int rank, final int fd) throws Refusal {
        final Model model = new Model(IdMasks.IDENTITY);
        final Context context = new Context(1, 101, 5, "shadow0", 1, 7, 7, IdMasks.IDENTITY);
        model.xrcds.add(new Xrcd(3, 103, context, fd, 1));
        return new SharedDomains(model, rank);
    }

    @Test
    void aDomainOfOneFileIsRefusedByAllButTheLastWhoOpenedIt() throws Refusal {
        final Map<String, byte[]> published = new HashMap<>();
        of(4, STDIN).publish(published);
        assertDoesNotThrow(() -> of(4, STDIN).check(published));
        of(5, STDIN).publish(published);
        assertEquals(1, published.size());
        final Refusal refusal = assertThrows(Refusal.class, () -> of(4, STDIN).check(published));
        assertTrue(refusal.getMessage().contains("shared with rank 5"), refusal.getMessage());
        assertDoesNotThrow(() -> of(5, STDIN).check(published));
    }

    @Test
    void aDomainWithoutAFileIsNobodyElses() throws Refusal {
        final Map<String, byte[]> published = new HashMap<>();
        of(4, -1).publish(published);
        assertTrue(published.isEmpty());
        assertDoesNotThrow(() -> of(5, -1).check(published));
    }
}
