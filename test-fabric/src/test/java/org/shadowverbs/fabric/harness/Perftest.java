// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/** Runs of Debian's perftest that measure until they are told to end, however long what comes in between takes. */
public final class Perftest {
    /** Perftest's first alarm begins to measure, the second ends that, and the third ends the program; its own come too late. */
    private static final List<String> UNTIL_TOLD = List.of("-F", "-D", "10000", "-f", "4000");
    private static final Duration ENDING = Running.DEADLINE;
    private static final Duration MEASURING = Duration.ofMillis(1500);
    private static final Duration MEASURED = Duration.ofMillis(100);
    /** Until who has been told to end, and has not, is told again; twice as long each time. Not all had a handler for the first. */
    private static final Duration ENDS = Duration.ofMillis(1500);
    /** Size, iterations and figures. A deviation may be the root of a little less than nothing. */
    private static final String ROW = "[0-9]+\\s+[0-9]+\\s+";
    private static final String FIGURES = "([0-9.\\s]|-nan)+";
    private static final String FIGURES_OF_NO_CLOCK = "[-0-9.infa\\s]+";
    /** Of processor time: enough for thousands of requests. */
    private static final double SECONDS_OF_WORK = 0.1;
    private static final long SIGALRM_BIT = 1L << 14 - 1;

    private Perftest() {
    }

    /** The command of a program that measures until it is told to end. */
    public static String[] command(final String program) {
        return Stream.concat(Stream.of(program.split(" ")), UNTIL_TOLD.stream()).toArray(String[]::new);
    }

    /** Waits until those programs, or one of those that each has started, have measured for a while. */
    public static void work(final Job job, final Running... programs) throws IOException, InterruptedException {
        for (final Running program : programs) {
            job.await("the programs to begin", () -> !measuring(program).isEmpty(), programs);
            job.await("the programs to measure", program.takes(SECONDS_OF_WORK), programs);
        }
    }

    /**
     * Ends what those programs measure, and waits for their end, which must be with status 0. They may be commands that have
     * started them. Who measures nothing itself, the server of a READ, has no handler of alarms, and ends with its client. Who has
     * a result is about to end: perftest's handler then writes to what has been freed.
     */
    public static void end(final Running... programs) throws IOException, InterruptedException {
        final long deadline = System.nanoTime() + ENDING.toNanos();
        final Iterator<Duration> pauses = Stream.concat(Stream.of(MEASURING, MEASURED), Stream.iterate(ENDS, p -> p.multipliedBy(2))).iterator();
        while (Stream.of(programs).anyMatch(Running::isRunning) && System.nanoTime() < deadline) {
            for (final Running program : programs) {
                if (program.output().lines().noneMatch(line -> line.strip().matches(ROW + FIGURES_OF_NO_CLOCK))) {
                    alarm(program);
                }
            }
            final long next = System.nanoTime() + pauses.next().toNanos();
            for (final Running program : programs) {
                program.endsWithin(Duration.ofNanos(Math.max(0, next - System.nanoTime())));
            }
        }
        for (final Running program : programs) {
            program.succeed(ENDING);
        }
    }

    /** Ends what a program measures, or what a command that has started it. */
    public static void alarm(final Running program) throws IOException, InterruptedException {
        final Set<Long> pids = measuring(program);
        // qperf's server has a process for each client, which measures; both read /proc/stat at one offset when they are told.
        final Set<Long> servers = new HashSet<>();
        pids.forEach(pid -> ProcessHandle.of(pid).flatMap(ProcessHandle::parent).ifPresent(parent -> servers.add(parent.pid())));
        pids.removeAll(servers);
        for (final long pid : pids) {
            new ProcessBuilder("kill", "-ALRM", Long.toString(pid)).start().waitFor(); // it may just have ended
        }
    }

    private static Set<Long> measuring(final Running program) {
        final Set<Long> pids = new LinkedHashSet<>(List.of(program.pid()));
        program.descendants().forEach(d -> pids.add(d.pid()));
        pids.removeIf(pid -> !measures(Path.of("/proc", Long.toString(pid), "status")));
        return pids;
    }

    /** Whether it is a program of perftest's, or qperf, that has a handler of alarms (proc_pid_status(5)). */
    private static boolean measures(final Path status) {
        try {
            final String said = Files.readString(status);
            return said.matches("(?s)Name:\t(ib_|qperf\n).*") && said.lines().filter(l -> l.startsWith("SigCgt:"))
                    .anyMatch(l -> (Long.parseUnsignedLong(l.substring(7).strip(), 16) & SIGALRM_BIT) != 0);
        } catch (IOException e) {
            return false; // it has ended
        }
    }

    /**
     * The last line of the table has size, iterations and figures; of bandwidths in MB/s a slow one may be 0.00. A round trip
     * takes a tenth of a second where others send as much as they can. On a busy machine perftest may fail to find out how fast
     * its clock is, says so, and prints figures that are none.
     */
    public static void assertPlausible(final Running client) throws Exception {
        final String said = client.name() + ": " + client.output() + client.errors();
        final boolean clockUnknown = said.contains("Correlation coefficient");
        final String figures = ROW + (clockUnknown ? FIGURES_OF_NO_CLOCK : FIGURES);
        final String row = client.output().lines().filter(l -> l.strip().matches(figures))
                .reduce((a, b) -> b).orElseThrow(() -> new AssertionError("no result: " + said));
        final String[] fields = row.strip().split("\\s+");
        assertTrue(Long.parseLong(fields[1]) > 10, said);
        if (clockUnknown) {
            return;
        }
        double sum = 0;
        for (int i = 2; i < fields.length; i++) {
            sum += fields[i].equals("-nan") ? 0 : Double.parseDouble(fields[i]);
        }
        assertTrue(sum > 0, said);
    }
}
