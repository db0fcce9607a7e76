// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.ib2tcp.system;

/** A control verb that the device refuses, with the errno value for it. */
public final class DeviceException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final int errno;

    public DeviceException(final int errno, final String what) {
        super("ib2tcp cannot " + what + ": errno " + errno, null, false, false);
        this.errno = errno;
    }

    public int errno() {
        return errno;
    }
}
