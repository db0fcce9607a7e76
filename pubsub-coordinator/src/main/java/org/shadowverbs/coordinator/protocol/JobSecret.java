// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.protocol;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Map;

/**
 * What all of a job must show each other. The user gives it ({@code SHADOWVERBS_SECRET}), or the coordinator of a job of one
 * host makes one, which its run directory keeps for its user alone.
 */
public final class JobSecret {
    public static final String VARIABLE = "SHADOWVERBS_SECRET";

    private static final String FILE = "secret";
    private static final int BYTES = 32;

    private JobSecret() {
    }

    /** The one that the user gives; empty when there is none. */
    public static String given(final Map<String, String> environment) {
        return environment.getOrDefault(VARIABLE, "");
    }

    /**
     * The job's. One that the coordinator has made counts for more than the environment: that of a restored program may
     * still hold the one of the job as it was before.
     */
    public static String of(final Map<String, String> environment, final Path runDirectory) throws IOException {
        final String made = made(runDirectory);
        return made.isEmpty() ? given(environment) : made;
    }

    /** The one that the coordinator of this run directory has made; empty when it has not. */
    public static String made(final Path runDirectory) throws IOException {
        try {
            final Path file = runDirectory.resolve(FILE);
            final String problem = PrivateFiles.placeProblem(file);
            if (!problem.isEmpty()) {
                throw new IOException(problem);
            }
            return Files.readString(file).strip();
        } catch (NoSuchFileException e) {
            return "";
        }
    }

    public static String random() {
        final byte[] bytes = new byte[BYTES];
        new SecureRandom().nextBytes(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    /** Keeps it, whole from the first moment that it is seen. */
    public static void keep(final Path runDirectory, final String secret) throws IOException {
        PrivateFiles.replace(runDirectory.resolve(FILE), (secret + "\n").getBytes(StandardCharsets.UTF_8));
    }

    public static void forget(final Path runDirectory) throws IOException {
        Files.deleteIfExists(runDirectory.resolve(FILE));
    }
}
