// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

/**
 * What the coordinator says to a checkpoint that the program has asked for.
 *
 * @param call the number of the program's call
 * @param safe the epoch of the checkpoint that ends the call, which is safe; 0: there is none yet
 * @param problem why there is none; empty: it has heard, and the call is to wait
 */
public record ProgramAnswer(long call, long safe, String problem) implements Command {
}
