// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.time.Duration;

/**
 * How long a job should run between two checkpoints, so that it loses the least time to checkpoints and failures together: J. T.
 * Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22
 * (2006), equation 37. With the cost d of a checkpoint and the mean time between failures M it is
 *
 * <pre>
 *   sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d    for d &lt; 2M
 *   M                                                        else
 * </pre>
 *
 * Its first factor is the interval of J. W. Young, "A first order approximation to the optimum checkpoint interval",
 * Communications of the ACM 17 (1974).
 */
final class CheckpointInterval {
    /** A checkpoint takes messages and processes' attention that its cost does not show. */
    static final Duration SHORTEST = Duration.ofSeconds(10);
    /** However rare failures are, a day's work is at stake at most; people who end a job by mistake are in no statistics. */
    static final Duration LONGEST = Duration.ofHours(24);
    /** Where failures come nearly as fast as checkpoints are made, the job still runs four fifths of the time. */
    static final int COSTS = 4;

    private CheckpointInterval() {
    }

    /**
     * Longer when the cost or the time between failures is; never below {@link #SHORTEST} and {@link #COSTS} times the cost, and
     * else never above {@link #LONGEST}.
     *
     * @param cost how long a checkpoint stops the programs
     * @param mtbf the mean time between failures
     */
    static Duration of(final Duration cost, final Duration mtbf) {
        final double d = seconds(cost);
        final double m = seconds(mtbf);
        final double x = d / (2 * m);
        final double best = d < 2 * m ? Math.sqrt(2 * d * m) * (1 + Math.sqrt(x) / 3 + x / 9) - d : m;
        final Duration wanted = Duration.ofNanos(Math.round(Math.min(seconds(LONGEST), best) * 1e9));
        final Duration least = cost.multipliedBy(COSTS).compareTo(SHORTEST) > 0 ? cost.multipliedBy(COSTS) : SHORTEST;
        return wanted.compareTo(least) > 0 ? wanted : least;
    }

    private static double seconds(final Duration d) {
        return d.getSeconds() + d.getNano() / 1e9;
    }
}
