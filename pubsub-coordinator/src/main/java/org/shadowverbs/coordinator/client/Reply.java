// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.util.List;
import java.util.Map;

/**
 * What every rank gets once all have contributed.
 *
 * @param found the wanted keys that any rank published in this exchange or the phase before it; in a round that goes on
 *        with another ({@link Phase#continues}) only those that this rank does not have yet in this version
 * @param unanimous whether all agreed
 * @param ranks how many took part
 * @param runs their numbers, as {@link NumberedKeys#runs} makes them
 * @param departed the numbers of the ranks that began this epoch and are no more; and the last number that was given to a rank
 *        of the job, if that had left before: what others had before shows as a gap among those that take part
 */
public record Reply(Map<String, byte[]> found, boolean unanimous, int ranks, List<Integer> runs,
        List<Integer> departed) {
    /** The numbers of those that took part, in their order. */
    public List<Integer> numbers() {
        return NumberedKeys.numbers(runs);
    }
}
