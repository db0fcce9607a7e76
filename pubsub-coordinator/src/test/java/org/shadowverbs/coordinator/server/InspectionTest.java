// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.coordinator.client.CheckAnswer;
import org.shadowverbs.coordinator.process.Finding;

/** Whether a checkpoint could be made is said by ranks and hosts, and nothing of it changes the job. */
@Timeout(120)
class InspectionTest {
    private TestJob job;

    @AfterEach
    void stop() throws Exception {
        job.close();
    }

    private static CheckAnswer knows(final List<String> problems, final Set<String> own, final Map<String, List<String>> peers) {
        return new CheckAnswer(problems, own, peers, "127.0.0.1:7");
    }

    @Test
    void aJobWhoseRanksAndHostsAgreeCanBeSaved() throws Exception {
        job = new TestJob(20);
        job.rank("a").outlook = knows(List.of(), Set.of("1"), Map.of("QP 1", List.of("2", "2 ended")));
        job.rank("b").outlook = knows(List.of(), Set.of("2"), Map.of("QP 2", List.of("1", "1 ended")));
        final Inspection.Answer answer = job.coordinator.inspections().ask();
        assertEquals(List.of(), answer.all());
        assertTrue(answer.possible());
        assertEquals(answer, job.coordinator.inspections().last());
        assertFalse(Files.exists(job.checkpoints), "the check has made the checkpoint directory");
        assertEquals(1, job.checkpoint().epoch(), "a check is no epoch");
    }

    @Test
    void eachReasonIsNamed() throws Exception {
        job = new TestJob(20);
        job.rank("a").outlook = knows(List.of("queue pair 3: the send queue is in error (SQE)"), Set.of("1"),
                Map.of("QP 1", List.of("7", "7 ended")));
        job.images.findings = List.of(new Finding("rank 0 (pid 1, a, fd 5)", "a Unix socket to pid 9 outside the job", "close it"));
        Files.writeString(job.checkpoints, "a file");
        final List<String> reasons = job.coordinator.inspections().ask().reasons();
        assertEquals(4, reasons.size(), reasons::toString);
        assertTrue(reasons.get(0).contains(job.checkpoints + " is not a directory"), reasons::toString);
        assertTrue(reasons.get(1).startsWith("rank 0 (host testhost, pid ") && reasons.get(1).endsWith("in error (SQE)"),
                reasons::toString);
        assertTrue(reasons.get(2).contains("QP 1: the peer is outside the job"), reasons::toString);
        assertEquals("host testhost: rank 0 (pid 1, a, fd 5): a Unix socket to pid 9 outside the job; close it", reasons.get(3));
    }

    /** It may have been the peer of those that are left. */
    @Test
    void anUnknownPeerIsNoneOutsideOnceSomebodyHasLeft() throws Exception {
        job = new TestJob(20);
        final TestRank a = job.rank("a");
        a.outlook = knows(List.of(), Set.of("1"), Map.of("QP 1", List.of("2", "2 ended")));
        final TestRank b = job.rank("b");
        assertEquals(1, job.coordinator.inspections().ask().reasons().size());
        b.die();
        job.coordinator.job().epoch().await(() -> job.coordinator.job().ranks().size() == 1, java.time.Duration.ofSeconds(60),
                () -> "b is still there");
        assertEquals(List.of(), job.coordinator.inspections().ask().all());
    }

    @Test
    void whoDoesNotAnswerIsNamed() throws Exception {
        job = new TestJob(1);
        job.rank("a").outlook = null;
        final Inspection.Answer answer = job.coordinator.inspections().ask();
        assertFalse(answer.possible());
        assertEquals(List.of(), answer.reasons());
        assertTrue(answer.silent().getFirst().startsWith("rank 0 (host testhost, pid ")
                && answer.silent().getFirst().contains("did not answer within 1 s"), answer.toString());
    }

    @Test
    void whatPassesDoesNotCount() throws Exception {
        job = new TestJob(20);
        job.rank("a");
        job.images.findings = List.of(new Finding("rank 0", "a connection that is closed soon", ""));
        job.images.looksWithFindings.set(1);
        assertEquals(List.of(), job.coordinator.inspections().ask().all());
    }
}
