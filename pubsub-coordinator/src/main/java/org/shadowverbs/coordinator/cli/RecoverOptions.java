// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.server.RecoveryOptions;

/** The options by which a job heals itself. */
final class RecoverOptions {
    private static final int MILLIS = 1_000;
    private static final double LEAST_LOST_AFTER = 0.2;
    private static final double MOST_LOST_AFTER = 600;

    private final CliCommand command;
    private final String name;
    private final Supplier<Integer> times;
    private final Supplier<Integer> hangAfter;
    private final Supplier<Double> lostAfter;

    /** @param name of the option that says how often */
    RecoverOptions(final CliCommand command, final String name) {
        this.command = command;
        this.name = name;
        times = command.number(List.of(name), "N", 1, 1_000_000, null, "when a process of the job dies or a host is lost, go on from"
                + " the last checkpoint on the hosts that are left, up to N times from each; every launch then stays until the job"
                + " ends");
        hangAfter = command.number(List.of("--hang-after"), "SECONDS", 1, 1_000_000_000, null, "with " + name + ": also when no rank"
                + " has posted or completed a request for so long");
        lostAfter = command.decimal("--lost-after", "SECONDS", LEAST_LOST_AFTER, MOST_LOST_AFTER, "with " + name + ": a host that does"
                + " not answer for so long is lost (1)");
    }

    RecoveryOptions options() throws UsageException {
        if (times.get() == null) {
            if (hangAfter.get() != null || lostAfter.get() != null) {
                throw new UsageException(command.name() + ": " + (hangAfter.get() != null ? "--hang-after" : "--lost-after")
                        + " is for " + name + " N");
            }
            return RecoveryOptions.NONE;
        }
        return new RecoveryOptions(times.get(), hangAfter.get() == null ? 0 : hangAfter.get(),
                lostAfter.get() == null ? RecoveryOptions.NONE.lostAfterMillis() : (int) Math.round(lostAfter.get() * MILLIS));
    }

    /** The same for a coordinator that is to be started. */
    List<String> flags() throws UsageException {
        final RecoveryOptions asked = options();
        final List<String> flags = new ArrayList<>();
        if (asked.asked()) {
            flags.addAll(List.of("--recover-job", Integer.toString(asked.times())));
            if (hangAfter.get() != null) {
                flags.addAll(List.of("--hang-after", hangAfter.get().toString()));
            }
            if (lostAfter.get() != null) {
                flags.addAll(List.of("--lost-after", lostAfter.get().toString()));
            }
        }
        return flags;
    }
}
