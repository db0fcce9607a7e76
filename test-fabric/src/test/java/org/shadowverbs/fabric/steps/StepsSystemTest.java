// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.steps;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;

/**
 * Any legal sequence of verbs, with a checkpoint, a restart and another checkpoint inserted anywhere, looks to the
 * program like the same sequence without them, on the HCA and over TCP. Of completion queues that share a channel some
 * have been asked for an event, and the program sleeps until it comes. The programs of one try are ranks of one job, with
 * a sequence each. Where one fails, what is reported is the shortest of those found in two minutes.
 */
final class StepsSystemTest {
    private static final int PROGRAMS = 5;
    private static final int PAUSES = 3;
    private static final int RESTART_AT = 1;
    private static final Duration ENDING = Running.DEADLINE;

    @Property(tries = 2, shrinking = ShrinkingMode.BOUNDED)
    void checkpointsAndRestartsAreNotSeen(@ForAll final boolean scrambled,
            @ForAll @Size(PROGRAMS) final List<@Size(min = 50, max = 200) List<Integer>> choices) throws Exception {
        run(scrambled, "hca", "hca", "strict", choices.stream()
                .map(c -> new StepsScript(c, PAUSES, false, false).toString()).toList());
    }

    /** Nor on a device that answers in any way that the verbs leave open. */
    @Property(tries = 1, shrinking = ShrinkingMode.BOUNDED)
    void checkpointsAndRestartsAreNotSeenOnAHostileDevice(@ForAll final boolean scrambled,
            @ForAll @IntRange(min = 1, max = 1000) final int seed,
            @ForAll @Size(PROGRAMS) final List<@Size(min = 50, max = 200) List<Integer>> choices) throws Exception {
        run(scrambled, "hca", "hca", "hostile:" + seed, choices.stream()
                .map(c -> new StepsScript(c, PAUSES, false, true).toString()).toList());
    }

    @Property(tries = 2, shrinking = ShrinkingMode.BOUNDED)
    void restartsOnTheOtherBackendAreNotSeen(@ForAll final boolean scrambled, @ForAll final boolean fromTcp,
            @ForAll @Size(PROGRAMS) final List<@Size(min = 50, max = 200) List<Integer>> choices) throws Exception {
        run(scrambled, fromTcp ? "ib2tcp" : "hca", fromTcp ? "hca" : "ib2tcp", "strict", choices.stream()
                .map(c -> new StepsScript(c, PAUSES, true, false).toString()).toList());
    }

    private static void run(final boolean scrambled, final String first, final String second, final String personality,
            final List<String> scripts) throws Exception {
        try (Job job = Distribution.start(Map.of("SHADOWVERBS_IDS", scrambled ? "scrambled" : "identity",
                "SV_HCA_PERSONALITY", personality))) {
            final List<String> expected = runNative(job, scripts);
            final List<Running> programs = new ArrayList<>();
            job.backend(first);
            for (int i = 0; i < PROGRAMS; i++) {
                programs.add(job.launch("steps-" + i, job.program("steps"), write(job, "script-" + i, scripts.get(i))));
            }
            job.backend(second);
            runOn(job, programs);
            for (int i = 0; i < PROGRAMS; i++) {
                assertEquals(expected.get(i), withoutPauses(programs.get(i)), "of the steps\n" + scripts.get(i)
                        + programs.get(i).errors());
            }
        }
    }

    private static List<String> runNative(final Job job, final List<String> scripts) throws Exception {
        final List<Running> programs = new ArrayList<>();
        for (int i = 0; i < scripts.size(); i++) {
            final String script = write(job, "native-" + i, scripts.get(i));
            for (int pause = 0; pause < PAUSES; pause++) {
                Files.createFile(Path.of(script + "." + pause));
            }
            programs.add(job.runNative("steps-native-" + i, job.program("steps"), script));
        }
        final List<String> output = new ArrayList<>();
        for (final Running program : programs) {
            program.succeed(ENDING);
            output.add(withoutPauses(program));
        }
        return output;
    }

    private static void runOn(final Job job, final List<Running> programs) throws Exception {
        Running restarted = null;
        for (int pause = 0; pause < PAUSES; pause++) {
            for (final Running program : programs) {
                final String line = "PAUSE " + pause;
                job.await(line + " of " + program.name(), () -> program.lines(line) == 1);
            }
            final String folder = job.checkpoint().get("folder").asText();
            if (pause == RESTART_AT) {
                for (final Running program : programs) {
                    program.killHard();
                }
                restarted = job.restartAndAwait(folder, PROGRAMS);
            }
            for (int i = 0; i < PROGRAMS; i++) {
                Files.createFile(job.work().resolve("script-" + i + "." + pause));
            }
        }
        if (restarted.awaitEnd(ENDING) != 0) {
            throw new AssertionError(Selfcheck.said(List.of(restarted)) + Selfcheck.said(programs));
        }
    }

    private static String write(final Job job, final String name, final String script) throws IOException {
        return Files.writeString(job.work().resolve(name), script).toString();
    }

    private static String withoutPauses(final Running program) throws IOException {
        return program.output().replaceAll("PAUSE [0-9]+\n", "");
    }
}
