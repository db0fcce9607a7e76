// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.manifest;

import java.io.IOException;

/** A checkpoint's folder has no manifest, or one that can't be used. The message is one line for the user. */
public final class ManifestException extends IOException {
    private static final long serialVersionUID = 1L;

    public ManifestException(final String message) {
        super(message);
    }
}
