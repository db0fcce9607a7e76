// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.function.LongConsumer;

/** Has a file written to the disk part by part: of the whole file at once nobody would see how far it has come. */
final class Flusher {
    private static final long PART = 64L << 20;

    private final FileChannel channel;
    private final LongConsumer progress;
    private long written;
    private long flushed;

    /** @param channel open for reading and writing: msync(2) needs a mapping */
    Flusher(final FileChannel channel, final LongConsumer progress) {
        this.channel = channel;
        this.progress = progress;
    }

    void write(final ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            written += channel.write(bytes);
        }
        flush(written);
    }

    /** The file is written up to there. */
    void flush(final long upTo) throws IOException {
        if (upTo - flushed >= PART) {
            try (Arena arena = Arena.ofConfined()) {
                channel.map(FileChannel.MapMode.READ_WRITE, flushed, upTo - flushed, arena).force();
            }
            flushed = upTo;
            progress.accept(1);
        }
    }
}
