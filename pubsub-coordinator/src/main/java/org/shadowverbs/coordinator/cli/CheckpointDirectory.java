// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.cli;

import java.nio.file.Path;
import java.util.Map;

/** Where checkpoints go. */
final class CheckpointDirectory {
    private CheckpointDirectory() {
    }

    /** @param named by {@code --ckptdir}, or null */
    static Path of(final Path named, final Map<String, String> environment) {
        return (named != null ? named : Path.of(environment.getOrDefault("SHADOWVERBS_CKPTDIR", "."))).toAbsolutePath()
                .normalize();
    }
}
