// SPDX-License-Identifier: Apache-2.0
/**
 * Brings every connection to where nothing moves that can move. Read {@link
 * org.shadowverbs.driver.drain.Drain}, then {@link org.shadowverbs.driver.drain.DrainPolicy}, which decides and
 * has no effects. Uses nativelib, backend and model.
 */
package org.shadowverbs.driver.drain;
