// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Runs the store in JVMs of its own: it needs options that this one does not have, and one is killed. */
@Timeout(180)
class ChronicleStoreTest {
    @TempDir
    private Path directory;

    /** The other side: {@code write}: puts without end, a line for each; {@code read N}: verifies N entries. */
    public static final class Worker {
        private Worker() {
        }

        public static void main(final String[] args) throws Exception {
            try (ChronicleStore store = ChronicleStore.open(Path.of(args[0]))) {
                if (args[1].equals("write")) {
                    for (int i = 0;; i++) {
                        store.put("key-" + i % 500, value(i));
                        System.out.println(i);
                    }
                }
                final int last = Integer.parseInt(args[2]);
                for (int i = Math.max(0, last - 499); i <= last; i++) {
                    final byte[] got = store.get("key-" + i % 500);
                    // The put after the last one that was told of may have taken effect, or not, or lost its entry.
                    final boolean interrupted = i % 500 == (last + 1) % 500;
                    if (!Arrays.equals(got, value(i))
                            && !(interrupted && (got == null || Arrays.equals(got, value(i + 500))))) {
                        throw new AssertionError("entry " + i + " of " + last + ": "
                                + (got == null ? "null" : got.length + " bytes"));
                    }
                }
                // Not the one that may have lost its entry.
                final String one = "key-" + last % 500;
                final String other = "key-" + (last + 499) % 500;
                store.remove(one);
                if (store.get(one) != null || store.get(other) == null) {
                    throw new AssertionError("remove of entry " + last);
                }
                store.put("after", value(1));
                store.removeAll("key-");
                if (store.get(other) != null || store.get("after") == null) {
                    throw new AssertionError("removeAll");
                }
                System.out.println("good");
            }
        }

        /** From a few bytes to several parts. */
        private static byte[] value(final int i) {
            final byte[] b = new byte[i % 10 == 0 ? 3 * ChronicleStore.PART_BYTES + i % 7 : i % 900];
            Arrays.fill(b, (byte) i);
            return b;
        }
    }

    private Process worker(final String... args) throws Exception {
        final List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow(),
                "-Xmx64m", "--sun-misc-unsafe-memory-access=allow",
                "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
                "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
                "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED", "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                Worker.class.getName(), directory.resolve("store").toString()));
        command.addAll(List.of(args));
        return new ProcessBuilder(command).redirectError(directory.resolve("errors").toFile()).start();
    }

    @Test
    void whatWasPutIsThereAfterKill9() throws Exception {
        readAfter(writeAndKill());
    }

    /** What a process that is killed while it mends the file leaves: a copy, and a file that can't be used. */
    @Test
    void whatWasPutIsThereWhenTheMendingWasCutShort() throws Exception {
        final int last = writeAndKill();
        final Path store = directory.resolve("store");
        Files.copy(store, directory.resolve("store.copy"));
        spoil(store);
        readAfter(last);
        assertFalse(Files.exists(directory.resolve("store.copy")));
    }

    /** What a process that is killed while it makes the file leaves: a mark, and a file that can't be used. */
    @Test
    void isMadeAnewWhenTheMakingWasCutShort() throws Exception {
        writeAndKill();
        Files.createFile(directory.resolve("store.new"));
        spoil(directory.resolve("store"));
        assertFalse(ChronicleStore.holdsValues(directory.resolve("store")));
        writeAndKill();
        assertTrue(ChronicleStore.holdsValues(directory.resolve("store")));
        assertFalse(Files.exists(directory.resolve("store.new")));
    }

    private static void spoil(final Path store) throws Exception {
        try (var channel = java.nio.channels.FileChannel.open(store, java.nio.file.StandardOpenOption.WRITE)) {
            channel.write(java.nio.ByteBuffer.allocate(1 << 16), 0);
        }
    }

    private int writeAndKill() throws Exception {
        final Process writer = worker("write");
        int last = -1;
        try (BufferedReader out = new BufferedReader(
                new InputStreamReader(writer.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = out.readLine(); line != null; line = out.readLine()) {
                last = Integer.parseInt(line);
                if (last == 2000) {
                    writer.toHandle().destroyForcibly(); // keeps the pipe open, unlike the process's own
                }
            }
        }
        assertTrue(writer.waitFor(30, TimeUnit.SECONDS));
        assertTrue(last >= 2000,
                "the writer ended early: " + Files.readString(directory.resolve("errors")));
        return last;
    }

    private void readAfter(final int last) throws Exception {
        final Process reader = worker("read", Integer.toString(last));
        assertEquals("good\n", new String(reader.getInputStream().readAllBytes(), StandardCharsets.UTF_8),
                Files.readString(directory.resolve("errors")));
        assertEquals(0, reader.waitFor());
    }
}
