// SPDX-License-Identifier: Apache-2.0
/**
 * Nothing is lost or doubled in a checkpoint and a restart, wherever they come in between and whatever fails.
 */
package org.shadowverbs.fabric.checkpoint;
