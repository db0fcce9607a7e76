// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * A regular file that was open for writing, or in /dev/shm, and is put back at restart.
 *
 * @param path  its absolute path
 * @param bytes its length when all stood still
 * @param copy  the image file that holds its contents as it was mapped shared and writable, and so rewritten in
 *              place, or was in /dev/shm; empty when it only needs its length
 * @param mode  its permission bits, which CRIU compares when it opens it again; 0 in manifests that do not say
 * @param uid   its owner
 * @param gid   its group
 */
public record OutputFile(String path, long bytes, String copy, int mode, int uid, int gid) {
    private static final int PERMISSIONS = 07777;
    private static final int USUAL = 0644;

    /** @param file where this process finds it */
    static OutputFile of(final String path, final Path file, final String copy) throws IOException {
        final Map<String, Object> a = Files.readAttributes(file, "unix:size,mode,uid,gid");
        return new OutputFile(path, (long) a.get("size"), copy, (int) a.get("mode") & PERMISSIONS, (int) a.get("uid"),
                (int) a.get("gid"));
    }

    /** Gives a file that was made in its place its owner, group and mode, as far as the user may. */
    void own(final Path file) throws IOException {
        FileOwner.give(file, mode == 0 ? USUAL : mode, uid, gid);
    }
}
