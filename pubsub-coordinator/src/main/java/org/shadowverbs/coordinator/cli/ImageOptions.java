// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.shadowverbs.coordinator.images.Compression;
import org.shadowverbs.coordinator.server.ImageChoice;
import org.shadowverbs.coordinator.server.LevelChoice;
import picocli.CommandLine.TypeConversionException;

/** The options that say how images are made. */
final class ImageOptions {
    private static final int LONGEST_CHAIN = 1000;
    private static final Set<String> FLAGS = Set.of(ImageChoice.PRE_COPY, LevelChoice.PARTNER);

    private final Supplier<String> compression;
    private final Supplier<Integer> fullEvery;
    private final Supplier<Boolean> preCopy;
    private final Supplier<String> local;
    private final Supplier<Boolean> partner;
    private final Supplier<Integer> flushEvery;

    ImageOptions(final CliCommand command) {
        compression = command.checked(List.of("--compress"), Compression.NAMES, ImageOptions::checked,
                "how images are compressed (auto: so that they are safe soonest, by a sample of them and the speed of the disk)");
        fullEvery = command.number(List.of("--full-every"), "N", 1, LONGEST_CHAIN, null, "one of N checkpoints is whole, the others"
                + " have what was written to since the one before (1: all are whole)");
        preCopy = command.flag("--pre-copy", "periodic checkpoints copy memory while the programs run, as checkpoint --pre-copy does");
        local = command.checked(List.of("--local"), "DIR", ImageOptions::folder, "each host keeps its images in DIR, on a disk or in memory"
                + " of its own, and a copy in the checkpoint directory while the programs run on; %%h in DIR is the host's name");
        partner = command.flag("--partner", "with --local: another host gets a copy, too, from which a job comes back that has lost one");
        flushEvery = command.number(List.of("--flush-every"), "K", 0, LONGEST_CHAIN, null, "with --local: only one of K checkpoints is"
                + " copied to the checkpoint directory, and the last (1: all are; 0: none is)");
    }

    /** As hosts are told, which may have other current directories. */
    private static String folder(final String text) {
        if (text.isEmpty()) {
            throw new TypeConversionException("takes a folder");
        }
        return Path.of(text).toAbsolutePath().normalize().toString();
    }

    private static String checked(final String text) {
        try {
            return Compression.of(text).toString();
        } catch (IllegalArgumentException e) {
            throw new TypeConversionException(e.getMessage());
        }
    }

    /** As a launch's settings; none when nothing was asked for. */
    Map<String, String> settings() throws UsageException {
        if (local.get() == null && (partner.get() || flushEvery.get() != null)) {
            throw new UsageException((partner.get() ? "--partner" : "--flush-every") + " needs --local DIR: where each host keeps its images");
        }
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
        if (local.get() != null) {
            settings.put(LevelChoice.LOCAL, local.get());
        }
        if (partner.get()) {
            settings.put(LevelChoice.PARTNER, "true");
        }
        if (flushEvery.get() != null) {
            settings.put(LevelChoice.FLUSH_EVERY, flushEvery.get().toString());
        }
        return settings;
    }

    /** As a coordinator keeps them. */
    ImageChoice choice() throws UsageException {
        final Map<String, String> settings = settings();
        return ImageChoice.USUAL.with(settings::getOrDefault);
    }

    /** The same options for a coordinator that is to be started. */
    List<String> flags() throws UsageException {
        final List<String> flags = new ArrayList<>();
        settings().forEach((name, value) -> flags.addAll(FLAGS.contains(name) ? List.of("--" + name)
                : List.of("--" + name, value)));
        return flags;
    }
}
