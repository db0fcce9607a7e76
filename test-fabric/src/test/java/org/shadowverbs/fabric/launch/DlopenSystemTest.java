// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/** The self-checking program, not linked with libibverbs: it loads it by dlopen and finds functions by dlsym and dlvsym. */
final class DlopenSystemTest {
    private static final int RANKS = 3;

    @ParameterizedTest
    @CsvSource({"'', hca, hca, scrambled", "--extended --srq --churn, hca, ib2tcp, identity"})
    void survivesResumeAndThenKillAndRestart(final String options, final String first, final String second,
            final String ids) throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", ids))) {
            job.backend(first);
            final Selfcheck selfcheck = new Selfcheck(job, job.program("selfcheck-dlopen"));
            selfcheck.launch("selfcheck", RANKS, options.isEmpty() ? new String[0] : options.split(" "));
            resumeKillRestart(job, selfcheck, second);
        }
    }

    /** Preloaded behind ours, its malloc and write find the next ones by RTLD_NEXT from the start of the process on. */
    @Test
    void leavesALibraryAloneThatStandsBeforeTheCLibrary() throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", "scrambled"))) {
            job.backend("ib2tcp");
            final Selfcheck selfcheck = new Selfcheck(job, "/bin/sh", "-c",
                    "LD_PRELOAD=$LD_PRELOAD:" + job.program("next.so") + " exec \"$0\" \"$@\"", job.program("selfcheck-dlopen"));
            final Running program = selfcheck.launch("selfcheck", RANKS, "--events");
            resumeKillRestart(job, selfcheck, "hca");
            assertEquals(RANKS, program.lines("counted: "), program.errors());
        }
    }

    private static void resumeKillRestart(final Job job, final Selfcheck selfcheck, final String backend) throws Exception {
        selfcheck.awaitConnected();
        selfcheck.work();
        job.checkpoint();
        selfcheck.work();
        final String folder = job.checkpoint().get("folder").asText();
        job.backend(backend);
        selfcheck.killRestartAndVerify(folder);
    }
}
