// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.images;

import java.util.Locale;

/**
 * How image files are compressed, as a user names it: {@code auto}, {@code none}, {@code lz4}, {@code zstd} or
 * {@code zstd:LEVEL}.
 *
 * @param method which one
 * @param level of zstd, 1 to 19; else 0
 */
public record Compression(Method method, int level) {
    /** What can be named. */
    public enum Method {
        /** What takes the least time until the image is safe, chosen for each file: {@link CompressionPolicy}. */
        AUTO,
        NONE,
        LZ4,
        ZSTD
    }

    public static final Compression AUTO = new Compression(Method.AUTO, 0);
    public static final Compression NONE = new Compression(Method.NONE, 0);
    public static final Compression LZ4 = new Compression(Method.LZ4, 0);
    /** zstd as fast as it is. */
    public static final Compression ZSTD = new Compression(Method.ZSTD, 1);

    /** For messages. */
    public static final String NAMES = "auto|none|lz4|zstd[:LEVEL]";

    private static final int HIGHEST_LEVEL = 19;

    /**
     * Reads what a user has written.
     *
     * @throws IllegalArgumentException when it is none of these
     */
    public static Compression of(final String text) {
        return switch (text) {
            case "auto" -> AUTO;
            case "none" -> NONE;
            case "lz4" -> LZ4;
            case "zstd" -> ZSTD;
            default -> {
                final int level = text.matches("zstd:\\d{1,2}") ? Integer.parseInt(text.substring("zstd:".length())) : 0;
                if (level < 1 || level > HIGHEST_LEVEL) {
                    throw new IllegalArgumentException("'" + text + "' is none of auto, none, lz4, zstd, and zstd:1 to zstd:"
                            + HIGHEST_LEVEL);
                }
                yield new Compression(Method.ZSTD, level);
            }
        };
    }

    /** What a compressed file has behind its name; empty for one that is not compressed. */
    public String suffix() {
        return switch (method) {
            case LZ4 -> ".lz4";
            case ZSTD -> ".zst";
            default -> "";
        };
    }

    /** How a file with that name is compressed. */
    public static Compression ofFile(final String name) {
        return name.endsWith(LZ4.suffix()) ? LZ4 : name.endsWith(ZSTD.suffix()) ? ZSTD : NONE;
    }

    /** The name of the file that a compressed one was made of. */
    public static String plainName(final String name) {
        return name.substring(0, name.length() - ofFile(name).suffix().length());
    }

    /** As a user writes it. */
    @Override
    public String toString() {
        return method.name().toLowerCase(Locale.ROOT) + (level > 1 ? ":" + level : "");
    }
}
