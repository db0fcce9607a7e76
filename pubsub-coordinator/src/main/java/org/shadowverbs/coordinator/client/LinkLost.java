// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/** The agent is gone, or sent what is no message. */
public record LinkLost(String reason) implements Command {
}
