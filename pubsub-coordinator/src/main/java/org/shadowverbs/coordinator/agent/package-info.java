// SPDX-License-Identifier: Apache-2.0
/**
 * The agent of one host: it passes on what ranks and coordinator say, watches the processes, and has them frozen,
 * saved and restored. {@link org.shadowverbs.coordinator.agent.Agent} joins the parts:
 * {@link org.shadowverbs.coordinator.agent.LocalRanks}, {@link org.shadowverbs.coordinator.agent.LaunchedPrograms},
 * {@link org.shadowverbs.coordinator.agent.AgentSocket}, {@link org.shadowverbs.coordinator.agent.CoordinatorLink},
 * {@link org.shadowverbs.coordinator.agent.ShellRequests} and {@link org.shadowverbs.coordinator.agent.ShellStarter}, and
 * {@link org.shadowverbs.coordinator.agent.ImageWorker}, which does what a checkpoint asks of processes. Of a job that heals itself it
 * ends and restores this host's part ({@link org.shadowverbs.coordinator.agent.LocalRecovery}), for the launching commands
 * ({@link org.shadowverbs.coordinator.agent.StandIns}). Where images are kept besides the checkpoint's folder
 * {@link org.shadowverbs.coordinator.agent.HostLevels} knows.
 */
package org.shadowverbs.coordinator.agent;
