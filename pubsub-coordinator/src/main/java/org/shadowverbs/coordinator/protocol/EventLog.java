// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.FileNotFoundException;
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

    /**
     * So long a file stays open for the events that follow; then it is looked for again, which another process may have
     * moved.
     */
    private static final long OPEN_NANOS = 1_000_000_000L;

    private final Path file;
    private FileOutputStream out;
    private long opened;
    private long size;

    public EventLog(final Path file) {
        this.file = file;
    }

    /** Never fails: a log that can't be written must not stop what it is about. */
    public synchronized void add(final String event) {
        try {
            if (out == null || size > LIMIT || System.nanoTime() - opened > OPEN_NANOS) {
                open();
            }
            final byte[] line = (Instant.now() + " " + event.replace('\n', ' ') + "\n")
                    .getBytes(StandardCharsets.UTF_8);
            out.write(line);
            size += line.length;
        } catch (NoSuchFileException | FileNotFoundException e) {
            return; // the run directory has been removed: nobody will look for its log
        } catch (IOException e) {
            System.err.println("shadowverbs: " + file + ": " + e.getMessage() + " (event: " + event + ")");
        }
    }

    private void open() throws IOException {
        if (out != null) {
            out.close();
            out = null;
        }
        if (Files.exists(file) && Files.size(file) > LIMIT) {
            Files.move(file, file.resolveSibling(file.getFileName() + ".1"), StandardCopyOption.REPLACE_EXISTING);
        }
        if (!Files.exists(file)) {
            Files.createFile(file, PrivateFiles.FILE);
        }
        size = Files.size(file);
        opened = System.nanoTime();
        // No channel: a thread that is interrupted could not write to it, and its last event is why.
        out = new FileOutputStream(file.toFile(), true);
    }
}
