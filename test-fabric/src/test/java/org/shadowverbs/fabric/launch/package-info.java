// SPDX-License-Identifier: Apache-2.0
/**
 * How the preload comes into a program, and what the program sees of its device.
 */
package org.shadowverbs.fabric.launch;
