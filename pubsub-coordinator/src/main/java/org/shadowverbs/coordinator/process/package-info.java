// SPDX-License-Identifier: Apache-2.0
/**
 * Process images: freeze, save and restore the processes of one host.
 *
 * <p>The node agent calls {@link org.shadowverbs.coordinator.process.ProcessCheckpointer}; its first implementation is
 * {@link org.shadowverbs.coordinator.process.Criu}, its second {@code CommandCheckpointer}, which has commands of the user do it.
 * The order is always the same:
 * <ol>
 * <li>{@code freeze} names whatever cannot be saved, or stops every tree of the host, and returns when all of them stand still
 * (what it would name {@code inspect} says without stopping anything);
 * <li>{@code write} writes the images of all trees, still frozen;
 * <li>{@code close} lets them run on, or {@code kill} ends them;
 * <li>{@code seal} compresses what was written and makes it durable, before or after that.
 * </ol>
 * Whatever fails in between ends in {@code close}: the processes run on as if nothing had been asked for.
 *
 * <p>Records of this package are written to the manifest as they are, so a component renamed here is a change of the
 * manifest's format. All pids in records are those that the process itself sees; {@code hostPid} says otherwise.
 */
package org.shadowverbs.coordinator.process;
