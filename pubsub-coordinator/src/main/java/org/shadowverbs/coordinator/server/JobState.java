// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashSet;
import java.util.Properties;
import java.util.Set;

/**
 * What a coordinator that is started anew after a crash finds of the one before it: the job's name, the epoch, the
 * agents that will come again. A coordinator that ends in order removes it.
 */
record JobState(String job, long epoch, Set<String> agents) {
    private static final String NAME = "job.properties";

    static JobState read(final Path runDirectory) throws IOException {
        final Properties p = new Properties();
        try {
            p.load(new StringReader(Files.readString(runDirectory.resolve(NAME))));
            final Set<String> agents = new LinkedHashSet<>();
            for (final String agent : p.getProperty("agents", "").split(" ")) {
                if (!agent.isEmpty()) {
                    agents.add(agent);
                }
            }
            return new JobState(p.getProperty("job", ""), Long.parseLong(p.getProperty("epoch", "0")), agents);
        } catch (NoSuchFileException e) {
            return null;
        } catch (IllegalArgumentException e) {
            throw new IOException(runDirectory.resolve(NAME) + " is damaged; remove it to begin a new job", e);
        }
    }

    void write(final Path runDirectory) throws IOException {
        final Path temporary = runDirectory.resolve(NAME + ".tmp");
        Files.writeString(temporary, "job=" + job + "\nepoch=" + epoch + "\nagents=" + String.join(" ", agents) + "\n");
        Files.move(temporary, runDirectory.resolve(NAME), StandardCopyOption.ATOMIC_MOVE,
                StandardCopyOption.REPLACE_EXISTING);
    }

    static void remove(final Path runDirectory) throws IOException {
        Files.deleteIfExists(runDirectory.resolve(NAME));
    }
}
