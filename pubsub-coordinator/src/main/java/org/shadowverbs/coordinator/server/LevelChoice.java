// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.Map;
import java.util.function.BinaryOperator;

/**
 * At which levels the images of a job are kept, as a coordinator or a launch is told.
 *
 * @param local where each host keeps its own first, as the user has named it; empty: in the checkpoint's folder, and only there
 * @param partner whether another host gets a copy
 * @param flushEvery one of so many checkpoints is copied to its folder, and each that ends the job; 0: none is
 */
public record LevelChoice(String local, boolean partner, int flushEvery) {
    /** Names of a launch's settings. */
    public static final String LOCAL = "local";
    public static final String PARTNER = "partner";
    public static final String FLUSH_EVERY = "flush-every";

    public static final LevelChoice SHARED_ALONE = new LevelChoice("", false, 1);

    /** Whether images are anywhere but in the checkpoint's folder. */
    boolean several() {
        return !local.isEmpty();
    }

    /** Whether the checkpoint is to be flushed that is the so-manieth since one was. */
    boolean flushes(final int unflushed, final boolean last) {
        return flushEvery > 0 && (last || unflushed >= flushEvery);
    }

    /**
     * The same, but for what a launch has asked for.
     *
     * @param setting gives it by its name, or else its second argument
     */
    LevelChoice with(final BinaryOperator<String> setting) {
        return new LevelChoice(setting.apply(LOCAL, local), Boolean.parseBoolean(setting.apply(PARTNER, Boolean.toString(partner))),
                Integer.parseInt(setting.apply(FLUSH_EVERY, Integer.toString(flushEvery))));
    }

    /** As a launch's settings; none when images are in the checkpoint's folder alone. */
    Map<String, String> settings() {
        return several() ? Map.of(LOCAL, local, PARTNER, Boolean.toString(partner), FLUSH_EVERY, Integer.toString(flushEvery)) : Map.of();
    }
}
