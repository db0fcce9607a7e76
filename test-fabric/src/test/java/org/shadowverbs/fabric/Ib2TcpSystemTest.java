// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
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

    /** What is lost with a connection is sent again, and what had taken effect does not take effect again. */
    @Test
    void survivesConnectionsThatAreCut() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", 4);
            selfcheck.awaitConnected();
            final List<String> cut = new ArrayList<>(List.of(job.program("cut-tcp"), "--cuts", "100"));
            program.descendants().forEach(rank -> cut.add(Long.toString(rank.pid())));
            final Running cutter = job.runCommandLine("cut-tcp", cut.toArray(new String[0]));
            cutter.succeed(Duration.ofSeconds(90));
            selfcheck.work();
            selfcheck.stopAndVerify();
        }
    }

    @Test
    void eightProcessesRunForAWhile() throws Exception {
        try (Job job = Distribution.start()) {
            job.backend("ib2tcp");
            final Selfcheck selfcheck = new Selfcheck(job);
            final Running program = selfcheck.launch("selfcheck", 8, "--seconds", "10");
            program.succeed(Duration.ofSeconds(200));
            Selfcheck.verify(program);
        }
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
