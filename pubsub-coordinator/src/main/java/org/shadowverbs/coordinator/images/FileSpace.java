// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.io.IOException;
import java.nio.file.Path;
import org.shadowverbs.coordinator.system.Libc;
import org.shadowverbs.coordinator.system.NativeFunction;

/** fallocate(2): gives back the space of a part of a file, which reads as zeros then. */
final class FileSpace implements AutoCloseable {
    private static final int KEEP_SIZE = 1;
    private static final int PUNCH_HOLE = 2;
    private static final NativeFunction FALLOCATE = NativeFunction.of("fallocate64");

    private final int fd;

    FileSpace(final Path file) throws IOException {
        fd = Libc.open(file.toString(), Libc.O_WRONLY);
    }

    /** @return whether it has: not every file system can */
    boolean giveBack(final long from, final long bytes) {
        return FALLOCATE.call(fd, PUNCH_HOLE | KEEP_SIZE, from, bytes) == 0;
    }

    @Override
    public void close() {
        Libc.close(fd);
    }
}
