// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.shadowverbs.coordinator.protocol.FrameChannel;
import org.shadowverbs.coordinator.protocol.FrameType;
import org.shadowverbs.coordinator.protocol.HostMessages.AgentHello;
import org.shadowverbs.coordinator.protocol.HostMessages.Terminate;
import org.shadowverbs.coordinator.store.EmbeddedStore;

/** A host that goes silent, as one without power does: a network namespace that loses its address. Needs root. */
@Timeout(120)
class DeadHostTest {
    private final int number = (int) (ProcessHandle.current().pid() % 250) + 1;
    private final String near = "10.213." + number + ".1";
    private final String far = "10.213." + number + ".2";
    private final String device = "svdead" + number;
    private Path root;
    private Process namespace;
    private Process peer;
    private Coordinator coordinator;

    /** The programs on the other host: an agent that has joined, and a coordinator that says nothing. */
    static final class Peer {
        private Peer() {
        }

        public static void main(final String[] args) throws Exception {
            final List<Socket> accepted = new ArrayList<>();
            final FrameChannel agent =
                    FrameChannel.connect(new InetSocketAddress(args[0], Integer.parseInt(args[1])), 5_000);
            agent.write(new AgentHello(FrameType.VERSION, "", "far-1", "far", 1, "", 0, 0, false, List.of(), List.of(),
                    Map.of(), List.of(), List.of()));
            agent.read();
            try (ServerSocket listener = new ServerSocket()) {
                listener.bind(new InetSocketAddress(args[2], 0));
                System.out.println(listener.getLocalPort());
                for (;;) {
                    accepted.add(listener.accept());
                }
            }
        }
    }

    @BeforeEach
    void start() throws Exception {
        root = Files.createTempDirectory("sv-test");
        namespace = new ProcessBuilder("unshare", "--net", "sleep", "1000").start();
        final String pid = Long.toString(namespace.pid());
        final Path own = Files.readSymbolicLink(Path.of("/proc/self/ns/net"));
        while (Files.readSymbolicLink(Path.of("/proc", pid, "ns/net")).equals(own)) {
            assertTrue(namespace.isAlive(), "unshare --net has ended");
            Thread.onSpinWait();
        }
        run("ip", "link", "add", device, "type", "veth", "peer", "name", "far", "netns", pid);
        run("ip", "address", "add", near + "/24", "dev", device);
        run("ip", "link", "set", device, "up");
        inside("ip", "address", "add", far + "/24", "dev", "far");
        inside("ip", "link", "set", "far", "up");
        coordinator = new Coordinator(new CoordinatorOptions("0.0.0.0", 0, null, root, root.resolve("checkpoints"),
                Interval.NONE, RecoveryOptions.NONE, 2, ImageChoice.USUAL, false, "", 20, false),
                (run, job) -> new EmbeddedStore(run, new TestStore(), false));
    }

    @AfterEach
    void stop() throws Exception {
        coordinator.close();
        if (peer != null) {
            peer.destroyForcibly().waitFor();
        }
        namespace.destroyForcibly().waitFor(); // the devices end with it
        try (Stream<Path> all = Files.walk(root)) {
            for (final Path p : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(p);
            }
        }
    }

    private static void run(final String... command) throws Exception {
        final Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        final String said = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), String.join(" ", command) + ": " + said);
    }

    private List<String> entered(final String... command) {
        final List<String> all = new ArrayList<>(List.of("nsenter", "--net", "--target", Long.toString(namespace.pid())));
        all.addAll(List.of(command));
        return all;
    }

    private void inside(final String... command) throws Exception {
        run(entered(command).toArray(String[]::new));
    }

    @Test
    void aHostThatGoesSilentIsLost() throws Exception {
        peer = new ProcessBuilder(entered(Path.of(System.getProperty("java.home"), "bin/java").toString(),
                "-cp", System.getProperty("java.class.path") + ":" + System.getProperty("jdk.module.path", ""),
                "--enable-native-access=ALL-UNNAMED",
                Peer.class.getName(), near, Integer.toString(coordinator.port()), far))
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        final BufferedReader said = peer.inputReader();
        final InetSocketAddress there = new InetSocketAddress(far, Integer.parseInt(said.readLine()));
        final Job job = coordinator.job();
        try (FrameChannel idle = FrameChannel.connect(there, 5_000); FrameChannel busy = FrameChannel.connect(there, 5_000)) {
            assertEquals(1, (int) job.locked(() -> job.agents().size()));
            inside("ip", "address", "flush", "dev", "far");
            final long silent = System.nanoTime();
            busy.write(new Terminate(15)); // keep-alive does not look at a connection with something under way
            job.epoch().await(() -> job.agents().isEmpty(), Duration.ofSeconds(60), () -> "the agent is still there");
            for (final FrameChannel channel : List.of(idle, busy)) {
                final IOException e = assertThrows(IOException.class, channel::read);
                assertFalse(e instanceof ClosedChannelException);
            }
            System.out.println("noticed after " + TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - silent) + " ms");
        }
        final String log = Files.readString(coordinator.runDirectory().resolve("coordinator.log"));
        assertTrue(log.contains("agent on host far lost: "), log);
    }
}
