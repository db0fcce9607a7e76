// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.util.Map;

/**
 * A checkpoint begins.
 *
 * @param deadlineSeconds how long any one phase may take before the coordinator gives the checkpoint up
 * @param options {@code kill} = {@code true}: the job ends after the checkpoint; {@link #DETACHED} = {@code true}: devices are
 *        closed for it; {@link #WRITES} = {@code true}: the image has only what was written to; further keys may come
 */
public record CheckpointRequest(long epoch, int deadlineSeconds, Map<String, String> options) implements Command {
    public static final String DETACHED = "detached";
    public static final String WRITES = "writes";
    /** All processes have asked for it that were to ask together: {@code true}. */
    public static final String TOGETHER = "together";

    /** Whether it matters that what a device has written to counts as written. */
    public boolean countsWrites() {
        return Boolean.parseBoolean(options.get(WRITES));
    }

    /** Whether devices are to be closed for it. */
    public boolean detached() {
        return Boolean.parseBoolean(options.get(DETACHED));
    }

    /** Whether it ends calls that several processes make together. */
    public boolean together() {
        return Boolean.parseBoolean(options.get(TOGETHER));
    }
}
