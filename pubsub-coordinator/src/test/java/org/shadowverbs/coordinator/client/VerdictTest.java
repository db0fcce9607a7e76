// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.AlphaChars;
import net.jqwik.api.constraints.Chars;
import net.jqwik.api.constraints.NotEmpty;
import org.junit.jupiter.api.Test;

class VerdictTest {
    @Property
    void comesBackAsItWas(@ForAll final Verdict.Outcome outcome, @ForAll final long epoch,
            @ForAll @NotEmpty @AlphaChars @Chars({' ', '%', 'ä', '/'}) final String name,
            @ForAll @AlphaChars @Chars({' ', '%', '-'}) final String secret,
            @ForAll @AlphaChars @Chars({' ', '.'}) final String address,
            @ForAll @AlphaChars @Chars({' ', '%', '-'}) final String reason) {
        final Verdict verdict = new Verdict(outcome, epoch, "hca", Path.of("/run/" + name), secret, address,
                reason);
        assertEquals(verdict, Verdict.parse(verdict.line()));
    }

    @Test
    void hasTheWrittenForm() {
        assertEquals("v3 restored 3 hca /tmp/a%20b/agent.sock s 10.0.0.1 the reason\n", new Verdict(Verdict.Outcome.RESTORED, 3, "hca",
                Path.of("/tmp/a b/agent.sock"), "s", "10.0.0.1", "the reason").line());
    }

    @Test
    void aLongReasonIsCutSoThatTheWriteIsAtomic() {
        final String line = new Verdict(Verdict.Outcome.ABORTED, 1, "hca", Path.of("/a"), "", "", "x\n".repeat(5000)).line();
        assertTrue(line.getBytes(StandardCharsets.UTF_8).length < 4096);
        assertEquals(line.length() - 1, line.indexOf('\n'));
    }

    @Test
    void whatIsNoVerdictIsQuoted() {
        for (final String line : new String[] {"", "v3", "v2 resumed 1 hca /a   ", "v3 lost 1 hca /a   ",
            "v3 resumed x hca /a   "}) {
            final IllegalArgumentException e =
                    assertThrows(IllegalArgumentException.class, () -> Verdict.parse(line + "\n"));
            assertTrue(e.getMessage().contains('"' + line + '"'), e.getMessage());
        }
    }
}
