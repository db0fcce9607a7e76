// SPDX-License-Identifier: Apache-2.0
/**
 * Any sequence of verbs, with checkpoints and restarts that it must not see.
 */
package org.shadowverbs.fabric.steps;
