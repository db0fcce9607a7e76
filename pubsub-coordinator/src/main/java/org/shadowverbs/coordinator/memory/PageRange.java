// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.memory;

/**
 * Pages that follow each other.
 *
 * @param start   address of the first byte
 * @param end     behind the last one
 * @param written whether they may have been written to since the count began; else they were not
 */
record PageRange(long start, long end, boolean written) {
    static final int PAGE = 4096;
}
