// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.fabric.harness.Distribution;
import org.shadowverbs.fabric.harness.Job;
import org.shadowverbs.fabric.harness.Looks;
import org.shadowverbs.fabric.harness.Running;
import org.shadowverbs.fabric.harness.Selfcheck;
import org.shadowverbs.fabric.harness.TwoHosts;

/**
 * A job keeps its images on its hosts, with copies at partners and each second checkpoint flushed. It loses a host and comes back from the
 * partner's copy; of a copy that is damaged, and of a place that is gone, it says so, and the next level serves.
 */
@Timeout(1_200)
final class LevelsSystemTest {
    private static final Duration ENDING = Running.DEADLINE;
    private static final int RANKS = 4;
    private static final int HOSTS = 3;

    private final List<Running> programs = new ArrayList<>();
    private TwoHosts hosts;
    private Path local;
    private Path stop;

    @Test
    void whatTheFirstLevelHasLostTheNextOneServes() throws Exception {
        local = Files.createTempDirectory("shadowverbs-levels-");
        try (TwoHosts three = TwoHosts.start(Map.of(), HOSTS, "--exit-on-last", "--recover-job", "5", "--local", local + "/%h",
                "--partner", "--flush-every", "2", "--full-every", "4", "--keep", "3")) {
            hosts = three;
            launch();
            final Path first = checkpoint("level local: node0, node1");
            final Path second = checkpoint("level local: node0, node1");
            final Path third = checkpoint("level local: node0, node1");
            awaitCopies();
            assertEquals(Map.of("local", "node0, node1", "partner", "node0 at node1, node1 at node0"), levels(first));
            assertEquals(Map.of("local", "node0, node1", "partner", "node0 at node1, node1 at node0", "shared", "node0, node1"),
                    levels(second));
            assertEquals(Map.of("local", "node0, node1", "partner", "node0 at node1, node1 at node0"), levels(third));
            assertEquals(content("node1", third, "host-node1"), content("node0", third, "host-node1"));
            assertTrue(images(third).isEmpty(), "not all checkpoints are flushed");

            // Node 2 has nothing: it fetches what the partner has.
            spare();
            loses(1);
            Job.remove(local.resolve("node1"));
            awaitRecoveries(1);
            assertTrue(said(2, "the images of host node1 in " + third.getFileName() + " are read at level partner on node0"));
            assertTrue(said(0, "the images of host node0 in " + third.getFileName() + " are read at level local on node0"));
            work();

            final Path fourth = checkpoint("level local: node0, node2");
            awaitCopies();
            assertEquals(Map.of("local", "node0, node2", "partner", "node0 at node2, node2 at node0", "shared", "node0, node2"),
                    levels(fourth));
            final Path damaged = damage(local.resolve("node0").resolve(jobName()).resolve(fourth.getFileName()), "host-node0");
            loses(2);
            awaitRecoveries(2);
            final String line = "of the images of host node0 the copy at level local on node0 does not serve: image " + damaged
                    + " is damaged";
            assertTrue(said(0, line), "the user hears of it");
            assertTrue(Files.readString(hosts.coordinatorLog()).contains(line));
            assertTrue(said(0, "the images of host node0 in " + fourth.getFileName() + " are read at level shared"));
            assertTrue(said(0, "the images of host node2 in " + fourth.getFileName() + " are read at level partner on node0"));
            work();
            final String list = list().output();
            assertTrue(list.contains("local: node0 (image " + damaged + " is damaged"), list);

            hosts.cut(1, false);
            hosts.cut(2, false);
            await("all hosts to be there again", () -> hosts.status().get("agents").size() == HOSTS);
            // A file is where the folder was.
            Job.remove(local.resolve("node0"));
            Files.createFile(local.resolve("node0"));
            assertFalse(images(checkpoint("host node0 can't keep its images at level local")).isEmpty());
            Files.delete(local.resolve("node0"));
            try (SmallDisk disk = new SmallDisk(Files.createDirectory(local.resolve("node0")))) {
                assertTrue(disk.bytes() < 1 << 20);
                assertFalse(images(checkpoint("the checkpoint begins again: SAVE failed on host node0: no space for the images in "))
                        .isEmpty());
            }
            checkpoint("level local: node0");
            finish();
        } finally {
            Job.remove(local);
        }
    }

