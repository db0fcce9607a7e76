// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Set;
import java.util.SplittableRandom;
import org.shadowverbs.coordinator.protocol.PrivateFiles;

/**
 * Which compression pays: the one with which a file is on the disk first. For that it compresses a sample of the file by each, and
 * measures how fast the disk takes what it is given. Small files are compressed on any disk: nobody notices the time, while a job of
 * many small ranks has several times as many bytes without.
 */
public final class CompressionPolicy {
    /** Less than this is not worth the question. */
    static final long SMALL = 64 << 10;
    private static final int PIECE = 64 << 10;
    private static final int PIECES = 24;
    private static final int PROBE = 16 << 20;
    /** A file of fewer bytes is not worth to measure the disk. */
    private static final long WORTH_A_PROBE = 64L << 20;
    /** Of a disk that was not measured; bytes a second. */
    private static final double USUAL_DISK = 500e6;
    /** By so much compression must be ahead of none. */
    private static final double WORTH = 0.9;
    /** Seconds that compression may take on any disk, if it leaves at most that share of the file. */
    private static final double UNNOTICED = 0.1;
    private static final double SMALLER = 0.75;
    private static final double NANOS = 1e9;

    private double disk = USUAL_DISK;
    private boolean measured;

    /**
     * How a sample was compressed.
     *
     * @param ratio compressed to plain bytes
     * @param speed plain bytes a second, of one core
     */
    record Sample(double ratio, double speed) {
        /** Seconds for a byte to be on the disk: it is compressed while another is written. */
        double seconds(final double diskSpeed, final double cores) {
            return Math.max(1 / (speed * cores), ratio / diskSpeed);
        }
    }

    /**
     * The one for a file.
     *
     * @param asked returned unless it is automatic
     * @param cores that will compress it; the processes of the job may want half of them
     */
    public Compression choose(final Compression asked, final Path file, final Cores cores) throws IOException {
        final long size = Files.size(file);
        if (asked.method() == Compression.Method.NONE || size < SMALL) {
            return Compression.NONE;
        }
        if (asked.method() != Compression.Method.AUTO) {
            return asked;
        }
        final ByteBuffer sample = sample(file);
        return choose(size, disk(file, size), Math.max(1, cores.count() / 2.0), measure(Compression.LZ4, sample),
                measure(Compression.ZSTD, sample));
    }

    /** By sizes, speeds and ratios alone. */
    static Compression choose(final long size, final double diskSpeed, final double cores, final Sample lz4, final Sample zstd) {
        final double none = 1 / diskSpeed;
        final double byLz4 = lz4.seconds(diskSpeed, cores);
        final double byZstd = zstd.seconds(diskSpeed, cores);
        if (Math.min(byLz4, byZstd) > none * WORTH) {
            return size / (lz4.speed * cores) <= UNNOTICED && lz4.ratio <= SMALLER ? Compression.LZ4 : Compression.NONE;
        }
        return byZstd < byLz4 ? Compression.ZSTD : Compression.LZ4;
    }

    private static ByteBuffer sample(final Path file) throws IOException {
        try (FileChannel in = FileChannel.open(file, StandardOpenOption.READ)) {
            final long size = in.size();
            final int pieces = (int) Math.min(PIECES, size / PIECE);
            final ByteBuffer sample = ByteBuffer.allocateDirect(pieces * PIECE);
            for (int i = 0; i < pieces; i++) {
                sample.limit((i + 1) * PIECE);
                Checksum.readFully(in, sample, (long) ((double) i / pieces * size / PIECE) * PIECE);
            }
            return sample.flip();
        }
    }

    private static Sample measure(final Compression by, final ByteBuffer sample) {
        final BlockCodec codec = BlockCodec.of(by);
        final ByteBuffer frame = ByteBuffer.allocateDirect(codec.longest(PIECE));
        long frames = 0;
        final long[] nanos = new long[sample.limit() / PIECE];
        for (int i = 0; i < nanos.length; i++) {
            final ByteBuffer piece = sample.duplicate().position(i * PIECE).limit((i + 1) * PIECE);
            final long begin = System.nanoTime();
            codec.encode(piece, frame.clear());
            nanos[i] = System.nanoTime() - begin;
            frames += frame.position();
        }
        Arrays.sort(nanos); // the first one loads the library, and others may take the core away
        return new Sample((double) frames / sample.limit(), PIECE / (Math.max(1, nanos[nanos.length / 2]) / NANOS));
    }

    /** Measured once in the life of an agent, with a file that is worth it. */
    private synchronized double disk(final Path file, final long size) throws IOException {
        if (!measured && size >= WORTH_A_PROBE) {
            disk = probe(file.resolveSibling(file.getFileName() + ".probe"));
            measured = true;
        }
        return disk;
    }

    private static double probe(final Path file) throws IOException {
        final byte[] noise = new byte[PROBE];
        new SplittableRandom().nextBytes(noise);
        try (FileChannel out = FileChannel.open(file, Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE,
                StandardOpenOption.DELETE_ON_CLOSE), PrivateFiles.FILE)) {
            final long begin = System.nanoTime();
            final ByteBuffer bytes = ByteBuffer.wrap(noise);
            while (bytes.hasRemaining()) {
                out.write(bytes);
            }
            out.force(false);
            return PROBE / ((System.nanoTime() - begin) / NANOS);
        }
    }
}
