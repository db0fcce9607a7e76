// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.agent;

import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.shadowverbs.coordinator.system.Libc;

/** Notices the end of a process that need not be a child, by a pidfd: a zombie that nobody reaps has ended, too. */
final class ProcessWatch {
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile int status = ExitStatus.UNKNOWN;

    private ProcessWatch() {
    }

    /** {@code whenEnded} runs on the watch's own thread, at once when there is no such process. */
    static ProcessWatch start(final long pid, final Runnable whenEnded) throws IOException {
        final int fd = Libc.pidfdOpen(pid);
        final ProcessWatch watch = new ProcessWatch();
        Thread.ofPlatform().daemon().name("watch-" + pid).stackSize(128 << 10).start(() -> {
            try {
                if (fd >= 0) {
                    Libc.pollReadable(fd, -1);
                    watch.status = ExitStatus.of(pid, fd);
                    Libc.close(fd);
                }
            } catch (IOException e) {
                // Without a descriptor nothing can be said of it but by its number.
                throw new java.io.UncheckedIOException(e);
            }
            watch.ended.countDown();
            whenEnded.run();
        });
        return watch;
    }

    boolean awaitEnd(final long millis) {
        try {
            return ended.await(millis, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /** How it has ended: 0 to 255, 128 and its signal, or {@link ExitStatus#UNKNOWN}. */
    int status() {
        return status;
    }
}
