// SPDX-License-Identifier: Apache-2.0
/**
 * The coordinator: {@link org.shadowverbs.coordinator.server.CheckpointRun} is the checkpoint from top to bottom,
 * {@link org.shadowverbs.coordinator.server.Job} who takes part,
 * {@link org.shadowverbs.coordinator.server.Reattachment} the way back.
 */
package org.shadowverbs.coordinator.server;
