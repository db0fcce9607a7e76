// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;

class SettingsTest {
    private final Settings before =
            Settings.of(Map.of("SHADOWVERBS_TCP_ADDRESS", "10.0.0.1", "SHADOWVERBS_SECRET", "first"));

    @Test
    void whatARestartSaysCountsForMoreThanTheEnvironment() {
        final Settings now = before.restored("second", "10.0.0.2");
        assertEquals("10.0.0.2", now.address());
        assertEquals("second", now.secret());
        assertFalse(now.elsewhere());
    }

    @Test
    void anAddressOfBeforeTheRestartMayNotBeOneOfThisHost() {
        assertFalse(before.elsewhere());
        final Settings now = before.restored("", "");
        assertEquals("10.0.0.1", now.address());
        assertEquals("first", now.secret());
        assertTrue(now.elsewhere());
    }
}
