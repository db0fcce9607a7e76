// SPDX-License-Identifier: Apache-2.0
/**
 * Functions of the C library and of the kernel that the JDK has no way to, and what /proc says of all processes. All other packages
 * of the coordinator may use it; it uses none of them.
 */
package org.shadowverbs.coordinator.system;
