// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import net.openhft.posix.internal.PosixAPIHolder;
import net.openhft.posix.internal.noop.NoOpPosixAPI;
import org.shadowverbs.coordinator.system.NativeFunction;

/**
 * The two system calls that Chronicle Map makes by itself, to have space on the disk before it writes into mapped memory, and to
 * write that back. Its own way to them is jnr-ffi, which generates classes in each process, for as long as all the rest of opening
 * a map takes; the distribution goes without it.
 */
final class ChroniclePosix extends NoOpPosixAPI {
    private static final NativeFunction POSIX_FALLOCATE = NativeFunction.of("posix_fallocate");
    private static final NativeFunction MSYNC = NativeFunction.of("msync");

    private ChroniclePosix() {
        super("Chronicle Map was not known to need it");
    }

    /** Before the first class of Chronicle's is loaded. */
    static void use() {
        PosixAPIHolder.POSIX_API = new ChroniclePosix();
    }

    /** @return 0, or an errno value: posix_fallocate(3), which writes zeros where the file system has no such call */
    @Override
    public int fallocate(final int fd, final int mode, final long offset, final long length) {
        if (mode != 0) {
            throw new UnsupportedOperationException("fallocate with mode " + mode);
        }
        return POSIX_FALLOCATE.call(fd, offset, length);
    }

    /** @return 0, or a negative errno value: msync(2) */
    @Override
    public int msync(final long address, final long length, final int mode) {
        return MSYNC.call(address, length, mode);
    }
}
