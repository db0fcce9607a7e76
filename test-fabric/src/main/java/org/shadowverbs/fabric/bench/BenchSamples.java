// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.bench;

import java.util.Arrays;

/** Pairs of measurements, native and preloaded, taken one right after the other. */
final class BenchSamples {
    /** Of the least native value. */
    private static final double UNDISTURBED = 1.05;

    private double[] natives = {};
    private double[] preloaded = {};

    void add(final double nativeValue, final double preloadedValue) {
        natives = append(natives, nativeValue);
        preloaded = append(preloaded, preloadedValue);
    }

    /**
     * The pairs of which the native value is near the least: a neighbour on the processor (of a virtual machine, one behind
     * its wall), or a lower clock, slows both of a pair, and what is preloaded by more. It is not asked how slow that was.
     */
    BenchSamples undisturbed() {
        final BenchSamples result = new BenchSamples();
        for (int i = 0; i < natives.length; i++) {
            if (natives[i] <= UNDISTURBED * quantile(natives, 0)) {
                result.add(natives[i], preloaded[i]);
            }
        }
        return result;
    }

    int pairs() {
        return natives.length;
    }

    double nativeMedian() {
        return quantile(natives, 0.5);
    }

    double preloadedMedian() {
        return quantile(preloaded, 0.5);
    }

    /** The median of the paired differences; not the difference of the medians, which drift would bend. */
    double added() {
        return quantile(differences(), 0.5);
    }

    /** The distance between the quartiles of the paired differences. */
    double spread() {
        final double[] differences = differences();
        return quantile(differences, 0.75) - quantile(differences, 0.25);
    }

    private double[] differences() {
        final double[] differences = new double[natives.length];
        for (int i = 0; i < differences.length; i++) {
            differences[i] = preloaded[i] - natives[i];
        }
        return differences;
    }

    /** With linear interpolation between the two nearest values. */
    static double quantile(final double[] values, final double share) {
        if (values.length == 0) {
            throw new IllegalStateException("no measurements");
        }
        final double[] sorted = values.clone();
        Arrays.sort(sorted);
        final double position = share * (sorted.length - 1);
        final int below = (int) position;
        final int above = Math.min(below + 1, sorted.length - 1);
        return sorted[below] + (position - below) * (sorted[above] - sorted[below]);
    }

    private static double[] append(final double[] values, final double value) {
        final double[] longer = Arrays.copyOf(values, values.length + 1);
        longer[values.length] = value;
        return longer;
    }
}
