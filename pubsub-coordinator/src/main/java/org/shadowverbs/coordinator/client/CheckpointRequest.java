// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.util.Map;

/**
 * A checkpoint begins.
 *
 * @param deadlineSeconds how long any one phase may take before the coordinator gives the checkpoint up
 * @param options {@code kill} = {@code true}: the job ends after the checkpoint; further keys may come
 */
public record CheckpointRequest(long epoch, int deadlineSeconds, Map<String, String> options) implements Command {
}
