// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Instant;

/** One line per event in a file of bounded size: at {@link #LIMIT} it becomes FILE.1 and a new one begins. */
public final class EventLog {
    private static final long LIMIT = 1 << 20;

    private final Path file;

    public EventLog(final Path file) {
        this.file = file;
    }

    /** Never fails: a log that can't be written must not stop what it is about. */
    public synchronized void add(final String event) {
        try {
            if (Files.exists(file) && Files.size(file) > LIMIT) {
                Files.move(file, file.resolveSibling(file.getFileName() + ".1"), StandardCopyOption.REPLACE_EXISTING);
            }
            if (!Files.exists(file)) {
                Files.createFile(file, PrivateFiles.FILE);
            }
            final String line = Instant.now() + " " + event.replace('\n', ' ') + "\n";
            // No channel: a thread that is interrupted could not write to it, and its last event is why.
            try (FileOutputStream out = new FileOutputStream(file.toFile(), true)) {
                out.write(line.getBytes(StandardCharsets.UTF_8));
            }
        } catch (NoSuchFileException e) {
            return; // the run directory has been removed: nobody will look for its log
        } catch (IOException e) {
            System.err.println("shadowverbs: " + file + ": " + e.getMessage() + " (event: " + event + ")");
        }
    }
}
