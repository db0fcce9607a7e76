// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ShellsTest {
    @ParameterizedTest
    @CsvSource({"node1, node1, true", "node1, node1.cluster.org, true", "node1.cluster.org, node1, true", "node1, node10, false",
        "node1.a.org, node1.b.org, false", "10.0.0.1, 10.0.0.1, true", "10.0.0.1, 10, false"})
    void hostsAreKnownWithAndWithoutTheirDomain(final String agents, final String asked, final boolean same) {
        assertEquals(same, Shells.isName(agents, asked));
    }
}
