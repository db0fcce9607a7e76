// SPDX-License-Identifier: Apache-2.0
/**
 * The coordinator: {@link org.shadowverbs.coordinator.server.CheckpointRun} is the checkpoint from top to bottom,
 * {@link org.shadowverbs.coordinator.server.Epoch} what it waits for,
 * {@link org.shadowverbs.coordinator.server.Job} where messages of agents come in,
 * {@link org.shadowverbs.coordinator.server.Members} who is there,
 * {@link org.shadowverbs.coordinator.server.Reattachment} the way back, {@link org.shadowverbs.coordinator.server.Recovery} when a job is
 * brought back, {@link org.shadowverbs.coordinator.server.RecoveryRun} how, and
 * {@link org.shadowverbs.coordinator.server.LevelCopies} what becomes of images while the job runs on.
 */
package org.shadowverbs.coordinator.server;
