// SPDX-License-Identifier: Apache-2.0
/**
 * The way back to work, for resume, abort and restart: {@link org.shadowverbs.driver.reattach.Reattach} from
 * top to bottom. Uses nativelib, backend, model, drain, xrc and verbs.
 */
package org.shadowverbs.driver.reattach;
