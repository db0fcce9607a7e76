// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class CriuCommandTest {
    @Test
    void readsWhatAProgramWritesToEitherStream() throws Exception {
        final CriuCommand.Result result = CriuCommand.run(List.of("sh", "-c", "echo out; echo err >&2; exit 3"), Duration.ofMinutes(2));
        assertEquals(new CriuCommand.Result(3, "out\nerr\n"), result);
    }

    /** An agent that is killed while it runs CRIU leaves no file behind. */
    @Test
    void theFileThatAProgramWritesToHasNoNameWhileItRuns() throws Exception {
        final String untilDeleted = "until readlink /proc/$$/fd/1 | grep -q '(deleted)$'; do sleep 0.01; done";
        assertEquals(0, CriuCommand.run(List.of("sh", "-c", untilDeleted), Duration.ofMinutes(2)).status());
    }
}
