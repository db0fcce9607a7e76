// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.util.List;

/**
 * Where a coordinator is.
 *
 * @param job the name of its job
 * @param host its host's
 * @param addresses at which it listens, the best first
 */
public record Seat(String job, String host, List<String> addresses, int port) {
    /** As one text. */
    String text() {
        return String.join("\n", job, host, String.join(" ", addresses), Integer.toString(port));
    }

    /** @param text of {@link #text()} */
    static Seat of(final String text) {
        final List<String> lines = List.of(text.split("\n", -1));
        return new Seat(lines.get(0), lines.get(1), List.of(lines.get(2).split(" ")), Integer.parseInt(lines.get(3)));
    }
}
