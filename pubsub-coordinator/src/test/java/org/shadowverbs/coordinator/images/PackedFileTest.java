// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32C;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.lifecycle.AfterProperty;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class PackedFileTest {
    private static final int PAGE = 4096;

    private final Cores cores = new Cores();
    @TempDir
    Path folder;

    @AfterProperty
    void end() {
        cores.close();
    }

    /** Sizes around those of blocks. */
    @Provide
    Arbitrary<Integer> sizes() {
        return Arbitraries.of(0, 1, PAGE, PackedFile.BLOCK - 1, PackedFile.BLOCK, PackedFile.BLOCK + 1, 5 * PackedFile.BLOCK,
                7 * PackedFile.BLOCK + 3 * PAGE);
    }

    @Provide
    Arbitrary<String> methods() {
        return Arbitraries.of("lz4", "zstd", "zstd:3");
    }

    @Property(tries = 40)
    void whatIsCompressedComesBackAndItsChecksumIsThatOfItsBytes(@ForAll("sizes") final int size, @ForAll("methods") final String method,
            @ForAll final long seed) throws Exception {
        final Path here = Files.createTempDirectory("packed");
        final byte[] content = content(size, seed);
        final Path plain = Files.write(here.resolve("pages-1.img"), content);
        final Path packed = here.resolve("pages-1.img" + Compression.of(method).suffix());
        final AtomicLong told = new AtomicLong();

        final PackedFile.Written written = PackedFile.pack(plain, packed, Compression.of(method), cores, told::addAndGet);
        assertFalse(Files.exists(plain), "the plain file is gone");
        assertEquals(size, told.get());
        final byte[] bytes = Files.readAllBytes(packed);
        assertEquals(new PackedFile.Written(bytes.length, crc(bytes)), written);
        assertEquals(written.crc32c(), Checksum.of(packed, cores, n -> { }));
        assertEquals(size, PackedFile.plainBytes(packed));

        PackedFile.unpack(packed, plain, cores, n -> { });
        assertArrayEquals(content, Files.readAllBytes(plain));
        for (final Path file : new Path[] {plain, packed, here}) {
            Files.delete(file);
        }
    }

    @Property(tries = 20)
    void whatIsSealedPlainStaysAsItIsAndZerosTakeNoSpace(@ForAll("sizes") final int size, @ForAll final long seed) throws Exception {
        final Path here = Files.createTempDirectory("packed");
        final byte[] content = content(size, seed);
        final Path plain = Files.write(here.resolve("pages-1.img"), content);
        assertEquals(new PackedFile.Written(size, crc(content)), PackedFile.seal(plain, cores, n -> { }));
        assertArrayEquals(content, Files.readAllBytes(plain));
        Files.delete(plain);
        Files.delete(here);
    }

    @Test
    void aFileOfZerosTakesNoSpaceWhenItIsSealed() throws Exception {
        final Path plain = Files.write(folder.resolve("pages-1.img"), new byte[8 << 20]);
        PackedFile.seal(plain, cores, n -> { });
        assertEquals(8 << 20, Files.size(plain));
        final Process du = new ProcessBuilder("du", "-k", plain.toString()).start();
        final String kib = new String(du.getInputStream().readAllBytes()).split("\\s")[0];
        assertTrue(Integer.parseInt(kib) < 1024, kib + " KiB of 8192 are taken");
    }

    /** The formats are those of the usual tools. */
    @ParameterizedTest
    @ValueSource(strings = {"lz4", "zstd"})
    void theUsualToolsReadIt(final String method) throws Exception {
        final byte[] content = content(3 * PackedFile.BLOCK + PAGE, 1);
        final Path plain = Files.write(folder.resolve("pages-1.img"), content);
        final Path packed = folder.resolve("pages-1.img" + Compression.of(method).suffix());
        PackedFile.pack(plain, packed, Compression.of(method), cores, n -> { });
        final Process tool;
        try {
            tool = new ProcessBuilder(method, "-dc", packed.toString()).redirectOutput(plain.toFile()).start();
        } catch (IOException e) {
            return; // it is not installed here
        }
        assertEquals(0, tool.waitFor());
        assertArrayEquals(content, Files.readAllBytes(plain));
    }

    @ParameterizedTest
    @ValueSource(strings = {"lz4", "zstd"})
    void damageIsAnErrorThatNamesTheFile(final String method) throws Exception {
        final Path plain = Files.write(folder.resolve("pages-1.img"), content(3 * PackedFile.BLOCK, 1));
        final Path packed = folder.resolve("pages-1.img" + Compression.of(method).suffix());
        PackedFile.pack(plain, packed, Compression.of(method), cores, n -> { });
        final byte[] good = Files.readAllBytes(packed);
        for (final int length : new int[] {0, 5, good.length / 2, good.length - 1}) {
            Files.write(packed, java.util.Arrays.copyOf(good, length));
            final IOException cut = assertThrows(IOException.class, () -> unpack(packed), "cut to " + length);
            assertTrue(cut.getMessage().startsWith(packed + " cannot be decompressed: "), cut.getMessage());
        }
        final byte[] bad = good.clone();
        java.util.Arrays.fill(bad, 0, 64, (byte) 0x5a);
        Files.write(packed, bad);
        final IOException wrong = assertThrows(IOException.class, () -> unpack(packed));
        assertTrue(wrong.getMessage().startsWith(packed + " cannot be decompressed: "), wrong.getMessage());
    }

    @Test
    void oneThatCannotBeWrittenLeavesNothing() throws Exception {
        final Path plain = Files.write(folder.resolve("pages-1.img"), content(PackedFile.BLOCK, 1));
        final Path nowhere = folder.resolve("none").resolve("pages-1.img.lz4");
        assertThrows(IOException.class, () -> PackedFile.pack(plain, nowhere, Compression.LZ4, cores, n -> { }));
        assertTrue(Files.exists(plain));
    }

    private void unpack(final Path packed) throws IOException, InterruptedException {
        final Path plain = folder.resolve("unpacked");
        Files.deleteIfExists(plain);
        PackedFile.unpack(packed, plain, cores, n -> { });
    }

    /** Pages of zeros, of noise, and of text, in turn. */
    private static byte[] content(final int size, final long seed) {
        final byte[] content = new byte[size];
        final Random random = new Random(seed);
        for (int page = 0; page < size; page += PAGE) {
            final byte[] noise = new byte[Math.min(PAGE, size - page)];
            final int kind = random.nextInt(3);
            if (kind == 1) {
                random.nextBytes(noise);
            } else if (kind == 2) {
                java.util.Arrays.fill(noise, (byte) random.nextInt());
            }
            System.arraycopy(noise, 0, content, page, noise.length);
        }
        return content;
    }

    private static String crc(final byte[] bytes) {
        final CRC32C crc = new CRC32C();
        crc.update(bytes);
        return HexFormat.of().toHexDigits((int) crc.getValue());
    }
}
