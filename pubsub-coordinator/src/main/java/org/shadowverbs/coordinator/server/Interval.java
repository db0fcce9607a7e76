// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * When periodic checkpoints are asked for.
 *
 * @param automatic as {@link CheckpointInterval} finds best; else {@code every} so often
 * @param every zero: never; when automatic it means nothing
 * @param mtbf the mean time between failures that the user expects; zero: he has not said
 */
public record Interval(boolean automatic, Duration every, Duration mtbf) {
    /** None are asked for. */
    public static final Interval NONE = every(Duration.ZERO);

    /** The names of the settings by which a launch asks for them, and the word for automatic ones. */
    public static final String SETTING = "interval";
    public static final String MTBF_SETTING = "mtbf";
    public static final String AUTO = "auto";

    /** @param duration zero: none */
    public static Interval every(final Duration duration) {
        return new Interval(false, duration, Duration.ZERO);
    }

    /**
     * What was given as text.
     *
     * @param interval seconds, or {@link #AUTO}; empty: none
     * @param mtbf seconds; empty: not given
     * @throws NumberFormatException when it is neither
     */
    public static Interval of(final String interval, final String mtbf) {
        final boolean automatic = interval.equals(AUTO);
        return new Interval(automatic, seconds(automatic ? "" : interval), seconds(mtbf));
    }

    /** As a launch's settings; none when none are asked for. */
    Map<String, String> settings() {
        final Map<String, String> settings = new LinkedHashMap<>();
        if (isAsked()) {
            settings.put(SETTING, automatic ? AUTO : Long.toString(every.toSeconds()));
        }
        if (mtbf.isPositive()) {
            settings.put(MTBF_SETTING, Long.toString(mtbf.toSeconds()));
        }
        return settings;
    }

    private static Duration seconds(final String text) {
        return text.isEmpty() ? Duration.ZERO : Duration.ofSeconds(Long.parseLong(text));
    }

    /** Whether any are asked for. */
    public boolean isAsked() {
        return automatic || every.isPositive();
    }
}
