// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class FormerAgentTest {
    private static final Duration LONG = Duration.ofMinutes(1);
    private static final String NOBODY = "{\"ranks\": [], \"agents\": [{\"host\": \"elsewhere\", \"pid\": 1, \"programs\": []}]}";

    @TempDir
    private Path folder;
    private Path socket;
    private ServerSocketChannel listener;
    private int asked;

    @BeforeEach
    void listen() throws IOException {
        socket = folder.resolve("agent.sock");
        listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        listener.bind(UnixDomainSocketAddress.of(socket));
    }

    @AfterEach
    void close() throws IOException {
        listener.close();
    }

    @Test
    void whereNobodyListensNothingIsAsked() throws Exception {
        listener.close();
        assertEquals("", agent(() -> json(NOBODY)).end(LONG));
        assertEquals(0, asked);
    }

    /** The coordinator knows it no longer, and what it keeps in the run directory is not removed yet. */
    @Test
    void oneThatIsAboutToEndIsWaitedFor() throws Exception {
        assertEquals("", agent(() -> {
            if (asked == 3) {
                listener.close();
            }
            return json(NOBODY);
        }).end(LONG));
        assertEquals(3, asked);
    }

    @Test
    void anIdleOneIsEndedAndItsSocketWaitedFor() throws Exception {
        // What is looked at are the words of its command.
        final Process process = new ProcessBuilder("sh", "-c", "read _", Main.class.getName(), "agent").start();
        try {
            assertEquals("", agent(() -> {
                if (asked == 2) {
                    assertTrue(process.waitFor(LONG.toSeconds(), TimeUnit.SECONDS));
                }
                if (asked == 4) {
                    listener.close();
                }
                return json(asked == 1 ? here(process.pid(), "", "") : NOBODY);
            }).end(LONG));
            assertEquals(4, asked);
        } finally {
            process.destroyForcibly();
        }
    }

    @Test
    void oneWithProcessesStays() throws Exception {
        assertEquals("which has processes", agent(() -> json(here(1, "{}", ""))).end(LONG));
        assertEquals("which has processes", agent(() -> json(here(1, "", "{}"))).end(LONG));
    }

    @Test
    void anotherProcessWithItsNumberIsLeftAlone() throws Exception {
        final Process process = new ProcessBuilder("sh", "-c", "read _").start();
        try {
            assertEquals("whose process " + process.pid() + " can't be ended from here",
                    agent(() -> json(here(process.pid(), "", ""))).end(LONG));
            assertFalse(process.waitFor(0, TimeUnit.SECONDS));
        } finally {
            process.destroyForcibly();
        }
    }

    @Test
    void theWaitEnds() throws Exception {
        assertEquals("which has not ended within 0 s", agent(() -> json(NOBODY)).end(Duration.ofMillis(1)));
        assertTrue(Files.exists(socket));
    }

    /** Asks a coordinator. */
    @FunctionalInterface
    private interface Ask {
        JsonNode once() throws IOException, InterruptedException;
    }

    private FormerAgent agent(final Ask ask) {
        return new FormerAgent(socket, "here", () -> {
            asked++;
            try {
                return ask.once();
            } catch (InterruptedException e) {
                throw new IOException(e);
            }
        });
    }

    private static JsonNode json(final String text) throws IOException {
        return new ObjectMapper().readTree(text);
    }

    private static String here(final long pid, final String rank, final String program) {
        return "{\"ranks\": [" + rank + "], \"agents\": [{\"host\": \"here\", \"pid\": " + pid + ", \"programs\": [" + program + "]}]}";
    }
}
