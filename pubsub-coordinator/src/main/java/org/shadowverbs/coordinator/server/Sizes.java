// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;
import java.util.Locale;

/** Bytes and times as people read them. */
public final class Sizes {
    private Sizes() {
    }

    /** In units of 1,000. */
    public static String bytes(final long bytes) {
        if (bytes < 10_000) {
            return bytes + " B";
        }
        if (bytes < 10_000_000) {
            return String.format(Locale.ROOT, "%.1f kB", bytes / 1e3);
        }
        return bytes < 10_000_000_000L ? String.format(Locale.ROOT, "%.1f MB", bytes / 1e6)
                : String.format(Locale.ROOT, "%.1f GB", bytes / 1e9);
    }

    /** A deadline, as messages name it. */
    static String deadline(final Duration d) {
        return d.toMillis() % 1000 == 0 ? d.toSeconds() + " s" : d.toMillis() + " ms";
    }

    /** With three decimals. */
    public static String seconds(final long nanos) {
        return String.format(Locale.ROOT, "%.3f s", nanos / 1e9);
    }
}
