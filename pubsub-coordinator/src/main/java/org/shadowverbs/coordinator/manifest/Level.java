// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import java.util.Locale;

/** Where a copy of a host's images is; the first that is good serves. */
public enum Level {
    /** On the host itself: its own disk, or its memory. */
    LOCAL,
    /** On the same kind of place of another host. */
    PARTNER,
    /** In the checkpoint's own folder, on a file system that all hosts share. */
    SHARED;

    /** As users read it. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
