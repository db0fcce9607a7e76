// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Of a process whose command has what stands around it in the line. */
final class ProcessesTest {
    private static final String COMMAND = "a) R 1 (b";

    @Test
    void fieldsAreThoseAfterTheCommand(@TempDir final Path folder) throws Exception {
        final Path program = Files.copy(Path.of("/bin/sleep"), folder.resolve(COMMAND));
        final Process process = new ProcessBuilder(program.toString(), "1000").start();
        try {
            final long pid = process.pid();
            final long own = ProcessHandle.current().pid();
            while (!Files.readString(Path.of("/proc", Long.toString(pid), "comm")).strip().equals(COMMAND)) {
                Thread.onSpinWait(); // it is this JVM's helper until then
            }
            assertEquals(Long.toString(own), Processes.stat(pid, Processes.PARENT));
            assertEquals(Processes.stat(own, Processes.SESSION), Processes.stat(pid, Processes.SESSION));
            assertEquals("0", Processes.stat(pid, Processes.EXIT_CODE));
            assertTrue(List.of("R", "S", "D").contains(Processes.stat(pid, Processes.STATE)));
            assertTrue(Long.parseLong(Processes.stat(pid, Processes.START_TIME)) >= Long.parseLong(Processes.stat(own, Processes.START_TIME)));
            assertTrue(Processes.all().containsAll(List.of(own, pid)));
            assertTrue(Processes.children().get(own).contains(pid));
        } finally {
            process.destroyForcibly().waitFor();
        }
        assertThrows(IOException.class, () -> Processes.stat(process.pid(), Processes.STATE));
    }
}
