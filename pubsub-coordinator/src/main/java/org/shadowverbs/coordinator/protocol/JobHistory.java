// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

/**
 * What a checkpoint tells of the job before it, as a restart's setting.
 *
 * @param ranMillis how long its programs had run, through all restarts
 * @param failures how often it had failed
 * @param failed whether this restart comes after a failure: the checkpoint was not made to end the job
 * @param costMillis how long the checkpoint has taken
 */
public record JobHistory(long ranMillis, int failures, boolean failed, long costMillis) {
    /** The name of the setting. */
    public static final String SETTING = "history";

    /** @throws IllegalArgumentException when the text is none of {@link #text} */
    public static JobHistory of(final String text) {
        final String[] words = text.split(" ");
        if (words.length != 4) {
            throw new IllegalArgumentException("no history of a job: " + text);
        }
        return new JobHistory(Long.parseLong(words[0]), Integer.parseInt(words[1]), Boolean.parseBoolean(words[2]),
                Long.parseLong(words[3]));
    }

    /** The setting's value. */
    public String text() {
        return ranMillis + " " + failures + " " + failed + " " + costMillis;
    }
}
