// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.server.Interval;

/** The options that say when periodic checkpoints are made. */
final class IntervalOptions {
    private static final int SECONDS_MAX = 1_000_000_000;
    private static final double HOURS_MAX = 1_000_000;
    private static final double SECONDS_OF_HOUR = 3600;

    private final CliCommand command;
    private final Supplier<String> interval;
    private final Supplier<Double> mtbf;

    IntervalOptions(final CliCommand command) {
        this.command = command;
        interval = command.checked(List.of("-i", "--interval"), "SECONDS|auto", IntervalOptions::checked, "checkpoint the job every so"
                + " often; auto: as often as costs it the least time, by what its checkpoints take and how often it fails");
        mtbf = command.decimal("--mtbf", "HOURS", 1 / SECONDS_OF_HOUR, HOURS_MAX, "for -i auto: the mean time between failures of"
                + " the job (24, corrected by the failures that are seen)");
    }

    private static String checked(final String text) {
        return text.equals(Interval.AUTO) ? text : Integer.toString(CliCommand.number(text, 1, SECONDS_MAX));
    }

    /** As a launch's settings; none when nothing was asked for. */
    Map<String, String> settings() throws UsageException {
        final Map<String, String> settings = new LinkedHashMap<>();
        if (mtbf.get() != null && !Interval.AUTO.equals(interval.get())) {
            throw new UsageException(command.name() + ": --mtbf is for -i auto");
        }
        if (interval.get() != null) {
            settings.put(Interval.SETTING, interval.get());
        }
        if (mtbf.get() != null) {
            settings.put(Interval.MTBF_SETTING, Long.toString(Math.round(mtbf.get() * SECONDS_OF_HOUR)));
        }
        return settings;
    }

    /** As a coordinator keeps them. */
    Interval interval() throws UsageException {
        final Map<String, String> settings = settings();
        return Interval.of(settings.getOrDefault(Interval.SETTING, ""), settings.getOrDefault(Interval.MTBF_SETTING, ""));
    }

    /** The same options for a coordinator that is to be started. */
    List<String> flags() throws UsageException {
        settings();
        final List<String> flags = new ArrayList<>();
        if (interval.get() != null) {
            flags.addAll(List.of("-i", interval.get()));
        }
        if (mtbf.get() != null) {
            flags.addAll(List.of("--mtbf", mtbf.get().toString()));
        }
        return flags;
    }
}
