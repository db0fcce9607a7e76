// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EventLogTest {
    @TempDir
    private Path folder;

    @Test
    void whatAnInterruptedThreadSaysIsInTheLogToo() throws Exception {
        final EventLog log = new EventLog(folder.resolve("a.log"));
        log.add("first");
        Thread.currentThread().interrupt();
        log.add("interrupted");
        assertTrue(Thread.interrupted(), "the thread is to know of it still");
        final String said = Files.readString(folder.resolve("a.log"));
        assertTrue(said.matches("\\S+ first\n\\S+ interrupted\n"), said);
    }

    @Test
    void isForItsOwnerAlone() throws Exception {
        new EventLog(folder.resolve("a.log")).add("an event");
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(folder.resolve("a.log"))));
    }

    @Test
    void makesNoFolderAnew() {
        new EventLog(folder.resolve("gone/a.log")).add("an event");
        assertFalse(Files.exists(folder.resolve("gone")));
    }
}
