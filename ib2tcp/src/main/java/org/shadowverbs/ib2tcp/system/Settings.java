// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

import java.util.Map;

/**
 * What the environment says of ib2tcp.
 *
 * @param address {@code SHADOWVERBS_TCP_ADDRESS}: the IPv4 address to be reached at, or null
 * @param elsewhere whether the address was told where the process was before it was restored here
 * @param secret {@code SHADOWVERBS_SECRET}: the job's, empty when there is none
 * @param spinNanos {@code SHADOWVERBS_TCP_SPIN_US}: how long the progress thread looks for more before it sleeps
 */
public record Settings(String address, boolean elsewhere, String secret, long spinNanos) {
    private static final long SPIN_MICROS = 20;

    public static Settings of(final Map<String, String> environment) {
        final String spin = environment.get("SHADOWVERBS_TCP_SPIN_US");
        long micros = SPIN_MICROS;
        if (spin != null && !spin.isEmpty()) {
            try {
                micros = Math.max(0, Math.min(1_000_000, Long.parseLong(spin)));
            } catch (NumberFormatException e) {
                throw new IllegalArgumentException("SHADOWVERBS_TCP_SPIN_US=" + spin + " is no number", e);
            }
        }
        final String secret = environment.get("SHADOWVERBS_SECRET");
        return new Settings(environment.get("SHADOWVERBS_TCP_ADDRESS"), false, secret == null ? "" : secret, micros * 1000);
    }

    /** What a restart says counts for more than the environment that the process had; empty: it says nothing. */
    public Settings restored(final String secretNow, final String addressNow) {
        return new Settings(addressNow.isEmpty() ? address : addressNow, addressNow.isEmpty(),
                secretNow.isEmpty() ? secret : secretNow, spinNanos);
    }
}
