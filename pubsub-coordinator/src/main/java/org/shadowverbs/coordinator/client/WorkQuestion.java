// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/**
 * Whether the application goes on: how much work it has posted and seen completed.
 *
 * @param id of the question, which the answer has too
 */
public record WorkQuestion(long id) implements Command {
}
