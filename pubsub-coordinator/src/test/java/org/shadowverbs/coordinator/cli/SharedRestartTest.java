// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

final class SharedRestartTest {
    private static final Duration AT_ONCE = Duration.ofMillis(1);
    private static final Duration LONG = Duration.ofMinutes(1);

    private final CompletableFuture<Integer> what = new CompletableFuture<>();
    private final CompletableFuture<String> end = new CompletableFuture<>();

    @Test
    void whatHasComeIsHandedOver() throws Exception {
        what.complete(7);
        assertEquals(7, SharedRestart.waitFor(what, end, LONG, "a share"));
    }

    @Test
    void anEndSaysWhy() {
        end.complete("host b: no image");
        assertEquals("restart: host b: no image",
                assertThrows(CommandException.class, () -> SharedRestart.waitFor(what, end, LONG, "a share")).getMessage());
    }

    @Test
    void aDeadlineNamesWhatWasWaitedFor() {
        assertEquals("restart: waited 0 s for a share",
                assertThrows(CommandException.class, () -> SharedRestart.waitFor(what, end, AT_ONCE, "a share")).getMessage());
    }
}
