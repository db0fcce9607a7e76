// SPDX-License-Identifier: Apache-2.0
/**
 * The shadow driver of one process, in rooms. From the ground up: nativelib, backend, model, drain, xrc, verbs, reattach, checkpoint.
 * A room uses only those before it; {@code RoomsTest} has the arrows. {@link org.shadowverbs.driver.Rank} starts it all.
 */
package org.shadowverbs.driver;
