// SPDX-License-Identifier: Apache-2.0
/**
 * Published ids by key: on the heap, or in a Chronicle Map that outlives its process.
 */
package org.shadowverbs.coordinator.store;
