// SPDX-License-Identifier: Apache-2.0
/**
 * The agent of one host: it passes on what ranks and coordinator say, watches the processes, and has them frozen,
 * saved and restored.
 */
package org.shadowverbs.coordinator.agent;
