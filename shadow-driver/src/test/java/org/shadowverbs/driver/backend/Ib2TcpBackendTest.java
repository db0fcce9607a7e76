// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.backend;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.VerbsErrno;
import org.shadowverbs.driver.nativelib.VerbsException;
import org.shadowverbs.ib2tcp.system.Host;

final class Ib2TcpBackendTest {
    private static final int NO_OBJECT = 0x3039;

    private final List<String> said = new ArrayList<>();
    private final Backend backend = new Ib2TcpBackend(new Fake(16).answer("say", args -> {
        said.add((String) args[0]);
        return null;
    }).as(Host.class), false);

    @Test
    void whatTheDeviceRefusesIsSaidInOneLine() {
        assertEquals(VerbsErrno.EINVAL, backend.deallocPd(NO_OBJECT));
        assertEquals(1, said.size());
        assertTrue(said.getFirst().startsWith("ib2tcp cannot "), said.getFirst());
    }

    /** By whoever answers the verb. */
    @Test
    void whatTheDeviceDoesNotMakeIsToBeSaid() {
        final VerbsException e = assertThrows(VerbsException.class, () -> backend.allocPd(NO_OBJECT));
        assertEquals(VerbsErrno.EINVAL, e.errno());
        assertTrue(e.loud() && e.getMessage().startsWith("ib2tcp cannot "), e.getMessage());
        assertEquals(List.of(), said);
    }
}
