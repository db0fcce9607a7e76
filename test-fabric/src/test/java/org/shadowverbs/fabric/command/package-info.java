// SPDX-License-Identifier: Apache-2.0
/**
 * What the commands print, and the status that they end with.
 */
package org.shadowverbs.fabric.command;