    /** Also when its flush was not due; and who restarts it hears of the copy that does not serve. */
    @Test
    void whatEndsTheJobIsFlushed() throws Exception {
        local = Files.createTempDirectory("shadowverbs-levels-");
        try (Job job = Distribution.start()) {
            job.startCoordinator("--local", local.toString(), "--flush-every", "5");
            final Selfcheck selfcheck = new Selfcheck(job);
            selfcheck.launch("levels", 2);
            selfcheck.awaitConnected();
            final Path first = Path.of(job.checkpoint().get("folder").asText());
            final Path last = Path.of(job.checkpoint("--kill").get("folder").asText());
            assertTrue(images(first).isEmpty(), "it was not due");
            final Path damaged = damage(local.resolve(job.status().get("job").asText()).resolve(last.getFileName()), "host-");
            final Running restarted = job.restartAndAwait(last.toString(), 2);
            assertTrue(restarted.errors().contains(" does not serve: image " + damaged + " is damaged"), restarted.errors());
            selfcheck.work(restarted);
            selfcheck.stop(restarted);
            selfcheck.verify();

            Job.remove(local);
            job.startCoordinator();
            final Running refused = job.restart(first.toString());
            assertEquals(1, refused.awaitEnd(ENDING), refused.errors());
            assertTrue(refused.errors().contains(first.getFileName() + " are at no level that serves: local on "), refused.errors());
        } finally {
            if (Files.exists(local)) {
                Job.remove(local);
            }
        }
    }

    // ---- the job ----

    private void launch() throws Exception {
        stop = hosts.work().resolve("stop");
        programs.addAll(hosts.launchSelfcheck(RANKS, stop));
    }

    private void spare() throws Exception {
        hosts.command(2, "agent", "--daemon", "--spare").succeed(ENDING);
    }

    /** Cuts the host off, and waits until the coordinator knows. */
    private void loses(final int host) throws Exception {
        hosts.cut(host, true);
        await("the loss of " + TwoHosts.name(host), () -> {
            for (final JsonNode agent : hosts.status().get("agents")) {
                if (agent.get("host").asText().equals(TwoHosts.name(host))) {
                    return false;
                }
            }
            return true;
        });
    }

    private void awaitRecoveries(final int times) throws Exception {
        await("recovery " + times, () -> Files.readAllLines(hosts.coordinatorLog()).stream()
                .filter(line -> line.contains(" recovered in ")).count() >= times && hosts.runningRanks() == RANKS);
    }

    /** All ranks go on. */
    private void work() throws Exception {
        for (final Map.Entry<String, BooleanSupplier> rank : Selfcheck.works(hosts.status().get("ranks")).entrySet()) {
            await("traffic of rank " + rank.getKey(), rank.getValue()::getAsBoolean);
        }
    }

    private void finish() throws Exception {
        Files.createFile(stop);
        for (final Running program : programs) {
            if (program.awaitEnd(ENDING) != 0) {
                throw new AssertionError(program.name() + " failed; all said:\n" + Selfcheck.said(programs));
            }
        }
        Selfcheck.verify(programs.getFirst());
    }

