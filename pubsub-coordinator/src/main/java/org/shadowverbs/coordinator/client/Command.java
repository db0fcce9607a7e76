// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/** What a rank waits for while the application runs. */
public sealed interface Command
        permits CheckQuestion, CheckpointRequest, LinkLost, ProgramAnswer, Shutdown, WorkQuestion {
}
