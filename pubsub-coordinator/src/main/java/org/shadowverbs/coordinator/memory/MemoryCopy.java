// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.memory;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.List;
import java.util.function.LongConsumer;
import org.shadowverbs.coordinator.system.Libc;

/**
 * Copies memory of a process that runs, so that an image that builds on the copy needs only what was written to meanwhile. What is
 * written to while it is copied may be in the copy in any state: it counts as written.
 */
public final class MemoryCopy {
    private static final int CHUNK = 1 << 20;
    /** So often it is looked at again what was written to. */
    private static final int MOST_ROUNDS = 4;
    /** Another round is of use where the last one has copied more than this, and less than {@link #SHRINKS} of the one before. */
    private static final long LITTLE = 16L << 20;
    private static final double SHRINKS = 0.7;

    private final long hostPid;
    private final MemoryImage image;
    private final LongConsumer progress;
    private final MemorySegment buffer;

    private MemoryCopy(final long hostPid, final MemoryImage image, final LongConsumer progress, final MemorySegment buffer) {
        this.hostPid = hostPid;
        this.image = image;
        this.progress = progress;
        this.buffer = buffer;
    }

    /** Writes what CRIU looks for beside page maps. */
    public static void inventory(final Path folder) throws IOException {
        MemoryImage.inventory(folder);
    }

    /**
     * Copies a process.
     *
     * @param folder   where the files go
     * @param hostPid  as this process sees it
     * @param ownPid   as it sees itself
     * @param id       another one for each process of the folder
     * @param count    by which its writes are counted; null: by soft-dirty bits
     * @param known    whether pages that count as not written are in what this builds on; else they are copied, too
     * @param progress is told how many bytes more were copied
     * @return bytes of the file of pages
     * @throws IOException if it has ended, cannot be read, or a file cannot be written
     */
    public static long of(final Path folder, final long hostPid, final long ownPid, final int id, final WriteCount count,
            final boolean known, final LongConsumer progress) throws IOException {
        final int pagemap = Libc.open("/proc/" + hostPid + "/pagemap", Libc.O_RDONLY);
        try (MemoryImage image = new MemoryImage(folder, ownPid, id); Arena arena = Arena.ofConfined()) {
            final MemoryCopy copy = new MemoryCopy(hostPid, image, progress, arena.allocate(CHUNK, PageRange.PAGE));
            if (count == null) {
                SoftDirty.begin(hostPid);
            }
            for (final VmArea area : VmArea.privateOnes(hostPid)) {
                for (final PageRange range : pages(hostPid, pagemap, area, count)) {
                    if (known && !range.written()) {
                        image.addKnown(range);
                    } else {
                        copy.chunks(range, false);
                    }
                }
            }
            if (count != null) {
                copy.rounds(count, pagemap);
            }
            image.finish();
            return image.bytes();
        } finally {
            Libc.close(pagemap);
        }
    }

    private static List<PageRange> pages(final long hostPid, final int pagemap, final VmArea area, final WriteCount count)
            throws IOException {
        if (area.vdso()) {
            return List.of(new PageRange(area.start(), area.end(), true));
        }
        return count == null ? SoftDirty.pages(hostPid, area) : count.take(pagemap, area);
    }

    private void rounds(final WriteCount count, final int pagemap) throws IOException {
        long before = image.bytes();
        for (int round = 1; round < MOST_ROUNDS && before > LITTLE; round++) {
            long again = 0;
            for (final PageRange added : image.added()) {
                for (final PageRange range : count.takeWritten(pagemap, added)) {
                    chunks(range, true);
                    again += range.end() - range.start();
                }
            }
            if (again > before * SHRINKS) {
                return; // it writes as fast as it is copied
            }
            before = again;
        }
    }

    private void chunks(final PageRange range, final boolean again) throws IOException {
        for (long at = range.start(); at < range.end(); at += CHUNK) {
            final PageRange chunk = new PageRange(at, Math.min(range.end(), at + CHUNK), true);
            final MemorySegment content = buffer.asSlice(0, chunk.end() - chunk.start());
            read(content, chunk.start());
            if (again) {
                image.replace(chunk, content.asByteBuffer());
            } else {
                image.add(chunk, content.asByteBuffer());
            }
            progress.accept(content.byteSize());
        }
    }

    /** Pages that are gone meanwhile read as zeros: nobody will look for them. */
    private void read(final MemorySegment into, final long from) throws IOException {
        for (long done = 0; done < into.byteSize();) {
            final long got = Libc.readMemory(hostPid, into.asSlice(done), from + done);
            if (got < 0 && got != -Libc.EFAULT) {
                throw new IOException("process_vm_readv(" + hostPid + "): errno " + -got);
            }
            if (got <= 0) {
                into.asSlice(done, PageRange.PAGE).fill((byte) 0);
            }
            done += got <= 0 ? PageRange.PAGE : got;
        }
    }
}
