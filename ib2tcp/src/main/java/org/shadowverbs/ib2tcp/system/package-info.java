// SPDX-License-Identifier: Apache-2.0
/**
 * Ground: the operating system, memory by address, and what the device needs of the preload library. Uses no
 * other room.
 */
package org.shadowverbs.ib2tcp.system;
