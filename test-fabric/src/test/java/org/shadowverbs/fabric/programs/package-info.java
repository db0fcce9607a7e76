// SPDX-License-Identifier: Apache-2.0
/**
 * Programs and libraries that others have written: they go on through checkpoints and restarts as they are.
 */
package org.shadowverbs.fabric.programs;
