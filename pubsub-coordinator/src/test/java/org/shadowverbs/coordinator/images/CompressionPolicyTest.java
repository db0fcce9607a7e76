// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class CompressionPolicyTest {
    private static final double MB = 1e6;

    @TempDir
    Path folder;

    /** The file in MB, speeds of the disk, of LZ4 and of zstd in MB a second of a core, and what they leave of the file. */
    @ParameterizedTest
    @CsvSource({
        "1000, 100,  700, 0.5, 400, 0.3, 1, ZSTD",   // a slow disk: fewer bytes count
        "1000, 500,  700, 0.5, 400, 0.3, 1, LZ4",    // zstd is slower than the disk
        "1000, 3000, 700, 0.5, 400, 0.3, 1, NONE",   // so are both
        "1000, 3000, 700, 0.5, 400, 0.3, 8, LZ4",    // but not by several cores
        "1000, 100,  700, 1.0, 400, 1.0, 8, NONE",   // noise
        "1000, 100,  700, 0.95, 400, 0.93, 8, NONE", // not worth it
        "69,   3000, 700, 0.75, 400, 0.3, 1, LZ4",   // done before it is noticed
        "71,   3000, 700, 0.75, 400, 0.3, 1, NONE",  // longer than that
        "69,   3000, 700, 0.76, 400, 0.3, 1, NONE",  // for too little
        "10,   100,  700, 0.5, 400, 0.3, 1, ZSTD"    // small, and the disk is slow
    })
    void whatIsOnTheDiskFirstAndWhatIsSmall(final long size, final double disk, final double lz4, final double lz4Ratio, final double zstd,
            final double zstdRatio, final double cores, final Compression.Method method) {
        assertEquals(method, CompressionPolicy.choose(size * (long) MB, disk * MB, cores,
                new CompressionPolicy.Sample(lz4Ratio, lz4 * MB), new CompressionPolicy.Sample(zstdRatio, zstd * MB)).method());
    }

    @Test
    void asItWasAskedForButNotForALittle() throws Exception {
        final CompressionPolicy policy = new CompressionPolicy();
        final Path little = Files.write(folder.resolve("little"), new byte[100]);
        final Path noise = folder.resolve("noise");
        final byte[] bytes = new byte[2 << 20];
        new Random(1).nextBytes(bytes);
        Files.write(noise, bytes);
        try (Cores cores = new Cores()) {
            assertEquals(Compression.NONE, policy.choose(Compression.ZSTD, little, cores));
            assertEquals(Compression.LZ4, policy.choose(Compression.LZ4, noise, cores));
            assertEquals(Compression.NONE, policy.choose(Compression.NONE, noise, cores));
            assertEquals(Compression.NONE, policy.choose(Compression.AUTO, noise, cores));
        }
    }

    @Test
    void readsWhatAUserWrites() {
        for (final String text : new String[] {"auto", "none", "lz4", "zstd", "zstd:19"}) {
            assertEquals(text, Compression.of(text).toString());
        }
        for (final String text : new String[] {"", "gzip", "lz4:1", "zstd:", "zstd:0", "zstd:20", "zstd:-1"}) {
            assertThrows(IllegalArgumentException.class, () -> Compression.of(text), text);
        }
        assertEquals("pages-1.img", Compression.plainName("pages-1.img.zst"));
        assertEquals("core-1.img", Compression.plainName("core-1.img"));
    }
}
