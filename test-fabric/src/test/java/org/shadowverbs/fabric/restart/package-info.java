// SPDX-License-Identifier: Apache-2.0
/**
 * What a restarted process is to its terminal, its debugger and its clocks.
 */
package org.shadowverbs.fabric.restart;
