// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.nio.file.Path;
import org.shadowverbs.coordinator.images.CompressionPolicy;

/** What an agent knows from one checkpoint to the next. */
final class CriuTools {
    private final Chains chains = new Chains();
    private final CompressionPolicy policy = new CompressionPolicy();
    private Boolean softDirty;

    Chains chains() {
        return chains;
    }

    CompressionPolicy policy() {
        return policy;
    }

    /** Finds out whether the kernel counts the writes of all processes by itself; once. */
    synchronized void askKernel(final Path criu) {
        if (softDirty == null) {
            softDirty = CriuCommand.hasSoftDirty(criu);
        }
    }

    /** What was found out; false before. */
    synchronized boolean softDirty() {
        return softDirty != null && softDirty;
    }
}
