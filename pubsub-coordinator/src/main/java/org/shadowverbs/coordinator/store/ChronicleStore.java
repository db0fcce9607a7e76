// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.store;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.List;
import net.openhft.chronicle.map.ChronicleMap;
import net.openhft.chronicle.map.ChronicleMapBuilder;

/**
 * The store in a Chronicle Map, off the heap and in a file: a coordinator that is started anew after a crash finds what had
 * been published. Chronicle Map takes entries near their average size only, so a value is cut into parts of at most
 * {@link #PART_BYTES}: KEY#0 has the number of parts and a version, in decimal, a newline and the first part, and
 * KEY#VERSION.I the others.
 */
public final class ChronicleStore implements PublishedStore {
    static final int PART_BYTES = 4096;
    private static final String HEAD = "#0";
    private static final String COPY = ".copy";
    private static final String MARK = ".new";
    private static final int ENTRIES = 1 << 17;
    private static final int AVERAGE_VALUE_BYTES = 512;
    private static final int AVERAGE_KEY_BYTES = 40;

    private final Path file;
    private final ChronicleMap<String, byte[]> map;

    private ChronicleStore(final Path file, final ChronicleMap<String, byte[]> map) {
        this.file = file;
        this.map = map;
    }

    /**
     * Opens the file, or makes it. One that a killed process left is mended: locks that it held are released and
     * entries that were being written are dropped. A file whose making or mending was itself cut short can't be opened
     * any more: hence a mark beside it while it is made, and a copy while it is mended.
     */
    public static ChronicleStore open(final Path file) throws IOException {
        // Otherwise the library reports its use to a server on the Internet.
        System.setProperty("chronicle.analytics.disable", "true");
        ChroniclePosix.use();
        final ChronicleMapBuilder<String, byte[]> builder = ChronicleMapBuilder.of(String.class, byte[].class)
                .name("published-ids")
                .entries(ENTRIES)
                .averageKeySize(AVERAGE_KEY_BYTES)
                .averageValueSize(AVERAGE_VALUE_BYTES)
                .maxBloatFactor(4);
        final Path copy = beside(file, COPY);
        final Path mark = beside(file, MARK);
        if (Files.exists(copy)) {
            Files.copy(copy, file, StandardCopyOption.REPLACE_EXISTING);
        } else if (Files.exists(mark)) {
            Files.deleteIfExists(file); // nothing had been put in
        }
        if (!holdsValues(file)) {
            Files.write(mark, new byte[0]);
            final ChronicleStore made = new ChronicleStore(file, builder.createPersistedTo(file.toFile()));
            Files.delete(mark);
            return made;
        }
        if (!Files.exists(copy)) {
            keepCopy(file, copy);
        }
        final ChronicleStore mended = new ChronicleStore(file, builder.recoverPersistedTo(file.toFile(), true));
        Files.deleteIfExists(copy);
        return mended;
    }

    private static void keepCopy(final Path file, final Path copy) throws IOException {
        final Path unfinished = beside(file, COPY + MARK);
        try {
            Files.copy(file, unfinished, StandardCopyOption.REPLACE_EXISTING);
            Files.move(unfinished, copy, StandardCopyOption.ATOMIC_MOVE);
        } catch (final IOException e) {
            // Where there is no space for one, the mending is tried without.
            Files.deleteIfExists(unfinished);
            System.getLogger(ChronicleStore.class.getName())
                    .log(System.Logger.Level.WARNING, "{0} is mended without a copy of it: {1}", file, e.toString());
        }
    }

    /** Whether an earlier process has left values. */
    public static boolean holdsValues(final Path file) {
        return file.toFile().length() > 0 && !Files.exists(beside(file, MARK)) || Files.exists(beside(file, COPY));
    }

    /** Removes what an earlier process has left. */
    public static void remove(final Path file) throws IOException {
        for (final Path path : List.of(beside(file, COPY), beside(file, COPY + MARK), file, beside(file, MARK))) {
            Files.deleteIfExists(path);
        }
    }

    private static Path beside(final Path file, final String suffix) {
        return file.resolveSibling(file.getFileName() + suffix);
    }

    @Override
    public synchronized void put(final String key, final byte[] value) {
        final byte[] before = map.get(key + HEAD);
        final Head old = Head.of(before);
        // The parts get names of their own and the head comes last: a crash leaves the old value or the new one.
        final Head head = new Head(Math.max(1, (value.length + PART_BYTES - 1) / PART_BYTES), old.version() + 1);
        for (int i = 1; i < head.parts(); i++) {
            map.put(head.part(key, i), Arrays.copyOfRange(value, i * PART_BYTES,
                    Math.min(value.length, (i + 1) * PART_BYTES)));
        }
        final byte[] line = head.line();
        final int inFirst = Math.min(value.length, PART_BYTES);
        final byte[] first = Arrays.copyOf(line, line.length + inFirst);
        System.arraycopy(value, 0, first, line.length, inFirst);
        map.put(key + HEAD, first);
        for (int i = 1; i < old.parts(); i++) {
            map.remove(old.part(key, i));
        }
    }

    @Override
    public synchronized byte[] get(final String key) {
        final byte[] first = map.get(key + HEAD);
        if (first == null) {
            return null;
        }
        final Head head = Head.of(first);
        final ByteArrayOutputStream value = new ByteArrayOutputStream(head.parts() * PART_BYTES);
        final int start = head.line().length;
        value.write(first, start, first.length - start);
        for (int i = 1; i < head.parts(); i++) {
            final byte[] part = map.get(head.part(key, i));
            if (part == null) {
                return null; // lost in a crash: as if it had not been published
            }
            value.writeBytes(part);
        }
        return value.toByteArray();
    }

    /** How many parts a value has, and which version of it they are of. */
    private record Head(int parts, int version) {
        /** The head at the beginning of an entry KEY#0; null is a key without a value. */
        static Head of(final byte[] first) {
            if (first == null) {
                return new Head(0, 0);
            }
            int end = 0;
            while (first[end] != '\n') {
                end++;
            }
            final String[] numbers = new String(first, 0, end, StandardCharsets.US_ASCII).split(" ");
            return new Head(Integer.parseInt(numbers[0]), Integer.parseInt(numbers[1]));
        }

        byte[] line() {
            return (parts + " " + version + "\n").getBytes(StandardCharsets.US_ASCII);
        }

        String part(final String key, final int i) {
            return key + '#' + version + '.' + i;
        }
    }

    /** The head goes first: without it the parts are nothing. */
    @Override
    public synchronized void remove(final String key) {
        final Head old = Head.of(map.get(key + HEAD));
        map.remove(key + HEAD);
        for (int i = 1; i < old.parts(); i++) {
            map.remove(old.part(key, i));
        }
    }

    @Override
    public synchronized void removeAll(final String prefix) {
        map.keySet().removeIf(key -> key.startsWith(prefix));
    }

    @Override
    public synchronized void close() {
        map.close();
    }

    /** Not before it is closed: Chronicle Map asks for the file by its name whenever that is to grow. */
    @Override
    public synchronized void discard() {
        map.close();
        try {
            remove(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
