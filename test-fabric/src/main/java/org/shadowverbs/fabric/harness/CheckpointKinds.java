// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.fabric.harness;

import java.util.Arrays;
import java.util.Random;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

/** Which checkpoints of a job close the devices although they could stay open ({@code checkpoint --detached}). */
public final class CheckpointKinds {
    private static final String DETACHED = "--detached";

    private final BooleanSupplier detached;

    private CheckpointKinds(final BooleanSupplier detached) {
        this.detached = detached;
    }

    /** Now one, now the other, for a test always in the same order; or what the system property shadowverbs.kind says. */
    static CheckpointKinds mixed() {
        final String kind = System.getProperty("shadowverbs.kind", "mixed");
        return kind.equals("attached") ? attached() : kind.equals("detached") ? detached() : mixed(StackWalker.getInstance().walk(frames -> frames.filter(f -> f.getClassName().endsWith("SystemTest"))
                .map(f -> f.getClassName() + '.' + f.getMethodName()).reduce((a, b) -> b).orElse("")).hashCode());
    }

    /** At random. */
    public static CheckpointKinds mixed(final long seed) {
        return new CheckpointKinds(new Random(seed)::nextBoolean);
    }

    /** Devices stay open where they can. */
    public static CheckpointKinds attached() {
        return new CheckpointKinds(() -> false);
    }

    /** Devices are always closed. */
    public static CheckpointKinds detached() {
        return new CheckpointKinds(() -> true);
    }

    /** The options of a checkpoint command with that of its kind; one that only asks, or has said it, is of no kind. */
    String[] add(final String... options) {
        return Stream.of("--check", DETACHED).anyMatch(Arrays.asList(options)::contains) || !detached.getAsBoolean() ? options
                : Stream.concat(Stream.of(options), Stream.of(DETACHED)).toArray(String[]::new);
    }
}
