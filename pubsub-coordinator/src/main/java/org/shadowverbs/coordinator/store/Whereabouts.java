// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

/**
 * What a store says of a job's coordinator.
 *
 * @param number of the last one that there was; each has a higher one than those before it
 * @param held whether that one has its lease still; else another may take its place
 * @param seat where it is, or was; null: it has not said so yet
 */
public record Whereabouts(long number, boolean held, Seat seat) {
}
