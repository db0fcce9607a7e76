// SPDX-License-Identifier: Apache-2.0
/**
 * The preload library and the C library, as Java calls them: functions, structs, errno. Uses no other room.
 */
package org.shadowverbs.driver.nativelib;
