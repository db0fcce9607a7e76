// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/**
 * Whether a checkpoint would be possible now, as far as this rank knows.
 *
 * @param id of the question, which the answer has too
 */
public record CheckQuestion(long id) implements Command {
}
