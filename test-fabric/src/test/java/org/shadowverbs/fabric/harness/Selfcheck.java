// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

/**
 * One or more runs of the self-checking program side by side, until all are told to stop. On the software HCA, unless the test has
 * set it up itself, each request takes so long that all queues are full at a checkpoint, and the processors free for it. So that
 * they are that over TCP, too, ranks take a small share of them, unless the test gives another.
 */
public final class Selfcheck {
    private static final Duration ENDING = Running.DEADLINE;
    /** Of processor time, for each program: enough for hundreds of operations. */
    public static final double SECONDS_OF_WORK = 0.05;

    /** Of a processor, for a rank, in percent. */
    private static final String SHARE = "6";

    private final Job job;
    private final List<String> program;
    private final Path stop;
    private final List<Running> programs = new ArrayList<>();
    private int ranks;

    public Selfcheck(final Job job) {
        this(job, job.program("selfcheck"));
    }

    /** Of a program that takes the options of selfcheck. */
    public Selfcheck(final Job job, final String... program) {
        this.job = job;
        this.program = List.of(program);
        stop = job.work().resolve("stop");
    }

    /** Launches one program that forks its ranks. */
    public Running launch(final String name, final int size, final String... options) throws IOException {
        slowDown();
        programs.add(job.launch(name, command(program, size, stop, options)));
        ranks += size;
        return programs.getLast();
    }

    /** Launches each rank by itself. */
    public void launchOneByOne(final int size) throws IOException {
        final Path meet = job.folder("meet");
        slowDown();
        for (int rank = 0; rank < size; rank++) {
            programs.add(job.launch("rank-" + rank, ofRank(rank, size, meet, stop)));
        }
        ranks += size;
    }

    /** The program's command line, until there is a file. */
    public static String[] command(final int size, final Path stop, final String... more) {
        return command(List.of(Distribution.DIST.resolve("programs/selfcheck").toString()), size, stop, more);
    }

    /** That for one of its ranks, which meets the others by files in a folder. */
    public static String[] ofRank(final int rank, final int size, final Path meet, final Path stop) {
        return command(size, stop, "--rank", Integer.toString(rank), "--dir", meet.toString());
    }

    private static String[] command(final List<String> program, final int size, final Path stop, final String... more) {
        return Stream.of(program, List.of("-n", Integer.toString(size), "--stop-file", stop.toString(), "--json", "--share", SHARE),
                List.of(more)).flatMap(List::stream).toArray(String[]::new);
    }

    private void slowDown() throws IOException {
        if (!Files.exists(job.fabric().resolve("conf"))) {
            job.configure(Job.SLOW);
        }
    }

    public int ranks() {
        return ranks;
    }

    /** Waits until all are connected. */
    public void awaitConnected() throws IOException, InterruptedException {
        job.awaitRanks(ranks, programs.toArray(new Running[0]));
        job.await("all ranks to be connected",
                () -> programs.stream().mapToLong(p -> p.lines(": connected: ")).sum() >= ranks,
                programs.toArray(new Running[0]));
    }

    /** Lets all post and verify for a while. */
    public void work() throws IOException, InterruptedException {
        for (final BooleanSupplier worked : programs.stream().map(program -> program.takes(SECONDS_OF_WORK)).toList()) {
            job.await("traffic", worked, programs.toArray(new Running[0]));
        }
    }

    /** Lets a program, or all that were restarted by a command, post and verify for a while. */
    public void work(final Running running) throws IOException, InterruptedException {
        job.await("traffic", running.takes(SECONDS_OF_WORK * (programs.contains(running) ? 1 : programs.size())), running);
    }

    /**
     * @param ranks as status tells of them
     * @return by its number for each rank: whether it has posted and verified for a while, from now on, or has ended
     */
    public static Map<String, BooleanSupplier> works(final JsonNode ranks) {
        final Map<String, BooleanSupplier> worked = new LinkedHashMap<>();
        for (final JsonNode rank : ranks) {
            final ProcessHandle process = ProcessHandle.of(rank.get("pid").asLong()).orElseThrow();
            final Duration enough = process.info().totalCpuDuration().orElse(Duration.ZERO).plusMillis((long) (SECONDS_OF_WORK * 1e3));
            worked.put(rank.get("rank").asText(),
                    () -> process.info().totalCpuDuration().orElse(Duration.ofDays(1)).compareTo(enough) > 0);
        }
        return worked;
    }

    public void killHard() throws IOException, InterruptedException {
        for (final Running program : programs) {
            program.killHard();
        }
    }

    /** Tells all to stop, and waits for the end of those programs. */
    public void stop(final Running... running) throws IOException, InterruptedException {
        Files.createFile(stop);
        for (final Running program : running) {
            final int status = program.awaitEnd(ENDING);
            if (status != 0) {
                throw new IOException(program.name() + " ended with status " + status + ":\n" + said(program) + said(programs));
            }
        }
    }

    /** A restarted rank writes to the files of the program that launched it, not to those of the restart. */
    public static String said(final Iterable<Running> programs) throws IOException {
        final StringBuilder all = new StringBuilder();
        for (final Running program : programs) {
            all.append(said(program));
        }
        return all.toString();
    }

    private static String said(final Running program) throws IOException {
        return program.name() + ": " + program.output() + program.errors() + "\n";
    }

    /** Kills all, restarts the checkpoint, lets it work, stops it, and looks at the results. */
    public void killRestartAndVerify(final String folder) throws IOException, InterruptedException {
        killHard();
        Files.deleteIfExists(stop);
        restartAndVerify(folder);
    }

    /** Restarts a checkpoint of all, lets it work, stops it, and looks at the results. */
    public void restartAndVerify(final String folder) throws IOException, InterruptedException {
        final Running restarted = job.restartAndAwait(folder, ranks);
        work(restarted);
        stop(restarted);
        verify();
    }

    public void stopAndVerify() throws IOException, InterruptedException {
        stop(programs.toArray(new Running[0]));
        verify();
    }

    /** No operation was lost, doubled or damaged. Of unreliable messages some arrived: the program itself looks for the last. */
    public void verify() throws IOException {
        // Of those launched one by one rank 0 speaks for all.
        final List<Running> speakers = programs.stream().filter(p -> !p.name().matches("rank-[1-9]")).toList();
        for (final Running program : speakers) {
            verify(program);
        }
    }

    public static void verify(final Running program) throws IOException {
        final String said = said(program);
        final JsonNode counts = new ObjectMapper().readTree(program.output().lines().filter(l -> l.startsWith("{"))
                .reduce((a, b) -> b).orElseThrow(() -> new AssertionError("no result: " + said)));
        for (final String name : List.of("lost", "doubled", "damaged", "unexpected")) {
            assertEquals(0, counts.get(name).asLong(), name + ": " + said);
        }
        assertTrue(counts.get("verified").asLong() > 100, said);
        assertEquals(counts.get("unreliable_sent").asLong() > 0, counts.get("unreliable_arrived").asLong() > 0, said);
        assertTrue(counts.get("passed").asBoolean(), said);
    }
}
