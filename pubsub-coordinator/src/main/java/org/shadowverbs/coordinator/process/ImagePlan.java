// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.util.Map;
import org.shadowverbs.coordinator.memory.WriteCount;

/**
 * How images of a host's processes are made.
 *
 * @param name      of the folder that the checkpoint will have
 * @param base      name of the one before, beside it, which is safe; empty: there is none
 * @param fullEvery how many checkpoints follow each other before one is whole again, that included; 1: all are
 * @param counts    what counts writes, by host pid, on kernels that do not count them by themselves
 */
public record ImagePlan(String name, String base, int fullEvery, Map<Long, WriteCount> counts) {
    /** A whole image, and none builds on it. */
    public static final ImagePlan WHOLE = new ImagePlan("", "", 1, Map.of());

    /**
     * Whether a later image may have only what is written to from now on.
     *
     * @return true if so
     */
    public boolean increments() {
        return fullEvery > 1;
    }
}
