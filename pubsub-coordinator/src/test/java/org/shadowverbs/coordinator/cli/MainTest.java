// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.shadowverbs.coordinator.client.Needs;
import org.shadowverbs.coordinator.manifest.CheckpointFolder;
import org.shadowverbs.coordinator.manifest.Manifest;
import org.shadowverbs.coordinator.server.Coordinator;
import org.shadowverbs.coordinator.server.CoordinatorOptions;
import org.shadowverbs.coordinator.server.ImageChoice;
import org.shadowverbs.coordinator.server.Interval;
import org.shadowverbs.coordinator.server.RecoveryOptions;
import org.shadowverbs.coordinator.store.RedisStore;
import org.shadowverbs.coordinator.store.TestRedis;

/** Bad input of every command: one clear line on standard error and the right exit status. */
class MainTest {
    @TempDir
    private Path directory;

    private record Ran(int status, String out, String err) {
    }

    private Ran run(final Map<String, String> environment, final String... args) {
        final PrintStream out = System.out;
        final PrintStream err = System.err;
        final ByteArrayOutputStream o = new ByteArrayOutputStream();
        final ByteArrayOutputStream e = new ByteArrayOutputStream();
        System.setOut(new PrintStream(o, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(e, true, StandardCharsets.UTF_8));
        try {
            final int status = Main.run(List.of(args), environment);
            return new Ran(status, o.toString(StandardCharsets.UTF_8), e.toString(StandardCharsets.UTF_8));
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
    }

    private Map<String, String> environment() {
        return Map.of("SHADOWVERBS_RUN_DIR", directory.resolve("run").toString(), "PATH", "/usr/bin:/bin");
    }

    private static int unusedPort() throws IOException {
        try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return s.getLocalPort();
        }
    }

    @ParameterizedTest
    @CsvSource({
        "OMPI_COMM_WORLD_RANK, 'put launch before it: shadowverbs launch mpirun ... PROGRAM'",
        "SLURM_PROCID, 'use srun --mpi=pmi2 shadowverbs launch PROGRAM'",
    })
    void aPmixServerOutsideOfTheJobIsRefusedWithTheCommandThatWorks(final String variable, final String words) {
        final Ran ran = run(Map.of("PMIX_SERVER_URI41", "1.0;tcp4://127.0.0.1:1", variable, "0", "PATH", "/usr/bin:/bin"),
                "launch", "true");
        assertEquals(1, ran.status());
        assertTrue(ran.err().contains("the PMIx server of this process is outside of the job") && ran.err().contains(words), ran.err());
    }

    @ParameterizedTest
    @CsvSource({
        "'', no command is given",
        "fly, no such command: fly",
        "help fly, no such command: fly",
        "launch, no PROGRAM is named",
        "launch --fast true, unknown option --fast",
        "launch -i, -i needs a value",
        "launch -i soon true, '-i takes a number, not \"soon\"'",
        "launch -i auto --mtbf 0 true, '--mtbf takes a number from 0.0002778 to 1000000, not 0'",
        "launch -i auto --mtbf NaN true, '--mtbf takes a number from'",
        "launch -i auto --mtbf often true, '--mtbf takes a number, not \"often\"'",
        "launch --mtbf 3 true, 'launch: --mtbf is for -i auto'",
        "coordinator -i 60 --mtbf 3, 'coordinator: --mtbf is for -i auto'",
        "launch -i 0 true, '-i takes a number from 1'",
        "launch -p 99999 true, '-p takes a number from 1 to 65535, not 99999'",
        "launch --backend mlx5 true, '--backend takes hca or ib2tcp, not mlx5'",
        "launch --backend ib2tcp+infiniband true, '--backend takes hca or ib2tcp, not ib2tcp+infiniband'",
        "launch --backend hca --link infiniband true, launch: --link is for --backend ib2tcp",
        "launch --backend ib2tcp --link ib true, '--link takes infiniband or ethernet, not ib'",
        "restart --link ethernet a, restart: --link is for --backend ib2tcp",
        "launch --test-fabric=yes true, --test-fabric takes no value",
        "checkpoint now, unexpected argument now",
        "checkpoint --keep, unknown option --keep",
        "checkpoint --check --kill, checkpoint: --check excludes all other options but --json",
        "checkpoint -p, -p needs a value",
        "restart, no CKPTDIR is named",
        "restart a b, unexpected argument b",
        "restart --json a, unknown option --json",
        "job, no COMMAND is named",
        "job --fast true, unknown option --fast",
        "job srun -N 2 ./ring, shadowverbs job -- srun --mpi=pmi2 shadowverbs launch ./program",
        "status all, unexpected argument all",
        "status --kill, unknown option --kill",
        "list a b, unexpected argument b",
        "list --all, unknown option --all",
        "kill 1, unexpected argument 1",
        "kill --hard, unknown option --hard",
        "quit now, unexpected argument now",
        "coordinator here, unexpected argument here",
        "coordinator --port x, '--port takes a number, not \"x\"'",
        "coordinator --keep 0, --keep takes a number from 1",
        "coordinator --interval 0, --interval takes a number from 1",
        "agent --port 0, --port takes a number from 1",
        "agent --kill, unknown option --kill",
        "help launch now, unexpected argument now",
        "--fast, unknown option --fast",
        "demo --fast, unknown option --fast",
        "bench now, unexpected argument now",
        "doctor --fix, unknown option --fix",
        "doctor me, unexpected argument me",
    })
    void wrongUsage(final String command, final String says) {
        final Ran ran = run(environment(), command.isEmpty() ? new String[0] : command.split(" "));
        assertEquals(2, ran.status(), ran.toString());
        oneLine(ran, says);
    }

    private static void oneLine(final Ran ran, final String says) {
        assertEquals("", ran.out());
        assertEquals(1, ran.err().lines().count(), ran.err());
        assertTrue(ran.err().startsWith("shadowverbs: ") && ran.err().contains(says), ran.err());
    }

    @ParameterizedTest
    @ValueSource(strings = {"checkpoint", "status", "kill", "quit", "list"})
    void noCoordinator(final String command) throws IOException {
        final int port = unusedPort();
        final Ran ran = run(environment(), command, "-p", Integer.toString(port));
        assertEquals(1, ran.status());
        oneLine(ran, "no coordinator answers at localhost:" + port);
    }

    /** An address of this host at which a coordinator does not listen unless it is told. */
    @ParameterizedTest
    @ValueSource(strings = {"status", "launch true", "restart --hosts 2 "})
    void noCoordinatorThatOtherHostsReach(final String command) throws Exception {
        final int port = unusedPort();
        final List<String> args = new ArrayList<>(List.of(command.split(" ")));
        args.addAll(1, List.of("-h", "127.0.0.2", "--port", Integer.toString(port)));
        if (command.startsWith("restart")) {
            args.add(CheckpointFolder.begin(directory, "job", 1).commit(new Manifest(Manifest.SCHEMA, "job", 1, 0L, null, "", false,
                    0, Map.of(), 1, 0, List.of(), List.of(), null, ""), () -> { }).toString());
        }
        final Ran ran = run(environment(), args.toArray(new String[0]));
        assertEquals(1, ran.status());
        oneLine(ran, "no coordinator answers at 127.0.0.2:" + port + "; one that was started without --address 0.0.0.0 can be"
                + " reached on its own host alone");
        if (!command.equals("status")) {
            oneLine(ran, "start it there with: shadowverbs coordinator --daemon --address 0.0.0.0 --port " + port);
        }
    }

    @Test
    void launchWithANamedCoordinatorThatIsNotThere() throws IOException {
        final int port = unusedPort();
        final Ran ran = run(environment(), "launch", "-p", Integer.toString(port), "true");
        assertEquals(1, ran.status());
        oneLine(ran, "no coordinator answers at localhost:" + port + "; start it there with: shadowverbs coordinator"
                + " --daemon --port " + port);
    }

    @ParameterizedTest
    @CsvSource({"no-such-program, 127, no such program in PATH", "/no/such, 127, no such program",
        "/etc/passwd, 126, not executable", "/tmp, 126, not executable"})
    void programsThatCannotBeRun(final String program, final int status, final String says) {
        final Ran ran = run(environment(), "launch", program);
        assertEquals(status, ran.status());
        oneLine(ran, says);
    }

    @Test
    void flagsMayFollowOperandsButNotAProgram() {
        assertEquals(0, run(environment(), "list", directory.toString(), "--json").status());
        oneLine(run(environment(), "launch", "no-such-program", "--bad-flag"), "no such program in PATH");
    }

    @Test
    void aStaticProgramIsRefused() throws Exception {
        final Path source = Files.writeString(directory.resolve("p.c"), "int main(void) { return 0; }\n");
        final Path program = directory.resolve("static-program");
        final int status = new ProcessBuilder("gcc", "-static", "-o", program.toString(), source.toString())
                .inheritIO().start().waitFor();
        assertEquals(0, status, "gcc -static");
        oneLine(run(environment(), "launch", program.toString()), "is linked statically");
    }

    @Test
    void restartOfWhatIsNoCheckpoint() throws IOException {
        Ran ran = run(environment(), "restart", directory.resolve("none").toString());
        assertEquals(1, ran.status());
        oneLine(ran, directory.resolve("none") + " does not exist");
        ran = run(environment(), "restart", directory.toString());
        assertEquals(1, ran.status());
        oneLine(ran, "is no checkpoint: it has no manifest.json");
        Files.writeString(directory.resolve("manifest.json"), "{\"schema\": 1, \"checksum\": \"" + "0".repeat(64)
                + "\"}");
        ran = run(environment(), "restart", directory.toString());
        assertEquals(1, ran.status());
        oneLine(ran, "manifest.json is damaged");
    }

    @Test
    void whatTheDeviceDoesNotHaveIsSaidBeforeAnythingIsRestored() throws Exception {
        final Path folder = CheckpointFolder.begin(directory, "job", 1).commit(new Manifest(Manifest.SCHEMA, "job", 1, 0L, null, "", false,
                0, Map.of(), 1, 0, List.of(), List.of(new Needs(3, "mlx5_0", true,
                        Map.of("max_sge", 30L, "phys_port_cnt", 2L), Map.of())), null, ""), () -> { });
        final Ran ran = run(environment(), "restart", "--backend", "ib2tcp", folder.toString());
        assertEquals(1, ran.status());
        oneLine(ran, "restart: rank 3: phys_port_cnt 2 was used on device mlx5_0, and ib2tcp has 1");
    }

    @Test
    void somethingElseListensThere() throws Exception {
        try (ServerSocket other = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            final Thread greeter = Thread.ofVirtual().start(() -> {
                try (var s = other.accept()) {
                    s.getOutputStream().write("220 mail.example.org ESMTP\r\n".getBytes(StandardCharsets.US_ASCII));
                    s.shutdownOutput();
                    s.getInputStream().readAllBytes();
                } catch (IOException e) {
                    return; // the command has gone
                }
            });
            final Ran ran = run(environment(), "status", "-p", Integer.toString(other.getLocalPort()));
            assertEquals(1, ran.status());
            oneLine(ran, "is it a coordinator that listens there?");
            greeter.join(10_000);
        }
    }

    @Test
    void helpOfEveryCommand() {
        final Ran overview = run(environment(), "help");
        assertEquals(overview.out(), run(environment(), "--help").out());
        assertEquals(overview.out(), run(environment(), "-h").out());
        assertTrue(run(environment(), "--version").out().startsWith("shadowverbs "));
        assertEquals(0, overview.status());
        for (final String command : List.of("launch", "checkpoint", "restart", "job", "status", "list", "kill", "quit",
                "coordinator", "agent", "doctor", "demo", "bench", "help")) {
            assertTrue(overview.out().contains("  " + command), command);
            final Ran ran = run(environment(), "help", command);
            assertEquals(0, ran.status());
            assertTrue(ran.out().startsWith("usage: shadowverbs " + command), ran.out());
            assertEquals(ran.out(), run(environment(), command, "--help").out());
        }
    }

    @ParameterizedTest
    @CsvSource({
        "http://host, 'a store is redis://[USER@]HOST[:PORT][/DATABASE], or rediss:// for TLS, not http://host'",
        "redis://me:secret@, 'or rediss:// for TLS, not redis://...@'",
        "redis://host/x, 'a database is a number, not x'",
    })
    void aStoreThatIsNoneIsWrongUsageWithoutItsPassword(final String uri, final String words) {
        final Ran ran = run(environment(), "coordinator", "--store", uri);
        assertEquals(2, ran.status());
        oneLine(ran, words);
        assertFalse(ran.err().contains("secret"), ran.err());
    }

    @Test
    void whatNeedsAStoreSaysSo() {
        oneLine(run(environment(), "coordinator", "--takeover", "x"), "coordinator: --takeover needs --store URI");
        oneLine(run(environment(), "coordinator", "--store-ca", "x"), "coordinator: --store-ca is for --store URI");
        oneLine(run(environment(), "coordinator", "--store", "redis://host", "--recover"), "with --store a job goes on by --takeover");
        oneLine(run(environment(), "coordinator", "--store", "redis://host", "--store-ca", "x"), "certificates are for a store with TLS");
    }

    @Test
    void aStoreThatCannotBeUsedIsSaidAtTheStart() throws Exception {
        final String port = Integer.toString(unusedPort());
        final Ran nobody = run(environment(), "coordinator", "-p", "0", "--store", "redis://localhost:" + port);
        assertEquals(1, nobody.status());
        oneLine(nobody, "coordinator: the store at redis://localhost:" + port + " does not answer: Connection refused");
        try (TestRedis redis = new TestRedis("--requirepass", "right")) {
            final Map<String, String> environment = new HashMap<>(environment());
            environment.putAll(redis.place("guessed").environment());
            final Ran wrong = run(environment, "coordinator", "-p", "0");
            assertEquals(1, wrong.status());
            oneLine(wrong, "WRONGPASS");
            assertFalse(wrong.err().contains("guessed"), wrong.err());
            environment.putAll(redis.place("right").environment());
            final Ran unknown = run(environment, "coordinator", "-p", "0", "--takeover", "nosuch");
            assertEquals(1, unknown.status());
            oneLine(unknown, "knows no job nosuch");
        }
    }

    /** Who looks for a coordinator that is not there any more is told where it is. */
    @Test
    void statusFindsTheCoordinatorByTheStore() throws Exception {
        try (TestRedis redis = new TestRedis()) {
            final Map<String, String> environment = new HashMap<>(environment());
            environment.putAll(redis.environment());
            final String nowhere = Integer.toString(unusedPort());
            final CoordinatorOptions options = new CoordinatorOptions("localhost", 0, null, directory.resolve("run"), directory,
                    Interval.NONE,
                    RecoveryOptions.NONE, 2, ImageChoice.USUAL, false, "", 20, false);
            try (Coordinator coordinator = new Coordinator(options, (run, job) -> RedisStore.open(redis.place(), job, false))) {
                Ran found = run(environment, "status", "-p", nowhere);
                for (int i = 0; found.status() != 0 && i < 200; i++) {
                    Thread.sleep(50); // until it has said where it is
                    found = run(environment, "status", "-p", nowhere);
                }
                assertEquals(0, found.status(), found.err());
                assertTrue(found.err().contains("the coordinator is at localhost:" + coordinator.port() + " now"), found.err());
                assertTrue(found.out().contains("coordinator number 1"), found.out());
            }
            final Ran lost = run(environment, "status", "-p", nowhere);
            assertEquals(1, lost.status());
            assertTrue(lost.err().contains("had its coordinator, which is lost, at localhost"), lost.err());
        }
    }
}
