// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/** Agent and coordinator end: there will be no more checkpoints. The application runs on. */
public record Shutdown(String reason) implements Command {
}
