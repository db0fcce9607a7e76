// SPDX-License-Identifier: Apache-2.0
/**
 * Where real objects come from: the verbs library of this host, or ib2tcp; {@link
 * org.shadowverbs.driver.backend.ChosenBackend} says which is in use. Uses nativelib.
 */
package org.shadowverbs.driver.backend;
