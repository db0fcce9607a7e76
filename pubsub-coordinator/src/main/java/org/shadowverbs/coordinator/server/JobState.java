// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;

/**
 * What a coordinator finds of the one in whose place it is.
 *
 * @param job the job's name
 * @param epoch the last one that had begun
 * @param lastCheckpoint the checkpoints that the job comes from, as in {@link Lineage}
 * @param restartedFrom the same
 * @param ranMillis its history
 * @param failures the same
 * @param agents the ids of those that will come again
 * @param host where it was
 * @param addresses where else it listened for them
 * @param busyHosts those that had processes of the job
 * @param recovering whether it was being brought back
 * @param decided the epoch whose checkpoint is valid from when this is kept, wherever its folder is yet; 0: none
 * @param settings of coordinator and launches
 * @param exitOnLast as in {@link CoordinatorOptions}
 * @param deadlineSeconds the same
 */
record JobState(String job, long epoch, long lastCheckpoint, long restartedFrom, long ranMillis, int failures,
        Set<String> agents, String host, Set<String> addresses, Set<String> busyHosts, boolean recovering, long decided,
        Map<String, String> settings, boolean exitOnLast, int deadlineSeconds) {
    private static final String SETTING = "setting.";

    /** @throws IOException the text is damaged */
    static JobState of(final String text) throws IOException {
        final Properties p = new Properties();
        try {
            p.load(new StringReader(text));
            final Map<String, String> settings = new LinkedHashMap<>();
            p.stringPropertyNames().stream().filter(name -> name.startsWith(SETTING))
                    .forEach(name -> settings.put(name.substring(SETTING.length()), p.getProperty(name)));
            return new JobState(p.getProperty("job", ""), number(p, "epoch"), number(p, "last-checkpoint"),
                    number(p, "restarted-from"), number(p, "ran-ms"), (int) number(p, "failures"), words(p, "agents"),
                    p.getProperty("host", ""), words(p, "addresses"), words(p, "busy-hosts"),
                    Boolean.parseBoolean(p.getProperty("recovering")), number(p, "decided"), settings,
                    Boolean.parseBoolean(p.getProperty("exit-on-last")), (int) number(p, "deadline"));
        } catch (IllegalArgumentException e) {
            throw new IOException("the job's state (job.properties) is damaged; remove it to begin a new job", e);
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

    String text() {
        final Properties p = new Properties();
        p.putAll(Map.of("job", job, "epoch", Long.toString(epoch), "last-checkpoint", Long.toString(lastCheckpoint),
                "restarted-from", Long.toString(restartedFrom), "ran-ms", Long.toString(ranMillis),
                "failures", Integer.toString(failures), "agents", String.join(" ", agents),
                "addresses", String.join(" ", addresses), "busy-hosts", String.join(" ", busyHosts),
                "decided", Long.toString(decided)));
        p.setProperty("recovering", Boolean.toString(recovering));
        p.setProperty("host", host);
        p.setProperty("exit-on-last", Boolean.toString(exitOnLast));
        p.setProperty("deadline", Integer.toString(deadlineSeconds));
        settings.forEach((name, value) -> p.setProperty(SETTING + name, value));
        final StringWriter text = new StringWriter();
        try {
            p.store(text, null);
        } catch (IOException e) {
            throw new UncheckedIOException(e); // it is memory
        }
        return text.toString();
    }
}
