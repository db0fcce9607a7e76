// SPDX-License-Identifier: Apache-2.0
/**
 * Measures what the preload and verbs over TCP cost, for {@code shadowverbs bench}.
 */
package org.shadowverbs.fabric.bench;
