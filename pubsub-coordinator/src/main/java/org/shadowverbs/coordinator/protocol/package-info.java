// SPDX-License-Identifier: Apache-2.0
/**
 * Messages and frames between ranks, agents, coordinator and command line; {@code docs/MESSAGES.md} has the bytes.
 * Ranks load it too: only java.base.
 */
package org.shadowverbs.coordinator.protocol;
