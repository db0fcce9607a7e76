// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.shadowverbs.fabric.harness.Looks;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;
import org.shadowverbs.fabric.harness.TwoHosts;

/** The self-checking program on three hosts, one of them spare, of which tests lose some. */
abstract class JobOnThreeHosts {
    static final Duration ENDING = Running.DEADLINE;
    static final int HOSTS = 3;
    static final int RANKS = 4;
    static final int LONGEST_CHECKPOINT_MILLIS = 3_000;
    static final String RECOVERED = " recovered in ";

    final List<Running> programs = new ArrayList<>();
    TwoHosts hosts;
    Path stop;

    /** Half of the ranks on each of the first two hosts; the third is spare. */
    final void launch(final TwoHosts three) throws Exception {
        hosts = three;
        programs.clear();
        stop = hosts.work().resolve("stop");
        programs.addAll(hosts.launchSelfcheck(RANKS, stop));
        spare(2);
        work();
    }

    final void spare(final int host) throws Exception {
        hosts.command(host, "agent", "--daemon", "--spare").succeed(ENDING);
    }

    final JsonNode status() {
        try {
            return hosts.status();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** All ranks go on. */
    final void work() throws Exception {
        final JsonNode ranks = status().get("ranks");
        assertEquals(RANKS, ranks.size(), ranks.toString());
        for (final Map.Entry<String, BooleanSupplier> rank : Selfcheck.works(ranks).entrySet()) {
            await("traffic of rank " + rank.getKey(), rank.getValue());
        }
    }

    final List<ProcessHandle> left(final int host) {
        try {
            return hosts.processes(host);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    final void awaitNothingLeft() throws Exception {
        for (int host = 0; host < HOSTS; host++) {
            final int each = host;
            await("the end of all on " + TwoHosts.name(host), () -> left(each).isEmpty());
        }
    }

    /** How many lines of a log have that text; none where there is no log. */
    static int lines(final Path log, final String text) {
        try {
            return Files.exists(log) ? (int) Files.readAllLines(log).stream().filter(line -> line.contains(text)).count() : 0;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** For docs/PERFORMANCE.md: on a machine that has little else to do this is what users see. */
    final void showLast(final String text) throws IOException {
        Files.readAllLines(hosts.coordinatorLog()).stream().filter(line -> line.contains(text)).reduce((first, last) -> last)
                .ifPresent(System.out::println);
    }

    final void await(final String what, final BooleanSupplier condition) throws Exception {
        final Looks looks = new Looks();
        final long end = System.nanoTime() + ENDING.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("waited " + ENDING.toSeconds() + " s for " + what + said());
            }
            looks.rest();
        }
    }

    /** What there is to say when a wait was in vain. */
    String said() throws Exception {
        final StringBuilder said = new StringBuilder();
        for (final Running program : programs) {
            said.append('\n').append(program.name()).append(": ").append(program.output()).append(program.errors());
        }
        return said.toString();
    }
}
