// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.util.LinkedHashMap;
import java.util.Map;

/** All that was measured. */
final class BenchResults {
    /** By the names of the rows, in their order; nanoseconds. */
    final Map<String, BenchSamples> rows = new LinkedHashMap<>();
    /** Time of the first {@code ibv_open_device}, in milliseconds. */
    final BenchSamples boot = new BenchSamples();
    /** Private dirty memory of a process with one queue pair; megabytes (2^20 bytes). */
    final BenchSamples memory = new BenchSamples();
    /** What a checkpoint of such a process takes on disk, against the private memory of a native one, which is what CRIU saves. */
    final BenchSamples image = new BenchSamples();
    /** Sums over the measured loops under the preload, all cases together. */
    long countedRequests;
    long allocations;
    long systemCalls;

    BenchSamples row(final BenchCase benchCase) {
        return rows.computeIfAbsent(benchCase.name(), name -> new BenchSamples());
    }
}
