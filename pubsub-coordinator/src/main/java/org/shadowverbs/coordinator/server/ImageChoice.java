// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.server;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BinaryOperator;
import org.shadowverbs.coordinator.images.Compression;

/**
 * How the images of a job are made, as a coordinator or a launch is told.
 *
 * @param compression of what they hold of memory
 * @param fullEvery one of so many checkpoints is whole, the others have what was written to since the one before; 1: all are whole
 * @param preCopy whether periodic checkpoints save what they can before the programs stand still
 * @param levels where they are kept
 */
public record ImageChoice(Compression compression, int fullEvery, boolean preCopy, LevelChoice levels) {
    /** Names of a launch's settings. */
    public static final String COMPRESSION = "compress";
    public static final String FULL_EVERY = "full-every";
    public static final String PRE_COPY = "pre-copy";

    public static final ImageChoice USUAL = new ImageChoice(Compression.AUTO, 1, false, LevelChoice.SHARED_ALONE);

    /** The same, with what can be copied before. */
    ImageChoice preCopied(final boolean wanted) {
        return new ImageChoice(compression, fullEvery, preCopy || wanted, levels);
    }

    /**
     * The same, but for what a launch has asked for.
     *
     * @param setting gives it by its name, or else its second argument
     * @return the choice
     */
    public ImageChoice with(final BinaryOperator<String> setting) {
        return new ImageChoice(Compression.of(setting.apply(COMPRESSION, compression.toString())),
                Integer.parseInt(setting.apply(FULL_EVERY, Integer.toString(fullEvery))),
                Boolean.parseBoolean(setting.apply(PRE_COPY, Boolean.toString(preCopy))), levels.with(setting));
    }

    /** As a launch's settings. */
    Map<String, String> settings() {
        final Map<String, String> settings = new LinkedHashMap<>(levels.settings());
        settings.put(COMPRESSION, compression.toString());
        settings.put(FULL_EVERY, Integer.toString(fullEvery));
        settings.put(PRE_COPY, Boolean.toString(preCopy));
        return settings;
    }
}
