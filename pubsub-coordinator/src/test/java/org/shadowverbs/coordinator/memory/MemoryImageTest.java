// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.WireFormat;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MemoryImageTest {
    private static final int PAGE = PageRange.PAGE;
    private static final long PID = 17;
    private static final int ID = 3;
    private static final long BASE = 0x7f0000000000L;
    /** Of one that is in what the image builds on. */
    private static final int KNOWN = -1;

    /** @param gap pages between it and the one before */
    private record Range(int gap, int pages, boolean known, boolean again) {
    }

    @Provide
    Arbitrary<List<Range>> ranges() {
        return Combinators.combine(Arbitraries.integers().between(0, 3), Arbitraries.integers().between(1, 4),
                Arbitraries.of(true, false), Arbitraries.of(true, false)).as(Range::new).list().ofMaxSize(12);
    }

    @Property(tries = 200)
    void criuFindsEachPage(@ForAll("ranges") final List<Range> ranges) throws IOException {
        final Path folder = Files.createTempDirectory("memory-image");
        try {
            final Map<Long, Integer> expected = new TreeMap<>();
            int stamp = 0;
            try (MemoryImage image = new MemoryImage(folder, PID, ID)) {
                long at = BASE;
                for (final Range range : ranges) {
                    at += (long) range.gap * PAGE;
                    final PageRange pages = new PageRange(at, at + (long) range.pages * PAGE, true);
                    if (range.known) {
                        image.addKnown(pages);
                    } else {
                        image.add(pages, content(++stamp, range.pages));
                    }
                    for (int i = 0; i < range.pages; i++, at += PAGE) {
                        expected.put(at, range.known ? KNOWN : stamp);
                    }
                    if (range.again && !range.known) {
                        image.replace(new PageRange(at - PAGE, at, true), content(++stamp, 1));
                        expected.put(at - PAGE, stamp);
                    }
                }
                image.finish();
            }
            assertEquals(expected, new TreeMap<>(asCriuReads(folder)));
        } finally {
            for (final String file : List.of("pagemap-" + PID + ".img", "pages-" + ID + ".img", "")) {
                Files.deleteIfExists(folder.resolve(file));
            }
        }
    }

    @Test
    void whatIsOutOfOrderIsRefused(@TempDir final Path folder) throws IOException {
        try (MemoryImage image = new MemoryImage(folder, PID, ID)) {
            image.add(new PageRange(BASE, BASE + 2 * PAGE, true), content(1, 2));
            final PageRange again = new PageRange(BASE + PAGE, BASE + 3 * PAGE, true);
            assertThrows(IllegalArgumentException.class, () -> image.add(again, content(2, 2)));
            assertThrows(IllegalArgumentException.class, () -> image.addKnown(again));
        }
    }

    private static ByteBuffer content(final int stamp, final int pages) {
        final ByteBuffer content = ByteBuffer.allocate(pages * PAGE);
        while (content.hasRemaining()) {
            content.putInt(stamp);
        }
        return content.flip();
    }

    /** @return for each page its first word */
    private static Map<Long, Integer> asCriuReads(final Path folder) throws IOException {
        final Map<Long, Integer> found = new HashMap<>();
        final ByteBuffer pages = ByteBuffer.wrap(Files.readAllBytes(folder.resolve("pages-" + ID + ".img")));
        final ByteBuffer map = ByteBuffer.wrap(Files.readAllBytes(folder.resolve("pagemap-" + PID + ".img"))).order(ByteOrder.LITTLE_ENDIAN);
        map.position(2 * Integer.BYTES);
        assertEquals(ID, (long) message(map).get(1));
        int offset = 0;
        while (map.hasRemaining()) {
            final Map<Integer, Long> entry = message(map);
            for (long i = 0, at = entry.get(1); i < entry.get(2); i++, at += PAGE) {
                final boolean present = entry.get(4) == 4;
                found.put(at, present ? (Integer) pages.getInt(offset) : (Integer) KNOWN);
                offset += present ? PAGE : 0;
            }
        }
        assertEquals(pages.capacity(), offset);
        return found;
    }

    /** @return its fields, which are numbers */
    private static Map<Integer, Long> message(final ByteBuffer map) throws IOException {
        final Map<Integer, Long> fields = new HashMap<>();
        final byte[] bytes = new byte[map.getInt()];
        map.get(bytes);
        final CodedInputStream in = CodedInputStream.newInstance(bytes);
        for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
            fields.put(WireFormat.getTagFieldNumber(tag), in.readUInt64());
        }
        return fields;
    }
}
