// SPDX-License-Identifier: Apache-2.0
/**
 * XRC between processes: domains and receive queue pairs that several have open. Uses nativelib, backend, model
 * and drain.
 */
package org.shadowverbs.driver.xrc;
