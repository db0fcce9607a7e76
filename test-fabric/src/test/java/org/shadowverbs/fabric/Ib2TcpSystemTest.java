// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Jobs on the verbs device over TCP: from their first line, and after a restart of what ran on an HCA, and back. */
@Timeout(240)
final class Ib2TcpSystemTest {
    private static final int RANKS = 2;

    @Test
    void checkpointsAndRunsOn() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", RANKS);
            selfcheck.awaitConnected();
            selfcheck.work();
            job.checkpoint();
            selfcheck.work();
            selfcheck.stopAndVerify();
        }
    }

    @Test
    void restartsWhatRanOnAnHca() throws Exception {
        killAndRestart("hca", "ib2tcp");
    }

    @Test
    void whatRanOnTcpRestartsOnAnHca() throws Exception {
        killAndRestart("ib2tcp", "hca");
    }

    private static void killAndRestart(final String first, final String second) throws Exception {
        try (Job job = Distribution.start()) {
            job.backend(first);
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("selfcheck", RANKS);
            selfcheck.awaitConnected();
            selfcheck.work();
            final String folder = job.checkpoint().get("folder").asText();
            selfcheck.work();
            job.backend(second);
            selfcheck.killRestartAndVerify(folder);
        }
    }
}