    private void await(final String what, final Callable<Boolean> condition) throws Exception {
        final Looks looks = new Looks();
        final long end = System.nanoTime() + ENDING.toNanos();
        while (!condition.call()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("waited " + ENDING.toSeconds() + " s for " + what + "\n" + hosts.status() + "\n"
                        + Files.readString(hosts.coordinatorLog()));
            }
            looks.rest();
        }
    }

    /** A file system in memory with little space. */
    private record SmallDisk(Path folder) implements AutoCloseable {
        SmallDisk {
            run("mount", "-t", "tmpfs", "-o", "size=512k,mode=700", "none", folder.toString());
        }

        long bytes() throws IOException {
            return Files.getFileStore(folder).getUsableSpace();
        }

        private static void run(final String... command) {
            try {
                assertEquals(0, new ProcessBuilder(command).inheritIO().start().waitFor());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }

        @Override
        public void close() {
            run("umount", folder.toString());
        }
    }

    // ---- checkpoints ----

    /** Takes one, which says where it is. */
    private Path checkpoint(final String where) throws Exception {
        final Running checkpoint = hosts.command(0, "checkpoint");
        checkpoint.succeed(ENDING);
        assertTrue((checkpoint.output() + checkpoint.errors()).contains(where), checkpoint.output() + checkpoint.errors());
        return Path.of(checkpoint.output().strip().lines().reduce((a, b) -> b).orElseThrow());
    }

    private void awaitCopies() throws Exception {
        await("all copies", () -> hosts.status().get("copies").isEmpty());
    }

    private Running list() throws Exception {
        final Running list = hosts.command(0, "list");
        list.succeed(ENDING);
        return list;
    }

    /** What list says of a checkpoint, as seen from the first host: the hosts of each level. */
    private Map<String, String> levels(final Path checkpoint) throws Exception {
        final Running list = hosts.command(0, "list", "--json");
        list.succeed(ENDING);
        final Map<String, Set<String>> levels = new TreeMap<>();
        for (final JsonNode one : new ObjectMapper().readTree(list.output()).get("checkpoints")) {
            if (one.get("folder").asText().equals(checkpoint.toString())) {
                assertEquals("good", one.get("state").asText(), one.toString());
                for (final JsonNode copy : one.get("levels")) {
                    final String at = copy.get("at").asText("");
                    assertEquals(at.equals("null") || at.isEmpty() || at.equals("node0") ? "good" : "elsewhere", copy.get("state").asText(),
                            one.toString());
                    levels.computeIfAbsent(copy.get("level").asText(), level -> new TreeSet<>()).add(copy.get("host").asText()
                            + (copy.get("level").asText().equals("partner") ? " at " + at : ""));
                }
            }
        }
        return levels.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, e -> String.join(", ", e.getValue())));
    }

    /** The images in a checkpoint's own folder. */
    private static List<Path> images(final Path checkpoint) throws IOException {
        try (Stream<Path> all = Files.walk(checkpoint)) {
            return all.filter(path -> path.toString().contains("/host-")).filter(Files::isRegularFile).toList();
        }
    }

    private String jobName() throws Exception {
        return hosts.status().get("job").asText();
    }

    /** All files of a host's images, as a host has them. */
    private Map<String, String> content(final String on, final Path checkpoint, final String whose) throws Exception {
        final Path folder = local.resolve(on).resolve(jobName()).resolve(checkpoint.getFileName());
        final Map<String, String> content = new TreeMap<>();
        for (final Path file : images(folder).stream().filter(path -> path.toString().contains(whose)).toList()) {
            if (!file.toString().contains("/parent-of-") && !file.getFileName().toString().equals("parent")) {
                content.put(folder.relativize(file).toString(), HexFormat.of().formatHex(
                        MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file))));
            }
        }
        assertFalse(content.isEmpty());
        return content;
    }

    /** Changes a byte in the middle of the largest file of a host's images. */
    private static Path damage(final Path checkpoint, final String whose) throws IOException {
        final Path file = images(checkpoint).stream().filter(path -> path.toString().contains(whose))
                .max((a, b) -> Long.compare(a.toFile().length(), b.toFile().length())).orElseThrow();
        final byte[] bytes = Files.readAllBytes(file);
        bytes[bytes.length / 2] ^= 1;
        Files.write(file, bytes);
        return file;
    }

    /** Whether a host's agent has written it to its log. */
    private boolean said(final int host, final String line) {
        try (Stream<Path> logs = Files.walk(hosts.work().resolve("run-" + host))) {
            for (final Path log : logs.filter(path -> path.getFileName().toString().equals("agent.log")).toList()) {
                if (Files.readString(log).contains(line)) {
                    return true;
                }
            }
            return false;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
