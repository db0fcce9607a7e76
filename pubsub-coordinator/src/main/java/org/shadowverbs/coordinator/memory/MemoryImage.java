// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.memory;

import com.google.protobuf.CodedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * Pages of one process in files on which CRIU can build an image: {@code pagemap-PID.img} and {@code pages-ID.img}. Pages are added
 * in the order of their addresses; one that was added can be replaced. docs/IMAGES.md has the format.
 */
final class MemoryImage implements AutoCloseable {
    private static final int IMAGE_MAGIC = 0x54564319;
    private static final int PAGEMAP_MAGIC = 0x56084025;
    private static final int INVENTORY_MAGIC = 0x58313116;

    // pagemap_head
    private static final int PAGES_ID = 1;
    // pagemap_entry
    private static final int ADDRESS = 1;
    private static final int PAGES = 2;
    private static final int FLAGS = 4;
    private static final int IN_PARENT = 1;
    private static final int PRESENT = 4;
    // inventory_entry
    private static final int VERSION = 1;
    private static final int CURRENT_VERSION = 2;
    private static final int UPTIME = 8;
    private static final int PRE_DUMP_MODE = 9;
    private static final int SPLICE = 1;
    /** Later than the start of any process: which of them a pid means is known here. Microseconds. */
    private static final long LATE = 1L << 58;

    private final Path folder;
    private final long pid;
    private final int id;
    private final FileChannel pages;
    private final TreeMap<Long, Entry> entries = new TreeMap<>();
    private long bytes;

    /** @param offset in the file of pages; -1: they are in what the image builds on */
    private record Entry(long end, long offset) {
    }

    /**
     * Makes the file of pages.
     *
     * @param pid as the process sees it
     * @param id  another one for each image of a folder
     */
    MemoryImage(final Path folder, final long pid, final int id) throws IOException {
        this.folder = folder;
        this.pid = pid;
        this.id = id;
        pages = FileChannel.open(folder.resolve("pages-" + id + ".img"),
                Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE), PrivateFiles.FILE);
    }

    /** Writes what a folder of such images needs beside them. */
    static void inventory(final Path folder) throws IOException {
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final CodedOutputStream entry = CodedOutputStream.newInstance(out);
        entry.writeUInt32(VERSION, CURRENT_VERSION);
        entry.writeUInt64(UPTIME, LATE);
        entry.writeUInt32(PRE_DUMP_MODE, SPLICE);
        entry.flush();
        final ByteArrayOutputStream file = new ByteArrayOutputStream();
        number(file, INVENTORY_MAGIC);
        message(file, out);
        Files.write(folder.resolve("inventory.img"), file.toByteArray());
    }

    /** These pages are in what this image builds on. */
    void addKnown(final PageRange range) {
        checkOrder(range);
        entries.put(range.start(), new Entry(range.end(), -1));
    }

    /** These pages follow in the file, from where it ends now. */
    void add(final PageRange range, final ByteBuffer content) throws IOException {
        checkOrder(range);
        final Map.Entry<Long, Entry> last = entries.lastEntry();
        if (last != null && last.getValue().offset >= 0 && last.getValue().end == range.start()) {
            entries.put(last.getKey(), new Entry(range.end(), last.getValue().offset));
        } else {
            entries.put(range.start(), new Entry(range.end(), bytes));
        }
        write(content, bytes);
        bytes += range.end() - range.start();
    }

    /** CRIU finds a page in the file by how many present ones the map has before it. */
    private void checkOrder(final PageRange range) {
        final Map.Entry<Long, Entry> last = entries.lastEntry();
        if (last != null && range.start() < last.getValue().end) {
            throw new IllegalArgumentException("pages from %#x on were added after those up to %#x"
                    .formatted(range.start(), last.getValue().end));
        }
    }

    /** The pages that were added, not those that it builds on. */
    Iterable<PageRange> added() {
        return entries.entrySet().stream().filter(e -> e.getValue().offset >= 0)
                .map(e -> new PageRange(e.getKey(), e.getValue().end, true)).toList();
    }

    /** These of the pages that were added hold something else now. */
    void replace(final PageRange range, final ByteBuffer content) throws IOException {
        final Map.Entry<Long, Entry> entry = entries.floorEntry(range.start());
        write(content, entry.getValue().offset + range.start() - entry.getKey());
    }

    private void write(final ByteBuffer content, final long offset) throws IOException {
        long at = offset;
        while (content.hasRemaining()) {
            at += pages.write(content, at);
        }
    }

    /** How much it holds by itself. */
    long bytes() {
        return bytes;
    }

    /** Writes the map of the pages. */
    void finish() throws IOException {
        final ByteArrayOutputStream file = new ByteArrayOutputStream();
        number(file, IMAGE_MAGIC);
        number(file, PAGEMAP_MAGIC);
        final ByteArrayOutputStream message = new ByteArrayOutputStream();
        CodedOutputStream out = CodedOutputStream.newInstance(message);
        out.writeUInt32(PAGES_ID, id);
        out.flush();
        message(file, message);
        for (final Map.Entry<Long, Entry> entry : entries.entrySet()) {
            message.reset();
            out = CodedOutputStream.newInstance(message);
            out.writeUInt64(ADDRESS, entry.getKey());
            out.writeUInt32(PAGES, Math.toIntExact((entry.getValue().end - entry.getKey()) / PageRange.PAGE));
            out.writeUInt32(FLAGS, entry.getValue().offset < 0 ? IN_PARENT : PRESENT);
            out.flush();
            message(file, message);
        }
        Files.write(folder.resolve("pagemap-" + pid + ".img"), file.toByteArray());
    }

    private static void number(final ByteArrayOutputStream file, final int value) {
        file.writeBytes(ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN).putInt(value).array());
    }

    private static void message(final ByteArrayOutputStream file, final ByteArrayOutputStream message) {
        number(file, message.size());
        file.writeBytes(message.toByteArray());
    }

    @Override
    public void close() throws IOException {
        pages.close();
    }
}
