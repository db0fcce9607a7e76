// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.util.Map;

/**
 * A checkpoint begins.
 *
 * @param deadlineSeconds how long any one phase may take before the coordinator gives the checkpoint up
 * @param options {@code kill} = {@code true}: the job ends after the checkpoint; {@link #DETACHED} = {@code true}: devices are
 *        closed for it; further keys may come
 */
public record CheckpointRequest(long epoch, int deadlineSeconds, Map<String, String> options) implements Command {
    public static final String DETACHED = "detached";

    /** Whether devices are to be closed for it. */
    public boolean detached() {
        return Boolean.parseBoolean(options.get(DETACHED));
    }
}
