// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.io.StringReader;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.Properties;
import java.util.Set;

/**
 * What a coordinator that is started anew after a crash finds of the one before it: the job's name, the epoch, the
 * checkpoints that it comes from, its history, the agents that will come again, and where else it listened for them. A
 * coordinator that ends in order removes it.
 */
record JobState(String job, long epoch, long lastCheckpoint, long restartedFrom, long ranMillis, int failures, Set<String> agents,
        Set<String> addresses) {
    private static final String NAME = "job.properties";
    private static final String TEMPORARY = ".tmp";

    static JobState read(final Path runDirectory) throws IOException {
        final Properties p = new Properties();
        try {
            p.load(new StringReader(Files.readString(runDirectory.resolve(NAME))));
            return new JobState(p.getProperty("job", ""), number(p, "epoch"), number(p, "last-checkpoint"),
                    number(p, "restarted-from"), number(p, "ran-ms"), (int) number(p, "failures"), words(p, "agents"),
                    words(p, "addresses"));
        } catch (NoSuchFileException e) {
            return null;
        } catch (IllegalArgumentException e) {
            throw new IOException(runDirectory.resolve(NAME) + " is damaged; remove it to begin a new job", e);
        }
    }

    private static Set<String> words(final Properties p, final String key) {
        final Set<String> words = new LinkedHashSet<>(Arrays.asList(p.getProperty(key, "").split(" ")));
        words.remove("");
        return words;
    }

    private static long number(final Properties p, final String key) {
        return Long.parseLong(p.getProperty(key, "0"));
    }

    void write(final Path runDirectory) throws IOException {
        // A name of its own: a coordinator that is just ending may write its last one when the next is there already.
        final Path temporary = Files.createTempFile(runDirectory, NAME + "-", TEMPORARY);
        try {
            Files.writeString(temporary,
                    "job=" + job + "\nepoch=" + epoch + "\nlast-checkpoint=" + lastCheckpoint
                            + "\nrestarted-from=" + restartedFrom + "\nran-ms=" + ranMillis + "\nfailures=" + failures
                            + "\nagents=" + String.join(" ", agents) + "\naddresses=" + String.join(" ", addresses) + "\n");
            Files.move(temporary, runDirectory.resolve(NAME), StandardCopyOption.ATOMIC_MOVE,
                    StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(temporary);
        }
    }

    static void remove(final Path runDirectory) throws IOException {
        Files.deleteIfExists(runDirectory.resolve(NAME));
        try (DirectoryStream<Path> left = Files.newDirectoryStream(runDirectory, NAME + "-*" + TEMPORARY)) {
            for (final Path file : left) {
                Files.deleteIfExists(file); // of a coordinator that was killed
            }
        }
    }
}
