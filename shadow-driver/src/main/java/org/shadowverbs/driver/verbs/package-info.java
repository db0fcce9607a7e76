// SPDX-License-Identifier: Apache-2.0
/**
 * Control verbs as the application calls them, one class for each kind of object; {@link
 * org.shadowverbs.driver.verbs.Verbs} takes each request to its class. Uses nativelib, backend, model and xrc.
 */
package org.shadowverbs.driver.verbs;
