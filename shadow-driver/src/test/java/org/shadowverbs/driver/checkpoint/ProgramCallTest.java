// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.driver.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.shadowverbs.coordinator.client.CheckpointRequest;
import org.shadowverbs.coordinator.client.LinkLostException;
import org.shadowverbs.coordinator.client.ProgramAnswer;
import org.shadowverbs.driver.nativelib.Fake;
import org.shadowverbs.driver.nativelib.Native;
import org.shadowverbs.driver.nativelib.VerbsErrno;

/** A call of the program is asked for until it is answered, and ended by a checkpoint in which it is waiting. */
final class ProgramCallTest {
    private static final CheckpointRequest ANY = new CheckpointRequest(1, 60, Map.of());
    private static final CheckpointRequest TOGETHER = new CheckpointRequest(1, 60, Map.of(CheckpointRequest.TOGETHER, "true"));

    private final List<String> answers = new ArrayList<>();
    private final List<String> asked = new ArrayList<>();
    private long seconds;
    private final ProgramCall call = new ProgramCall(new Fake(0x1000).answer("programAnswer",
            args -> answers.add(args[0] + " " + args[1] + " " + args[2] + " " + args[3]) ? null : null).as(Native.class)) {
        @Override
        long now() {
            return TimeUnit.SECONDS.toNanos(seconds);
        }
    };

    private void wants(final long number, final int processes) {
        call.wants(number, processes, (which, together, written) -> asked.add(which + " " + together + (written == 0 ? "" : " in " + written)));
    }

    private void safe(final long which, final long epoch) {
        call.answered(new ProgramAnswer(which, epoch, ""));
    }

    private void checkpoint(final CheckpointRequest request, final int outcome) {
        call.begins(request);
        call.detaches();
        call.ends(outcome);
    }

    @Test
    void aCheckpointAnswersItWhoeverHasAskedForThat() {
        wants(1, 0);
        wants(1, 0);
        assertEquals(List.of("1 0", "1 0"), asked);
        call.answered(new ProgramAnswer(1, 0, ""));
        checkpoint(ANY, ProgramCall.RESUMED);
        assertEquals(List.of(), answers, "it may still fail");
        safe(1, 2);
        wants(1, 0);
        assertEquals(List.of(), answers);
        assertEquals("1 0 in 1", asked.getLast());
        safe(1, 1);
        safe(1, 1);
        assertEquals(List.of("1 1 0 "), answers);
        checkpoint(ANY, ProgramCall.RESUMED);
        wants(1, 0);
        assertEquals(1, answers.size());
        assertEquals(3, asked.size());
        wants(2, 0);
        checkpoint(ANY, ProgramCall.RESTARTED);
        assertEquals("2 2 0 ", answers.getLast());
    }

    @Test
    void whoCallsWhenTheImageMayBeMadeAlreadyAsksForAnother() {
        call.begins(ANY);
        wants(1, 0);
        assertEquals(List.of(), asked, "the checkpoint that goes on may be the one");
        call.detaches();
        call.ends(ProgramCall.RESUMED);
        safe(1, 1);
        assertEquals(List.of("1 1 0 "), answers);

        call.begins(ANY);
        call.detaches();
        wants(2, 0);
        call.ends(ProgramCall.RESUMED);
        safe(2, 1);
        assertEquals(1, answers.size());
        call.again((which, together, written) -> asked.add(which + " again in " + written));
        assertEquals(List.of("2 again in 0"), asked);
    }

    @Test
    void oneThatIsGivenUpAnswersNothing() {
        wants(1, 0);
        checkpoint(ANY, ProgramCall.GIVEN_UP);
        assertEquals(List.of(), answers);
        call.answered(new ProgramAnswer(2, 0, "of another call"));
        assertEquals(List.of(), answers);
        call.answered(new ProgramAnswer(1, 0, "no space is left"));
        call.answered(new ProgramAnswer(1, 0, "no space is left"));
        assertEquals(List.of("1 -1 " + VerbsErrno.EIO + " no space is left"), answers);
    }

    @Test
    void callsThatAreMadeTogetherAreEndedTogether() {
        wants(1, 4);
        checkpoint(ANY, ProgramCall.RESUMED);
        safe(1, 1);
        assertEquals(List.of(), answers);
        checkpoint(TOGETHER, ProgramCall.RESTARTED);
        assertEquals(List.of("1 2 0 "), answers);
    }

    @Test
    void itFailsWhenNobodyAnswers() {
        call.wants(1, 0, (which, together, written) -> {
            throw new LinkLostException("no agent");
        });
        seconds += 59;
        wants(1, 0);
        assertEquals(List.of("1 0"), asked);
        call.answered(new ProgramAnswer(1, 0, ""));
        seconds += 60;
        wants(1, 0);
        assertEquals(List.of(), answers);
        seconds += 1;
        wants(1, 0);
        assertEquals(List.of("1 -1 " + VerbsErrno.ETIMEDOUT + " the job's coordinator has not answered for 60 s"), answers);
        wants(2, 0);
        call.nobodyServes("no agent");
        call.nobodyServes("no agent");
        assertEquals("2 -1 " + VerbsErrno.ENOTCONN + " no agent", answers.getLast());
        assertEquals(2, answers.size());
    }
}
