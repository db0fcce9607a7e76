// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.server.ImageChoice;
import picocli.CommandLine.TypeConversionException;

/** The options that say how images are made. */
final class ImageOptions {
    private static final int LONGEST_CHAIN = 1000;

    private final Supplier<String> compression;
    private final Supplier<Integer> fullEvery;
    private final Supplier<Boolean> preCopy;

    ImageOptions(final CliCommand command) {
        compression = command.checked(List.of("--compress"), Compression.NAMES, ImageOptions::checked,
                "how images are compressed (auto: so that they are safe soonest, by a sample of them and the speed of the disk)");
        fullEvery = command.number(List.of("--full-every"), "N", 1, LONGEST_CHAIN, null, "one of N checkpoints is whole, the others"
                + " have what was written to since the one before (1: all are whole)");
        preCopy = command.flag("--pre-copy", "periodic checkpoints copy memory while the programs run, as checkpoint --pre-copy does");
    }

    private static String checked(final String text) {
        try {
            return Compression.of(text).toString();
        } catch (IllegalArgumentException e) {
            throw new TypeConversionException(e.getMessage());
        }
    }

    /** As a launch's settings; none when nothing was asked for. */
    Map<String, String> settings() {
        final Map<String, String> settings = new LinkedHashMap<>();
        if (compression.get() != null) {
            settings.put(ImageChoice.COMPRESSION, compression.get());
        }
        if (fullEvery.get() != null) {
            settings.put(ImageChoice.FULL_EVERY, fullEvery.get().toString());
        }
        if (preCopy.get()) {
            settings.put(ImageChoice.PRE_COPY, "true");
        }
        return settings;
    }

    /** As a coordinator keeps them. */
    ImageChoice choice() {
        return ImageChoice.USUAL.with(settings()::getOrDefault);
    }

    /** The same options for a coordinator that is to be started. */
    List<String> flags() {
        final List<String> flags = new ArrayList<>();
        settings().forEach((name, value) -> flags.addAll(name.equals(ImageChoice.PRE_COPY) ? List.of("--" + name)
                : List.of("--" + name, value)));
        return flags;
    }
}
